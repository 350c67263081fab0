"""OAuth2 client credentials (RFC 6749, 4.4), as Pulsar's own clients have them: a key file, an issuer, an audience."""

import asyncio
import json
import random
import re
import ssl
import time
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from bridge.config import PulsarSettings
from bridge.config.pulsar import is_secret_url
from bridge.config.urls import url_without_secrets
from bridge.net.http1 import HttpError
from bridge.net.http_client import HttpClient, Response
from bridge.pulsar.auth.credentials import NoToken, expiry_of
from bridge.pulsar.types import ClientClosed
from bridge.runtime.futures import retrieve_exception, wait_shared
from bridge.telemetry import log
from bridge.telemetry.metrics import PulsarMetrics

_log = log.get(__name__)

_DISCOVERY: Final = "/.well-known/openid-configuration"
_CONNECT_SECONDS: Final = 5.0
_SECONDS: Final = 10.0
_MAX_BODY_BYTES: Final = 1 << 20
_MARGIN_SECONDS: Final = 1.0
"""A token so near to its end may end on the way."""
_REFRESH_AT: Final = 0.8
"""Of its life: a fifth is left for an issuer that is away."""
_UNKNOWN_LIFE_SECONDS: Final = 3600.0
_MIN_AGE_SECONDS: Final = 5.0
"""A token that is younger is not given up because Pulsar refuses it: it is not its age that is wrong."""
_MAX_DELAY_SECONDS: Final = 30.0


class _Token(NamedTuple):
    """A token; times are of the monotonic clock."""

    value: bytes
    fetched_at: float
    ends_at: float

    def __repr__(self) -> str:
        return "_Token(not shown)"


