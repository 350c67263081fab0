"""Calls to Pulsar's admin REST interface: addresses, redirects, answers, errors."""

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlsplit

from bridge.config import PulsarSettings, admin_urls
from bridge.config.urls import url_without_secrets
from bridge.errors import BridgeError
from bridge.net.http1 import HttpError
from bridge.net.http_client import CannotConnect, HttpClient, Response
from bridge.pulsar.auth import Access
from bridge.pulsar.types import PulsarError
from bridge.runtime.fairness import FairSemaphore
from bridge.runtime.futures import loop_time
from bridge.telemetry.metrics import PulsarMetrics

NO_RESPONSE: Final = 0
"""The status of an answer that never came."""
_TEMPORARY_REDIRECT: Final = 307
_UNAUTHORIZED: Final = 401
_MAX_REDIRECTS: Final = 10
_MAX_CONCURRENT_REQUESTS: Final = 16
"""Of reads at each broker, and as many of writes: more would not be answered faster, and a write does not wait behind
many reads. What a broker that hangs does not answer holds up no question to another one."""
_UNEXPECTED: Final = re.compile(
    r"unexpected error occurred in the server.*?^Message: ([^\n]*)", re.DOTALL | re.MULTILINE
)


class AdminError(BridgeError):
    """The broker's HTTP side refused or could not be reached (status 0); the reason is its own."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"HTTP {status}: {reason}" if status else reason)
        self.status = status
        self.reason = reason

    @property
    def retriable(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status in (NO_RESPONSE, 408, 429) or self.status >= 500


class Forbidden(AdminError):
    """401 or 403: not logged in, or not allowed."""


class NotFound(AdminError):
    """404: no such topic, namespace, tenant or policy."""


class Conflict(AdminError):
    """409: it exists already, or is in use."""


_ERRORS: Final[Mapping[int, type[AdminError]]] = {401: Forbidden, 403: Forbidden, 404: NotFound, 409: Conflict}


class _Request(NamedTuple):
    """A request, wherever it is sent."""

    method: str
    headers: Mapping[str, str]
    body: bytes
    head_only: bool


class RestClient:
    """One HTTP client for one admin URL, which may have several hosts; `start` before use, `close` after."""

    def __init__(self, settings: PulsarSettings, access: Access | None = None) -> None:
        """`access`: what it shares with other clients, and does not close."""
        self._hosts = admin_urls(settings.admin_url)  # the one in use first
        self._scheme = urlsplit(self._hosts[0]).scheme
        self._seconds = settings.operation_timeout_seconds
        self._connect_seconds = settings.connect_timeout_seconds
        self._is_own = access is None
        self._access = access or Access.by(settings, PulsarMetrics())
        if self._scheme == "https":
            self._access.tls.context()  # what is wrong with it is said at once
        self._http: HttpClient | None = None
        self._places: defaultdict[tuple[str, bool], FairSemaphore] = defaultdict(
            lambda: FairSemaphore(_MAX_CONCURRENT_REQUESTS)  # by the broker, and whether it is a read
        )

    @property
    def access(self) -> Access:
        """In whose name it asks."""
        return self._access

    async def start(self) -> None:
        """Be ready to ask; nothing is asked yet."""
        access = self._access
        self._http = HttpClient(
            2 * _MAX_CONCURRENT_REQUESTS, self._connect_seconds, access.tls.context, resolve=access.hosts.addresses
        )

    async def close(self) -> None:
        """Close the connections."""
        if self._http is not None:
            await self._http.close()
            self._http = None
        if self._is_own:
            await self._access.close()

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
        answer = await self._send_request(method, path, body, content_type, query)
        return _json(answer.body.decode(errors="replace"))

    async def headers(self, path: str) -> Mapping[str, str]:
        """What comes before the answer to a GET, which may be large and is not read; names in lower case."""
        return (await self._send_request("GET", path, head_only=True)).headers

    async def _send_request(
        self,
        method: str,
        path: str,
        body: str | None = None,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
        *,
        head_only: bool = False,
    ) -> Response:
        target = _encoded(f"/admin/v2/{path}", query)
        headers = {"Content-Type": content_type} if method in ("PUT", "POST") else {}
        return await self._send_now(_Request(method, headers, (body or "").encode(), head_only), target)

    async def _send_now(self, request: "_Request", target: str) -> Response:
        """Ask at the host in use; at the next ones too where that cannot have done anything twice."""
        method, others = request.method, len(self._hosts) - 1
        seconds = self._seconds / (others + 1) if method == "GET" else self._seconds
        while True:
            host = self._hosts[0]
            try:
                return await self._follow(request, host + target, seconds)
            except PulsarError as error:  # there is no token, or we were sent where we do not go
                raise AdminError(NO_RESPONSE, f"{method} {url_without_secrets(host)}: {error}") from error
            except (HttpError, TimeoutError, OSError) as error:
                if self._hosts[0] is host:  # else a concurrent request has found another one
                    self._hosts.append(self._hosts.pop(0))
                if others and (method == "GET" or isinstance(error, CannotConnect)):
                    others -= 1
                    continue
                reason = "no answer in time" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
                raise AdminError(NO_RESPONSE, f"{method} {url_without_secrets(host)}: {reason}") from error

    async def _follow(self, request: "_Request", url: str, seconds: float) -> Response:
        """The answer, from wherever we are sent; TimeoutError after `seconds`, not counted while it waits its turn."""
        for _ in range(_MAX_REDIRECTS):
            async with self._places[urlsplit(url).netloc, request.method == "GET"]:
                begun = loop_time()
                async with asyncio.timeout(seconds):
                    answer = await self._ask(request, url)
                seconds -= loop_time() - begun
            if answer.status != _TEMPORARY_REDIRECT:
                return _checked(answer)
            url = self._redirected(answer.headers.get("location", ""))
        raise AdminError(_TEMPORARY_REDIRECT, f"more than {_MAX_REDIRECTS} redirects for {url_without_secrets(url)}")

    async def _ask(self, request: "_Request", url: str) -> Response:
        """The answer of one place. Where it takes our token no more, it is asked again with a new one."""
        credentials = self._access.credentials
        token = await credentials.data()
        answer = await self._exchange(request, url, token)
        if answer.status == _UNAUTHORIZED and token:
            credentials.refused(token)
            if (new := await credentials.data()) != token:
                return await self._exchange(request, url, new)
        return answer

    async def _exchange(self, request: "_Request", url: str, token: bytes) -> Response:
        if self._http is None:
            raise AdminError(NO_RESPONSE, "the admin client is not started")
        method, headers, body, head_only = request
        if token:
            # unless it is named, a broker tries all ways of log-in that it has, and takes the first that leads anywhere
            named = {"X-Pulsar-Auth-Method-Name": self._access.credentials.method}
            headers = {**headers, **named, "Authorization": f"Bearer {token.decode('latin-1')}"}
        if self._access.original_principal is not None:
            headers = {**headers, "X-Original-Principal": self._access.original_principal}
        return await self._http.request(method, url, headers, body, head_only=head_only)

    def _redirected(self, location: str) -> str:
        """The broker that owns the topic, which gets the token too. `_http` connects to no host that is not allowed."""
        try:
            url = urlsplit(location)
            fit = bool(url.hostname) and url.scheme == self._scheme
        except ValueError:
            fit = False
        if not fit:
            raise AdminError(_TEMPORARY_REDIRECT, f"redirected to an unfit place: {url_without_secrets(location)!r}")
        return location


def path_of(name: str) -> str:
    """Each segment escaped on its own; a name cannot reach another endpoint, by "..", "?" or otherwise."""
    segments = name.split("/")
    if any(segment in ("", ".", "..") for segment in segments):
        raise AdminError(NO_RESPONSE, f"not a name: {name!r}")
    return "/".join(quote(segment, safe="") for segment in segments)


def topic_path(topic: str) -> str:
    """`persistent://tenant/namespace/name` as a path; the name itself may hold slashes."""
    domain, mark, rest = topic.partition("://")
    parts = rest.split("/", 2)
    if not mark or domain not in ("persistent", "non-persistent") or len(parts) != 3 or not parts[2]:
        raise AdminError(NO_RESPONSE, f"not a full topic name: {topic!r}")
    if parts[2] in (".", ".."):
        raise AdminError(NO_RESPONSE, f"not a name: {topic!r}")
    return f"{domain}/{path_of('/'.join(parts[:2]))}/{quote(parts[2], safe='')}"


def _encoded(url: str, query: Mapping[str, str] | None) -> str:
    text = "&".join(f"{key}={quote(value, safe='')}" for key, value in (query or {}).items())
    return f"{url}?{text}" if text else url


def _checked(answer: Response) -> Response:
    if answer.status < 300:
        return answer
    reason = _reason(answer.body.decode(errors="replace"), answer.reason)
    raise _ERRORS.get(answer.status, AdminError)(answer.status, reason)


def _json(text: str) -> Any:
    """The answer's JSON; health and some errors are bare words, no answer is None."""
    if not text:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _reason(text: str, status_line: str | None) -> str:
    """Pulsar puts {"reason": ...}; a server error page is not worth repeating, nor is the stack trace in a reason."""
    answer = _json(text)
    if isinstance(answer, dict) and "reason" in answer:
        reason = str(answer["reason"])
        unexpected = _UNEXPECTED.search(reason)
        return reason if unexpected is None else unexpected[1]
    return status_line or text[:200]
