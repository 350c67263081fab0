"""An HTTP client for asyncio: connections are kept for the next request, and there are never more than so many."""

import asyncio
import ssl
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urlsplit

from bridge.http1 import Head, HttpError, ends_with_connection, read_body, read_head, status_of

_PORTS = {"http": 80, "https": 443}
_KEPT_SECONDS = 15.0
"""How long an idle connection is used again; Jetty, which serves Pulsar's admin interface, closes it after 30 s."""
_CLOSE_SECONDS = 1.0


class Response(NamedTuple):
    """An answer; `body` is empty where it was not to be read."""

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes


class _Place(NamedTuple):
    """Where a URL leads."""

    host: str
    port: int
    tls: bool


class _Connection(NamedTuple):
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    idle_since: float

    def usable(self, now: float) -> bool:
        return now - self.idle_since < _KEPT_SECONDS and not self.reader.at_eof() and not self.writer.is_closing()


class _Unanswered(HttpError):
    """A kept connection was closed by the other side before it had our request, or in that moment."""


class HttpClient:
    """Requests to http: and https: URLs; cookies, redirects and proxies are not followed."""

    def __init__(self, most_connections: int, connect_seconds: float, tls: ssl.SSLContext | None) -> None:
        self._limit = asyncio.Semaphore(most_connections)
        self._connect_seconds = connect_seconds
        self._tls = tls
        self._idle: dict[_Place, list[_Connection]] = {}
        self._closed = False

    async def request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes = b"", *, head_only: bool = False
    ) -> Response:
        """Ask and wait for the whole answer; HttpError, OSError or TimeoutError when there is none.

        `head_only`: the body of a success is not read, at the price of the connection.
        """
        place, target, host = _parse(url)
        fields = {"Host": host, "Accept": "*/*", **headers}
        if body or method in ("POST", "PUT"):
            fields["Content-Length"] = str(len(body))
        request = _head(f"{method} {target} HTTP/1.1", fields) + body
        async with self._limit:
            kept = self._take(place)
            # a request that may be sent twice (RFC 9110, 9.2.2) is, should its connection be closed at that moment
            if kept is not None and method != "POST":
                with suppress(_Unanswered):
                    return await self._exchange(place, kept, request, head_only)
            elif kept is not None:
                kept.writer.close()
            return await self._exchange(place, await self._connect(place), request, head_only)

    async def close(self) -> None:
        """Close the connections that are kept; those in use are when they are done."""
        self._closed = True
        writers = [connection.writer for kept in self._idle.values() for connection in kept]
        self._idle.clear()
        for writer in writers:
            writer.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)

    async def _exchange(self, place: _Place, connection: _Connection, request: bytes, head_only: bool) -> Response:
        reader, writer, idle_since = connection
        keep = False
        try:
            try:
                writer.write(request)
                await writer.drain()
                head = await _final_head(reader)
            except (HttpError, OSError) as error:
                raise (_Unanswered(str(error)) if idle_since else error) from None
            status, reason = status_of(head)
            if head_only and status < 300:
                return Response(status, reason, head.headers, b"")
            body = await read_body(reader, head)
            keep = not (self._closed or ends_with_connection(head))
            return Response(status, reason, head.headers, body)
        finally:
            if keep:
                now = asyncio.get_running_loop().time()
                self._idle.setdefault(place, []).append(_Connection(reader, writer, now))
            else:
                writer.close()

    async def _connect(self, place: _Place) -> _Connection:
        tls = (self._tls or ssl.create_default_context()) if place.tls else None
        async with asyncio.timeout(self._connect_seconds):
            reader, writer = await asyncio.open_connection(place.host, place.port, ssl=tls)
        return _Connection(reader, writer, 0.0)

    def _take(self, place: _Place) -> _Connection | None:
        """The connection used last, and no old ones are left behind."""
        now = asyncio.get_running_loop().time()
        kept = self._idle.get(place, [])
        while kept and not kept[0].usable(now):
            kept.pop(0).writer.close()
        while kept:
            connection = kept.pop()
            if connection.usable(now):
                return connection
            connection.writer.close()
        return None


async def _final_head(reader: asyncio.StreamReader) -> Head:
    """The answer's head, after those that only say that one will come (RFC 9110, 15.2)."""
    while True:
        head = await read_head(reader)
        if head is None:
            raise HttpError("the connection was closed without an answer")
        if status_of(head)[0] >= 200:
            return head


def _head(first: str, headers: Mapping[str, str]) -> bytes:
    lines = [first, *(f"{name}: {value}" for name, value in headers.items())]
    if any(set(line) & {"\r", "\n", "\0"} for line in lines):
        raise HttpError("a line end stands where none may be in a request")  # which may be a token: it is not shown
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace")


def _parse(url: str) -> tuple[_Place, str, str]:
    """Where to connect, what to ask for there, and the Host header."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS[parts.scheme]
    except (ValueError, KeyError):
        raise HttpError(f"not an HTTP URL: {url[:200]!r}") from None
    if not parts.hostname:
        raise HttpError(f"no host in {url[:200]!r}")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not all("!" <= character <= "~" for character in target):
        raise HttpError(f"not escaped as a URL has to be: {url[:200]!r}")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return (
        _Place(parts.hostname, port, parts.scheme == "https"),
        target,
        host if parts.port is None else f"{host}:{port}",
    )