class OAuth2:
    """One token for all connections. It is fetched again before it ends, and kept while the issuer does not answer."""

    method = "token"  # Pulsar's AuthenticationOAuth2 says so, too

    def __init__(self, settings: PulsarSettings, metrics: PulsarMetrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self._token: _Token | None = None
        self._endpoint = settings.oauth2_token_url
        self._fetching: asyncio.Task[_Token] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._delay = 1.0
        self._failure: NoToken | None = None
        self._retry_at = 0.0
        self._closed = False

    async def data(self) -> bytes:
        """The token at hand while it lasts, else a new one; NoToken."""
        token = self._token
        if token is not None and time.monotonic() < token.ends_at:
            return token.value
        if self._closed:
            raise ClientClosed("the Pulsar client")
        if self._fetching is None and self._failure is not None and time.monotonic() < self._retry_at:
            raise self._failure  # the issuer was asked a moment ago
        # One waiter's cancellation is not the others'.
        return (await wait_shared(self._fetch(), ClientClosed("the Pulsar client"))).value

    def refused(self, data: bytes) -> None:
        """Pulsar does not take this token any more: the next one is fetched, but not at every refusal."""
        token = self._token
        if token is None or token.value != data or time.monotonic() - token.fetched_at < _MIN_AGE_SECONDS:
            return
        self._token = None

    async def close(self) -> None:
        """Fetch no more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.gather(self._fetching, return_exceptions=True)

    # --- fetching -------------------------------------------------------------------------------------------------

    def _fetch(self) -> "asyncio.Task[_Token]":
        if self._fetching is None:
            self._fetching = asyncio.get_running_loop().create_task(self._fetched(), name="fetch a token for Pulsar")
            self._fetching.add_done_callback(retrieve_exception)
        return self._fetching

    async def _fetched(self) -> _Token:
        try:
            async with asyncio.timeout(_SECONDS):
                value, life = await self._ask()
        except (HttpError, OSError, ValueError) as error:  # TimeoutError is an OSError
            reason = "no answer in time" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
            raise self._failed(reason) from None
        finally:
            self._fetching = None
        now = time.monotonic()
        self._token = _Token(value, now, now + max(life - _MARGIN_SECONDS, life / 2))
        self._failure, self._delay = None, 1.0
        self._metrics.token_fetches.inc()
        self._metrics.token_ends("oauth2", int(time.time() + life))
        self._again_in(life * _REFRESH_AT * random.uniform(0.95, 1.0))  # noqa: S311 - no secret
        _log.info("= pulsar token fetched", extra={"issuer": self._place, "seconds": round(life)})
        return self._token

    def _failed(self, reason: str) -> NoToken:
        """What is raised; another attempt follows by itself."""
        failure = NoToken(f"no token from {self._place}: {reason}")
        is_news = self._failure is None or str(self._failure) != str(failure)
        (_log.error if is_news else _log.debug)("! pulsar token not fetched", extra={"reason": str(failure)})
        self._metrics.token_fetch_errors.inc()
        if not self._settings.oauth2_token_url:
            self._endpoint = ""  # it may have moved
        delay, self._delay = self._delay, min(2 * self._delay, _MAX_DELAY_SECONDS)
        self._failure, self._retry_at = failure, time.monotonic() + delay
        self._again_in(delay * random.uniform(1.0, 1.2))  # noqa: S311 - no secret
        return failure

    def _again_in(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._closed:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._fetch)

    @property
    def _place(self) -> str:
        url = self._settings.oauth2_token_url or self._settings.oauth2_issuer_url
        return url_without_secrets(url) or "the key file's issuer"

    async def _ask(self) -> tuple[bytes, float]:
        """A new token, and how many seconds it lasts; ValueError says what is wrong with the answer."""
        settings = self._settings
        key = _key(await asyncio.to_thread(Path(settings.oauth2_key_file).read_bytes))
        tls = await asyncio.to_thread(ssl.create_default_context, cafile=settings.oauth2_ca_file or None)
        http = HttpClient(1, _CONNECT_SECONDS, lambda: tls, max_body_bytes=_MAX_BODY_BYTES)
        try:
            if not self._endpoint:
                self._endpoint = await _discover(http, settings.oauth2_issuer_url or key.issuer)
            form = {"grant_type": "client_credentials", "client_id": key.client_id, "client_secret": key.client_secret}
            if settings.oauth2_audience:
                form["audience"] = settings.oauth2_audience
            if settings.oauth2_scope:
                form["scope"] = settings.oauth2_scope
            headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
            return _read(await http.request("POST", self._endpoint, headers, urlencode(form).encode()))
        finally:
            await http.close()


class _Key(NamedTuple):
    """Pulsar's key file: `{"type": "client_credentials", "client_id": …, "client_secret": …, "issuer_url": …}`."""

    client_id: str
    client_secret: str
    issuer: str


def _key(content: bytes) -> _Key:
    key = _object(content, "pulsar.oauth2_key_file")
    if key.get("type", "client_credentials") != "client_credentials":
        raise ValueError("pulsar.oauth2_key_file is of another type than client_credentials")
    client_id, secret, issuer = (key.get(name, "") for name in ("client_id", "client_secret", "issuer_url"))
    if not (isinstance(client_id, str) and client_id and isinstance(secret, str) and secret):
        raise ValueError("pulsar.oauth2_key_file has no client_id or no client_secret")
    return _Key(client_id, secret, issuer if isinstance(issuer, str) else "")


async def _discover(http: HttpClient, issuer: str) -> str:
    """The token endpoint that the issuer names (OpenID Connect Discovery, 4)."""
    if not is_secret_url(issuer):
        raise ValueError("there is no https:// issuer: set pulsar.oauth2_issuer_url or pulsar.oauth2_token_url")
    answer = await http.request("GET", issuer.rstrip("/") + _DISCOVERY, {"Accept": "application/json"})
    if answer.status != 200:
        raise ValueError(f"{_DISCOVERY} answered HTTP {answer.status}")
    document = _object(answer.body, _DISCOVERY)
    named, endpoint = str(document.get("issuer", "")), str(document.get("token_endpoint", ""))
    if named.rstrip("/") != issuer.rstrip("/"):
        raise ValueError(f"{_DISCOVERY} is of another issuer: {named[:200]!r}")
    if not is_secret_url(endpoint):
        raise ValueError(f"its token endpoint is not https: {endpoint[:200]!r}")
    return endpoint


def _read(answer: Response) -> tuple[bytes, float]:
    if answer.status != 200:
        try:
            said = _object(answer.body, "")
        except ValueError:
            said = {}
        words = " ".join(str(said.get(name, ""))[:200] for name in ("error", "error_description"))
        raise ValueError(f"HTTP {answer.status} {words}".strip())
    said = _object(answer.body, "the answer")
    token = said.get("access_token")
    if not isinstance(token, str) or re.fullmatch(r"[!-~]{1,65536}", token) is None:
        raise ValueError("the answer has no access_token that can be used")
    if str(said.get("token_type", "bearer")).lower() != "bearer":
        raise ValueError("the answer's token is no bearer token")
    return token.encode(), _life(token.encode(), said.get("expires_in"))


def _life(token: bytes, expires_in: Any) -> float:
    """In seconds. The token's own claim counts where the answer says nothing."""
    try:
        life = float(expires_in)
    except (TypeError, ValueError):
        end = expiry_of(token)
        life = end - time.time() if end else _UNKNOWN_LIFE_SECONDS
    if not life > 0:
        raise ValueError("the answer's token has ended")
    return min(life, 86_400.0 * 365)


def _object(content: bytes, what: str) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ValueError(f"{what} is no JSON object")
    return found
