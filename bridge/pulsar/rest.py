"""Calls to Pulsar's admin REST interface: addresses, redirects, answers, errors."""

import json
import re
import ssl
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlsplit

import aiohttp
from yarl import URL

from bridge.config import PulsarSettings
from bridge.errors import BridgeError
from bridge.fairness import FairLimit
from bridge.pulsar.auth import Token, tls_context

LOST: Final = 0
"""The status of an answer that never came."""
_MAX_REDIRECTS: Final = 10
_AT_ONCE: Final = 16
"""Questions, and as many changes: a broker does not answer faster when more wait. Who changes something does not wait
behind who asks for everything."""
_UNEXPECTED: Final = re.compile(
    r"unexpected error occurred in the server.*?^Message: ([^\n]*)", re.DOTALL | re.MULTILINE
)

_Answer = TypeVar("_Answer")


class AdminError(BridgeError):
    """The broker's HTTP side refused or could not be reached (status 0); the reason is its own."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"HTTP {status}: {reason}" if status else reason)
        self.status = status
        self.reason = reason

    @property
    def retriable(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status in (LOST, 408, 429) or self.status >= 500


class Forbidden(AdminError):
    """401 or 403: not logged in, or not allowed."""


class NotFound(AdminError):
    """404: no such topic, namespace, tenant or policy."""


class Conflict(AdminError):
    """409: it exists already, or is in use."""


_ERRORS: Final[Mapping[int, type[AdminError]]] = {401: Forbidden, 403: Forbidden, 404: NotFound, 409: Conflict}


class Rest:
    """One HTTP client for one admin URL; `start` before use, `close` after."""

    def __init__(self, settings: PulsarSettings) -> None:
        self._url = settings.admin_url.rstrip("/")
        self._timeout = aiohttp.ClientTimeout(
            total=settings.operation_timeout_seconds, sock_connect=settings.connect_timeout_seconds
        )
        self._token = Token(settings)
        self._tls: ssl.SSLContext | bool = tls_context(settings) if self._url.startswith("https:") else True
        self._session: aiohttp.ClientSession | None = None
        self._questions, self._changes = FairLimit(_AT_ONCE), FairLimit(_AT_ONCE)

    async def start(self) -> None:
        """Open the HTTP session; nothing is asked yet."""
        connector = aiohttp.TCPConnector(ssl=self._tls, limit=2 * _AT_ONCE)
        self._session = aiohttp.ClientSession(timeout=self._timeout, connector=connector)

    async def close(self) -> None:
        """Close the HTTP session."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def get(self, path: str) -> Any:
        """The answer to a GET."""
        return await self.call("GET", path)

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: str | None = None,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> Any:
        """The answer's JSON, or its text where it is none; AdminError otherwise."""
        return _json(await self._ask(method, path, _text, body, content_type, query))

    async def headers(self, path: str) -> Mapping[str, str]:
        """What comes before the answer to a GET, which may be large and is not read."""
        return await self._ask("GET", path, _headers)

    async def _ask(
        self,
        method: str,
        path: str,
        read: Callable[[aiohttp.ClientResponse], Awaitable[_Answer]],
        body: str | None = None,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> _Answer:
        async with self._questions if method == "GET" else self._changes:
            return await self._ask_now(method, path, read, body, content_type, query)

    async def _ask_now(
        self,
        method: str,
        path: str,
        read: Callable[[aiohttp.ClientResponse], Awaitable[_Answer]],
        body: str | None,
        content_type: str,
        query: Mapping[str, str] | None,
    ) -> _Answer:
        if self._session is None:
            raise AdminError(LOST, "the admin client is not started")
        headers = self._token.http_headers()
        if method in ("PUT", "POST"):  # also without a body: aiohttp would call it an octet-stream, some refuse that
            headers["Content-Type"] = content_type
        url = _encoded(f"{self._url}/admin/v2/{path}", query)
        try:
            for _ in range(_MAX_REDIRECTS):
                async with self._session.request(
                    method, url, data=body, headers=headers, allow_redirects=False
                ) as response:
                    if response.status == HTTPStatus.TEMPORARY_REDIRECT:
                        await response.read()
                        url = self._redirected(response.headers.get("Location", ""))
                        continue
                    if response.status >= 300:
                        reason = _reason(await _text(response), response.reason)
                        raise _ERRORS.get(response.status, AdminError)(response.status, reason)
                    return await read(response)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise AdminError(LOST, f"{method} {self._url}: {error or type(error).__name__}") from error
        raise AdminError(HTTPStatus.TEMPORARY_REDIRECT, f"more than {_MAX_REDIRECTS} redirects for {path}")

    def _redirected(self, location: str) -> URL:
        """The broker that owns the topic; followed by hand because aiohttp would not show it the token."""
        url = URL(location, encoded=True)
        if not url.host or url.scheme != urlsplit(self._url).scheme:
            raise AdminError(HTTPStatus.TEMPORARY_REDIRECT, f"redirected to an unfit place: {location!r}")
        return url


async def _text(response: aiohttp.ClientResponse) -> str:
    return await response.text(errors="replace")


async def _headers(response: aiohttp.ClientResponse) -> Mapping[str, str]:
    return response.headers


def path_of(name: str) -> str:
    """Each segment escaped on its own; a name cannot reach another endpoint, by "..", "?" or otherwise."""
    segments = name.split("/")
    if any(segment in ("", ".", "..") for segment in segments):
        raise AdminError(LOST, f"not a name: {name!r}")
    return "/".join(quote(segment, safe="") for segment in segments)


def topic_path(topic: str) -> str:
    """`persistent://tenant/namespace/name` as a path; the name itself may hold slashes."""
    domain, mark, rest = topic.partition("://")
    parts = rest.split("/", 2)
    if not mark or domain not in ("persistent", "non-persistent") or len(parts) != 3 or not parts[2]:
        raise AdminError(LOST, f"not a full topic name: {topic!r}")
    if parts[2] in (".", ".."):
        raise AdminError(LOST, f"not a name: {topic!r}")
    return f"{domain}/{path_of('/'.join(parts[:2]))}/{quote(parts[2], safe='')}"


def _encoded(url: str, query: Mapping[str, str] | None) -> URL:
    text = "&".join(f"{key}={quote(value, safe='')}" for key, value in (query or {}).items())
    # encoded=True: the path is escaped already, segment by segment; yarl must not undo "%2F".
    return URL(f"{url}?{text}" if text else url, encoded=True)


def _json(text: str) -> Any:
    """The answer's JSON; health and some errors are bare words, no answer is None."""
    if not text:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text


def _reason(text: str, status_line: str | None) -> str:
    """Pulsar puts {"reason": ...}; a server error page is not worth repeating, nor is the stack trace in a reason."""
    answer = _json(text)
    if isinstance(answer, dict) and "reason" in answer:
        reason = str(answer["reason"])
        unexpected = _UNEXPECTED.search(reason)
        return reason if unexpected is None else unexpected[1]
    return status_line or text[:200]
