"""Fetches a token issuer's key set by https (`key_sets.Fetch`)."""

import asyncio
import ssl
from typing import Final
from urllib.parse import urlsplit

from bridge.config.urls import url_without_secrets
from bridge.net.http1 import HttpError
from bridge.net.http_client import HttpClient

_CONNECT_SECONDS: Final = 5.0
_SECONDS: Final = 10.0


class HttpsFetch:
    """One URL of the operator's settings. Redirects are not followed: what is fetched is what the settings name."""

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
            async with asyncio.timeout(_SECONDS):
                answer = await client.request("GET", self._url, {})
        except TimeoutError:
            raise TimeoutError(f"no answer within {_SECONDS:.0f} s") from None
        finally:
            await client.close()
        if answer.status != 200:
            raise HttpError(f"the answer is HTTP {answer.status}")
        return answer.body
