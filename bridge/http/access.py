"""Who may read the metrics and the status page: those who show a token, where the settings have one.

Programs show it as a bearer token (RFC 6750). Browsers ask for a name and a password (RFC 7617): the password is the
token, and any name will do.
"""

import asyncio
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import h11

from bridge.access.files import ReloadedFile
from bridge.config import HttpSettings
from bridge.config.http import is_bearer_token
from bridge.telemetry import log
from bridge.telemetry.instruments import Counter

OPEN_PATHS: Final = frozenset({"/healthz", "/readyz", "/startupz"})
"""What probes ask: those of Kubernetes show no token."""
REFRESH_SECONDS: Final = 1.0
TELL_SECONDS: Final = 1.0
"""The log has one line of refused requests in so many seconds."""
_MOST_TOKENS: Final = 16
_CHALLENGE: Final = 'Bearer realm="bridge"'
_BASIC_CHALLENGE: Final = 'Basic realm="bridge", charset="UTF-8"'
_MOST_BASIC_BYTES: Final = 4096
_log = log.get(__name__)


class HttpAccess:
    """Judges requests by their tokens."""

    def __init__(self, settings: HttpSettings, unauthorized: Counter) -> None:
        """`unauthorized` counts the requests that are refused. StartupError where the file is unfit."""
        self._unauthorized = unauthorized
        self._digests = (_digest(settings.token.encode()),) if settings.token else ()
        self._file: ReloadedFile[tuple[bytes, ...]] | None = None
        if settings.token_file:
            self._file = ReloadedFile(Path(settings.token_file), parse, "tokens of http.token_file")
        self._refused = 0  # since the last line of the log
        self._told_at = float("-inf")

    @property
    def is_restricted(self) -> bool:
        """Whether a token is asked for."""
        return bool(self._digests) or self._file is not None

    def allows(self, headers: Sequence[tuple[bytes, bytes]]) -> bool:
        """Whether a request with these headers may read everything."""
        if not self.is_restricted:
            return True
        shown = _token(headers)
        if shown is None:
            return False
        digest = _digest(shown)
        known = self._digests if self._file is None else self._file.value
        # each is compared, so that the time tells nothing of which it was
        return any([hmac.compare_digest(digest, one) for one in known])

    def refuse(self, request: h11.Request, peer: str, now: float) -> tuple[str, str]:
        """Count and tell it; what the answer's two WWW-Authenticate say (RFC 6750, 3; RFC 7617, 2).

        Two headers, for browsers read no more than the first challenge of each.
        """
        wrong = _token(request.headers) is not None
        self._unauthorized.inc()
        self._refused += 1
        if now >= self._told_at + TELL_SECONDS:
            reason = "wrong token" if wrong else "no token"
            fields = {"listener": "http", "peer": peer, "reason": reason, "refused": self._refused}
            _log.warning("! unauthorized", extra=fields)
            self._told_at, self._refused = now, 0
        return f'{_CHALLENGE}, error="invalid_token"' if wrong else _CHALLENGE, _BASIC_CHALLENGE

    async def follow(self) -> None:
        """Take what changes in the file, until cancelled."""
        while self._file is not None:
            await asyncio.sleep(REFRESH_SECONDS)
            await asyncio.to_thread(self._file.refresh)


def parse(content: bytes) -> tuple[bytes, ...]:
    """The digests of a file's tokens, one a line; ValueError where it has none, or what is none."""
    try:
        lines = [line.strip() for line in content.decode("ascii").splitlines()]
    except UnicodeDecodeError:
        raise ValueError("it is not ASCII text") from None
    tokens = [(number, line) for number, line in enumerate(lines, 1) if line]
    for number, token in tokens:
        if not is_bearer_token(token):
            raise ValueError(f"line {number} is no token: letters, digits and - . _ ~ + /, then perhaps =")
    if not 0 < len(tokens) <= _MOST_TOKENS:
        raise ValueError(f"it has {len(tokens)} tokens: 1 to {_MOST_TOKENS} are possible, one a line")
    return tuple(_digest(token.encode()) for _, token in tokens)


def _token(headers: Sequence[tuple[bytes, bytes]]) -> bytes | None:
    """What a request shows; None where it shows nothing, or not one thing."""
    shown = [value for name, value in headers if name == b"authorization"]
    if len(shown) != 1:
        return None
    scheme, _, token = shown[0].partition(b" ")
    if scheme.lower() == b"bearer":
        return token.strip()
    return _password(token.strip()) if scheme.lower() == b"basic" else None


def _password(credentials: bytes) -> bytes | None:
    """That of `name:password` in base64; None where it is something else."""
    if len(credentials) > _MOST_BASIC_BYTES:
        return None
    try:
        _, colon, password = binascii.a2b_base64(credentials, strict_mode=True).partition(b":")
    except binascii.Error:
        return None
    return password if colon else None


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
