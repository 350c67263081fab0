"""How this client says who it is: by nothing, by its certificate, by a token of the settings, or by one of a file."""

import base64
import json
import math
from pathlib import Path
from typing import Any, Protocol

from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import PulsarError
from bridge.telemetry import log
from bridge.telemetry.metrics import PulsarMetrics

_log = log.get(__name__)


class NoToken(PulsarError):
    """There is no token to be had now; later there may be."""

    def __init__(self, reason: str) -> None:
        super().__init__(pb.ServiceNotReady, reason)


class Credentials(Protocol):
    """Asked for each connection, each answer to a challenge, and each HTTP request."""

    @property
    def method(self) -> str:
        """Pulsar's name of the authentication method."""

    async def data(self) -> bytes:
        """What CommandConnect and CommandAuthResponse carry; NoToken, or another PulsarError."""

    def refused(self, data: bytes) -> None:
        """Pulsar does not take this any more: something else is wanted, if there is anything else."""

    async def close(self) -> None:
        """Nothing is asked for any more."""


class NoCredentials:
    """For a Pulsar that asks no client."""

    method = "none"

    async def data(self) -> bytes:
        """Nothing."""
        return b""

    def refused(self, data: bytes) -> None:
        """There is nothing else."""

    async def close(self) -> None:
        """Nothing to end."""


class CertificateLogin(NoCredentials):
    """The certificate that TLS has shown says it (AuthenticationProviderTls)."""

    method = "tls"


class StaticToken(NoCredentials):
    """The token that the settings hold."""

    method = "token"

    def __init__(self, token: str, metrics: PulsarMetrics | None = None) -> None:
        self._token = token.encode()
        if metrics is not None:
            metrics.token_ends("settings", expiry_of(self._token))

    async def data(self) -> bytes:
        """The token."""
        return self._token


class TokenFile(NoCredentials):
    """A token in a file, read for each use, so that a new one counts at once.

    A file that cannot be read, or is empty because it is just being written, leaves the token that was there.
    """

    method = "token"

    def __init__(self, path: str, metrics: PulsarMetrics) -> None:
        self._path = Path(path)
        self._metrics = metrics
        self._token = b""
        self._problem = ""

    async def data(self) -> bytes:
        """The token that the file holds now."""
        return self.read()

    def read(self) -> bytes:
        """The token that the file holds now, or else held before; PulsarError where there was none yet."""
        try:
            read = self._path.read_bytes().strip()
            problem = "" if read else "it is empty, put the token there"
        except OSError as error:
            read, problem = b"", error.strerror or type(error).__name__
        if problem and problem != self._problem:
            _log.error("! pulsar token file not read", extra={"file": str(self._path), "reason": problem})
        self._problem = problem
        if read and read != self._token:
            self._token = read
            self._metrics.token_ends("file", expiry_of(read))
        if not self._token:
            raise PulsarError(pb.AuthenticationError, f"pulsar.token_file: cannot read {self._path}: {problem}")
        return self._token


def expiry_of(token: bytes) -> int:
    """When a JWT says that it ends, in Unix seconds; 0: it does not say. Nothing is proved by it."""
    try:
        return max(0, math.floor(float(_claims(token)["exp"])))
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return 0


def claim_of(token: bytes, name: str) -> str | None:
    """What a JWT says of itself. It is for the bridge's own tokens: nothing is proved by it."""
    try:
        return str(_claims(token)[name])
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _claims(token: bytes) -> Any:
    _, claims, _ = token.split(b".")
    return json.loads(base64.urlsafe_b64decode(claims + b"=" * (-len(claims) % 4)))
