"""An HTTP client for asyncio: connections are kept for the next request, and a host never has more than so many."""

import asyncio
import ssl
import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple
from urllib.parse import urlsplit

import h11

from bridge.config.urls import url_without_secrets
from bridge.net.connecting import connect
from bridge.net.http1 import HttpError, next_event
from bridge.net.tls_errors import speaks_no_tls

_PORTS = {"http": 80, "https": 443}
_IDLE_TIMEOUT_SECONDS = 15.0
"""How long an idle connection is used again; Jetty, which serves Pulsar's admin interface, closes it after 30 s."""


class Response(NamedTuple):
    """An answer; `body` is empty where it was not to be read."""

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes


class _Origin(NamedTuple):
    """Where a URL leads."""

    host: str
    port: int
    tls: bool


class _Connection(NamedTuple):
    protocol: h11.Connection
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    idle_since: float

    def usable(self, now: float) -> bool:
        return (
            now - self.idle_since < _IDLE_TIMEOUT_SECONDS and not self.reader.at_eof() and not self.writer.is_closing()
        )


class _ClosedBeforeAnswer(HttpError):
    """A kept connection was closed by the other side before it had our request, or in that moment."""


class CannotConnect(ConnectionError):
    """Nothing was asked: there is no connection."""


Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host that may be connected to; it raises what its owner wants to see."""


class HttpClient:
    """Requests to http: and https: URLs; cookies, redirects and proxies are not followed."""

    def __init__(
        self,
        max_connections: int,
        connect_seconds: float,
        tls: Callable[[], ssl.SSLContext] | None,
        *,
        resolve: Resolve | None = None,
        max_body_bytes: int = sys.maxsize,
    ) -> None:
        """`max_connections`: of each host. `tls`: what a new connection shakes hands with. A longer body than
        `max_body_bytes` is an HttpError."""
        self._limits: defaultdict[_Origin, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(max_connections))
        self._connect_seconds = connect_seconds
        self._tls = tls or ssl.create_default_context
        self._resolve = resolve
        self._max_body_bytes = max_body_bytes
        self._idle: dict[_Origin, list[_Connection]] = {}
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
        try:
            request = h11.Request(method=method, target=target, headers=list(fields.items()))
        except (h11.LocalProtocolError, UnicodeError):  # the error may show a token
            raise HttpError(
                f"not a request: {method} {url_without_secrets(url)[:200]!r} with headers {', '.join(fields)}"
            ) from None
        async with self._limits[place]:
            kept = self._take(place)
            # a request that may be sent twice (RFC 9110, 9.2.2) is, should its connection be closed at that moment
            if kept is not None and method != "POST":
                with suppress(_ClosedBeforeAnswer):
                    return await self._exchange(place, kept, request, body, head_only)
            elif kept is not None:
                _drop(kept.writer)
            return await self._exchange(place, await self._connect(place), request, body, head_only)

    async def close(self) -> None:
        """Close the connections that are kept; those in use are when they are done."""
        self._closed = True
        writers = [connection.writer for kept in self._idle.values() for connection in kept]
        self._idle.clear()
        for writer in writers:
            _drop(writer)
        await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)

    async def _exchange(
        self, place: _Origin, connection: _Connection, request: h11.Request, body: bytes, head_only: bool
    ) -> Response:
        protocol, reader, writer, idle_since = connection
        keep = False
        try:
            try:
                for event in (request, h11.Data(body), h11.EndOfMessage()):
                    writer.write(protocol.send(event) or b"")
                await writer.drain()
                head = await _head(protocol, reader)
            except (HttpError, OSError) as error:
                raise (_ClosedBeforeAnswer(str(error)) if idle_since else error) from None
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers}
            answer = Response(head.status_code, head.reason.decode("latin-1"), headers, b"")
            if head_only and answer.status < 300:
                return answer
            answer = answer._replace(body=await _body(protocol, reader, self._max_body_bytes))
            if not self._closed and protocol.our_state is h11.DONE and protocol.their_state is h11.DONE:
                protocol.start_next_cycle()
                keep = True
            return answer
        finally:
            if keep:
                now = asyncio.get_running_loop().time()
                self._idle.setdefault(place, []).append(_Connection(protocol, reader, writer, now))
            else:
                _drop(writer)

    async def _connect(self, place: _Origin) -> _Connection:
        try:
            async with asyncio.timeout(self._connect_seconds):
                hosts = [place.host] if self._resolve is None else await self._resolve(place.host, place.port)
                reader, writer = await self._open(place, hosts)
        except OSError as error:  # ssl.SSLError and TimeoutError are such
            raise CannotConnect(_why_not_connected(error, place)) from error
        return _Connection(h11.Connection(h11.CLIENT), reader, writer, 0.0)

    async def _open(self, place: _Origin, hosts: Sequence[str]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        tls = self._tls() if place.tls else None
        reader = asyncio.StreamReader()
        make = partial(asyncio.StreamReaderProtocol, reader)
        transport, protocol = await connect(make, hosts, place.port, tls, place.host)
        return reader, asyncio.StreamWriter(transport, protocol, reader, asyncio.get_running_loop())

    def _take(self, place: _Origin) -> _Connection | None:
        """The connection used last, and no old ones are left behind."""
        now = asyncio.get_running_loop().time()
        kept = self._idle.get(place, [])
        while kept and not kept[0].usable(now):
            _drop(kept.pop(0).writer)
        while kept:
            connection = kept.pop()
            if connection.usable(now):
                return connection
            _drop(connection.writer)
        return None


def _why_not_connected(error: OSError, place: _Origin) -> str:
    if isinstance(error, TimeoutError):
        return "no connection in time"
    return "it does not speak TLS: http:// may be meant" if place.tls and speaks_no_tls(error) else str(error)


def _drop(writer: asyncio.StreamWriter) -> None:
    """Close at once: nothing is under way, and TLS would wait half a minute for the other side's farewell."""
    writer.transport.abort()


async def _head(protocol: h11.Connection, reader: asyncio.StreamReader) -> h11.Response:
    """The answer's head, after those that only say that one will come (RFC 9110, 15.2)."""
    while True:
        event = await next_event(protocol, reader)
        if not isinstance(event, h11.InformationalResponse):
            assert isinstance(event, h11.Response)  # noqa: S101 — or next_event has raised
            return event


async def _body(protocol: h11.Connection, reader: asyncio.StreamReader, most: int) -> bytes:
    body = bytearray()
    while isinstance(event := await next_event(protocol, reader), h11.Data):
        body += event.data
        if len(body) > most:
            raise HttpError(f"the answer has more than {most} bytes")
    return bytes(body)


def _parse(url: str) -> tuple[_Origin, str, str]:
    """Where to connect, what to ask for there, and the Host header."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS[parts.scheme]
    except (ValueError, KeyError):
        raise HttpError(f"not an HTTP URL: {url_without_secrets(url)[:200]!r}") from None
    if not parts.hostname:
        raise HttpError(f"no host in {url_without_secrets(url)[:200]!r}")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return (
        _Origin(parts.hostname, port, parts.scheme == "https"),
        target,
        host if parts.port is None else f"{host}:{port}",
    )
