"""Where a token issuer's keys come from: a file, or a URL that is fetched again from time to time."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Final
from urllib.parse import urlsplit

from jwt import PyJWK

from bridge.access.files import ReloadedFile
from bridge.config.urls import url_without_secrets
from bridge.net.http1 import HttpError
from bridge.net.http_client import HttpClient
from bridge.security import jwks
from bridge.security.sasl.credentials import CredentialsUnavailable
from bridge.telemetry import log

Fetch = Callable[[], Awaitable[bytes]]
"""Gets the document from the issuer, by https with its host name checked, in bounded time; else any exception."""
RETRY_SECONDS: Final = 10.0
"""Between two fetches at least, whatever key ids clients send."""
MAX_BYTES: Final = 1024 * 1024
_CONNECT_SECONDS: Final = 5.0
_FETCH_SECONDS: Final = 10.0
_LOG = log.get(__name__)


class FileKeySet:
    """The keys in a file (`jwks.KeySet`)."""

    def __init__(self, path: Path) -> None:
        """StartupError if there is no such file, or it is no key set."""
        self._file = ReloadedFile(path, jwks.parse, "JSON web key set")

    async def find(self, key_id: str | None, algorithm: str) -> Sequence[PyJWK]:
        """The keys that may have signed a token with this header."""
        return self._file.value.find(key_id, algorithm)

    def refresh(self) -> bool:
        """Read the file again if it has changed (`files.ReloadedFile`): whether keys have."""
        return self._file.refresh()


class UrlKeySet:
    """The keys at a URL (`jwks.KeySet`), fetched when they are old and when a token has a key id they do not have.

    Keys of more than half the age that they may have are fetched again, while tokens do not wait. Older ones than they
    may be are not taken: the issuer may have withdrawn them. While a fetch fails, those of before stay as long as that.
    A client whose key may be a new one may then try again; so may all while there are no keys at all.
    """

    def __init__(self, fetch: Fetch, refresh_seconds: float = 3600.0, clock: Callable[[], float] = monotonic) -> None:
        """`refresh_seconds`: how old keys may be."""
        self._fetch = fetch
        self._refresh_seconds = refresh_seconds
        self._clock = clock
        self._keys: jwks.Keys | None = None
        self._fetched_at = self._tried_at = float("-inf")
        self._failed = False
        self._running: asyncio.Task[None] | None = None

    async def find(self, key_id: str | None, algorithm: str) -> Sequence[PyJWK]:
        """The keys that may have signed a token with this header. A known key does not wait for a fetch."""
        if found := self._known(key_id, algorithm):
            if self._age() >= self._refresh_seconds / 2:
                self._refreshing()
            return found
        if running := self._refreshing():
            await asyncio.shield(running)
        found = self._known(key_id, algorithm)
        if not found and (self._keys is None or self._failed or self._age() >= self._refresh_seconds):
            raise CredentialsUnavailable("the token issuer's keys cannot be fetched")
        return found

    def stop(self) -> None:
        """Give up a fetch that runs."""
        if self._running is not None:
            self._running.cancel()

    async def close(self) -> None:
        """As `stop`, and wait for its end."""
        self.stop()
        if self._running is not None:
            with suppress(asyncio.CancelledError):
                await self._running

    def _known(self, key_id: str | None, algorithm: str) -> Sequence[PyJWK]:
        if self._keys is None or self._age() >= self._refresh_seconds:
            return ()
        return self._keys.find(key_id, algorithm)

    def _age(self) -> float:
        return self._clock() - self._fetched_at

    def _refreshing(self) -> "asyncio.Task[None] | None":
        """The fetch that runs, or a new one, or none so shortly after the last."""
        if self._running is None or self._running.done():
            if self._clock() - self._tried_at < RETRY_SECONDS:
                return None
            self._tried_at = self._clock()
            self._running = asyncio.get_running_loop().create_task(self._refresh())
        return self._running

    async def _refresh(self) -> None:
        began = self._clock()  # the document may be of this time
        try:
            content = await self._fetch()
            if len(content) > MAX_BYTES:
                raise ValueError(f"it has more than {MAX_BYTES} bytes")
            self._keys = jwks.parse(content)
        except Exception as error:  # noqa: BLE001 — whatever is wrong there, the old keys stay
            self._failed = True
            _LOG.error("! token issuer's keys not fetched", extra={"reason": str(error) or type(error).__name__})
            return
        self._failed = False
        self._fetched_at = began


class HttpsFetch:
    """Fetches the key set at one URL of the settings. Redirects are not followed."""

    def __init__(self, url: str, tls: ssl.SSLContext | None = None) -> None:
        """`tls`: without one the system's certificate authorities are trusted. ValueError if it is no https: URL.

        Whatever is fetched decides who is let in, so a way on which it can be changed is not taken.
        """
        parts = urlsplit(url)
        if parts.scheme != "https" or not parts.hostname:
            raise ValueError(f"a key set's URL begins with https://, not as {url_without_secrets(url)!r}")
        self._url = url
        self._tls = tls or ssl.create_default_context()  # once: reading the authorities takes tens of milliseconds

    async def __call__(self) -> bytes:
        """The document; HttpError, OSError or TimeoutError if it is not to be had."""
        client = HttpClient(1, _CONNECT_SECONDS, lambda: self._tls)
        try:
            async with asyncio.timeout(_FETCH_SECONDS):
                answer = await client.request("GET", self._url, {})
        except TimeoutError:
            raise TimeoutError(f"no answer within {_FETCH_SECONDS:.0f} s") from None
        finally:
            await client.close()
        if answer.status != 200:
            raise HttpError(f"the answer is HTTP {answer.status}")
        return answer.body
