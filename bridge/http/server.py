"""Serves /metrics, /healthz, /readyz, /startupz, /cluster and the status page to operators.

healthz: the process runs and its event loop turns; restart it when this fails. startupz: it has started; until then the
answer says what it waits for. readyz: every named check holds, so that clients are served; the answer says which does
not, and why. A process that starts answers these three alone.

What clients can cost is bounded: connections in all and of one address, the time of each, and how often the metrics are
rendered, however many ask for them. Probes have places beside those (`places`). Where a token is asked for, probes go
without it, and are told no reasons.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, NamedTuple

import h11

from bridge.config import Address, HttpSettings
from bridge.config.listeners import is_loopback
from bridge.errors import BridgeError
from bridge.http.access import OPEN_PATHS, HttpAccess
from bridge.http.places import ConnectionPlaces, Visit
from bridge.http.response import ASKED_BY, Response, Serve, json_response
from bridge.net.http1 import HttpError, next_event
from bridge.net.listening import cannot_listen
from bridge.runtime.futures import Cached, retrieve_exception
from bridge.telemetry import log
from bridge.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from bridge.http.tls import HttpTls
    from bridge.telemetry.exposition import Exposition

Check = Callable[[], Awaitable[str | None]]
"""A readiness check: None when all is well, else the reason in words for an operator."""

Render = Callable[[bool], Awaitable[tuple[bytes, str]]]
"""The text of all metrics, of OpenMetrics where asked for, and its content type."""

CHECK_SECONDS = 5.0
# Probes come from every load balancer at once: one round of checks answers all that ask within this time.
_CHECKS_CACHED_SECONDS = 1.0
# The metrics show what was found last.
_CHECKS_SHOWN_SECONDS = 5.0
# Thousands of series take 100 ms of CPU time. One rendering is for all scrapes within this time.
_RENDERING_CACHED_SECONDS = 0.5
_HEAD_TIMEOUT_SECONDS = 10.0
_EXCHANGE_TIMEOUT_SECONDS = 60.0
_STOP_TIMEOUT_SECONDS = 1.0
_CHUNK = 65536
_OPEN_METRICS = b"application/openmetrics-text"
_WITHHELD = "failed: the reason is told to those with the token"
_LOG = log.get(__name__)


class Health(NamedTuple):
    """What the last round of checks has found."""

    reasons: Mapping[str, str | None]
    """By check: None where all is well; empty before the first round."""
    age: float
    """Seconds since that round."""
    since: float
    """When all became well, or ceased to be: Unix time."""


_NOT_FOUND = Response(
    404, "Not Found", "text/plain", b"there are /, /metrics, /healthz, /readyz, /startupz and /cluster\n"
)
_UNAUTHORIZED = Response(401, "Unauthorized", "text/plain", b"a token is needed, as a bearer token or as a password\n")
_TOO_MANY = Response(503, "Service Unavailable", "text/plain", b"too many connections: probes alone are answered\n")
_FAILED = Response(500, "Internal Server Error", "text/plain", b"see the log\n")
_NOT_ALLOWED = Response(405, "Method Not Allowed", "text/plain", b"GET and HEAD are served\n")


class HttpServer:
    """Serves one bridge process's metrics and health, one request a connection."""

    def __init__(
        self,
        settings: HttpSettings,
        metrics: Metrics,
        checks: Mapping[str, Check],
        documents: Mapping[str, Callable[[], object]] | None = None,
        render: Render | None = None,
        pages: Mapping[str, Serve] | None = None,
        note: Callable[[], str | None] = lambda: None,
        start_problem: Callable[[], str | None] = lambda: None,
    ) -> None:
        """`documents`: what JSON a path has, by its name. `render`: instead of these metrics alone. `pages`: what else
        is served, by path. `note`: what an operator should know of a node that is ready. `start_problem`: what a
        process that starts waits for; None once it has started."""
        self._settings = settings
        self._metrics = metrics
        self._access: HttpAccess
        self._tls: HttpTls | None = None
        self._following: list[asyncio.Task[None]] = []
        render = render or self._render_own
        self._exposition: Exposition | None = None
        self._renderings = {
            open_metrics: Cached(partial(render, open_metrics), _RENDERING_CACHED_SECONDS)
            for open_metrics in (False, True)
        }
        self._checks = dict(checks)
        self._note = note
        self._start_problem = start_problem
        metrics.topics.most, metrics.clients.most = settings.max_topics_in_metrics, settings.max_clients_in_metrics
        metrics.by_principal = settings.principals_in_metrics
        self._server: asyncio.Server | None = None
        self._exchanges: set[asyncio.Task[None]] = set()
        self._places = ConnectionPlaces(settings.max_connections, settings.max_connections_per_ip)
        self._refusals = log.Flood()
        self._paths: dict[str, Serve] = {
            **(pages or {}),
            "/metrics": self._get_metrics,
            "/healthz": self._get_health,
            "/readyz": self._get_readiness,
            "/startupz": self._get_start,
        }
        for path, document in (documents or {}).items():
            self._paths[path] = partial(_get_document, document)
        self._check_round: asyncio.Task[dict[str, str | None]] | None = None
        self._check_round_at = 0.0
        self._health = Health({}, 0.0, time.time())
        self._health_at = 0.0
        self.draining = False
        """Set it when the process should get no more clients: readyz then fails."""
        self.port = 0
        """The port listened on, once started."""

    async def start(self) -> None:
        """Listen; StartupError when the address cannot be had."""
        address = Address.parse(self._settings.listen)
        self._access = HttpAccess(self._settings, self._metrics.http_unauthorized)
        if self._settings.has_tls:
            from bridge.http.tls import HttpTls

            self._tls = HttpTls(self._settings, self._metrics.tls)
        loop = asyncio.get_running_loop()
        self.port = await self._listen(address) if self._tls is None else self._tls.serve(address, self._protocol)
        for one in (self._access, self._tls):
            if one is not None:
                self._following.append(loop.create_task(one.follow(), name="files of the http side"))
                self._following[-1].add_done_callback(retrieve_exception)
        self._tell(address.host)

    async def _listen(self, address: Address) -> int:
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(self._protocol, address.host, address.port)
        except OSError as error:
            raise cannot_listen("http.listen", address, error) from None
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Answer what is under way, then close."""
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._tls is not None:
            self._tls.close()
        if self._exchanges:
            await asyncio.wait(self._exchanges, timeout=_STOP_TIMEOUT_SECONDS)
        if self._tls is not None:
            self._tls.handshakes.abandon()
        tasks = [*self._exchanges, *self._following, *([] if self._check_round is None else [self._check_round])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _tell(self, host: str) -> None:
        fields = {"address": Address(host, self.port), "tls": self._tls is not None}
        _LOG.info("= http listening", extra={**fields, "token": self._access.is_restricted})
        if self._access.is_restricted and self._tls is None and not is_loopback(host):
            text = "! the token of the metrics can be read on the way here: set http.ssl_certificate_file"
            _LOG.warning(text, extra={"address": Address(host, self.port)})

    def _protocol(self) -> asyncio.BaseProtocol:
        """For a socket just accepted."""
        reader = asyncio.StreamReader()
        streams = asyncio.StreamReaderProtocol(reader, self._connected)
        return streams if self._tls is None else self._tls.protocol(streams)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visit, displaced = self._places.enter(_host(writer))
        if displaced is not None and displaced.task is not None:
            self._note_refusal(displaced.network)
            displaced.task.cancel()
        exchange = asyncio.get_running_loop().create_task(self._exchange(reader, writer, visit), name="http exchange")
        visit.task = exchange
        self._exchanges.add(exchange)
        exchange.add_done_callback(partial(self._exchange_done, visit))

    def _exchange_done(self, visit: Visit, exchange: asyncio.Task[None]) -> None:
        self._exchanges.discard(exchange)
        self._places.leave(visit)

    def _note_refusal(self, host: str) -> None:
        self._metrics.http_rejected.inc()
        line = self._refusals.next_line()
        if line is not None:
            fields = {"listener": "http", "peer": host, "reason": "too_many_connections"}
            _LOG.warning("! refused", extra={**fields, **line})

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, visit: Visit) -> None:
        """One request and its response; a client that is too slow at either is disconnected."""
        with suppress(HttpError, OSError):  # TimeoutError is an OSError
            try:
                async with asyncio.timeout(_EXCHANGE_TIMEOUT_SECONDS):
                    protocol = h11.Connection(h11.SERVER)
                    async with asyncio.timeout(_HEAD_TIMEOUT_SECONDS):
                        request = await next_event(protocol, reader)
                    visit.has_asked = True
                    if isinstance(request, h11.Request):
                        await self._respond(request, protocol, writer, visit)
                    writer.close()
                    await writer.wait_closed()  # what the client has not taken yet is in memory
            finally:
                writer.transport.abort()

    async def _respond(
        self, request: h11.Request, protocol: h11.Connection, writer: asyncio.StreamWriter, visit: Visit
    ) -> None:
        answer = await self._answer(request, writer, visit)
        headers = [
            ("Content-Type", answer.content_type),
            ("Content-Length", str(len(answer.body))),
            ("Connection", "close"),
            *answer.headers,
        ]
        head = h11.Response(status_code=answer.status, reason=answer.reason, headers=headers)
        body = b"" if request.method == b"HEAD" else answer.body
        writer.write(protocol.send(head) or b"")
        for at in range(0, len(body), _CHUNK):  # all who read slowly share one body, but for this much of it
            writer.write(protocol.send(h11.Data(body[at : at + _CHUNK])) or b"")
            await writer.drain()
            await asyncio.sleep(0)  # a reader that keeps up would hold the loop for the whole of it
        writer.write(protocol.send(h11.EndOfMessage()) or b"")

    async def _answer(self, request: h11.Request, writer: asyncio.StreamWriter, visit: Visit) -> Response:
        path = request.target.partition(b"?")[0].decode("latin-1")
        if path not in OPEN_PATHS and visit.is_for_probes:
            self._note_refusal(_host(writer))
            return _TOO_MANY
        if path not in OPEN_PATHS and not self._access.allows(request.headers):
            challenges = self._access.refuse(request, _host(writer), asyncio.get_running_loop().time())
            return _UNAUTHORIZED._replace(headers=tuple(("WWW-Authenticate", one) for one in challenges))
        waits = self._start_problem()
        if path not in OPEN_PATHS and waits is not None:
            return Response(503, "Service Unavailable", "text/plain", f"{waits}\n".encode())
        serve = self._paths.get(path)
        if serve is None:
            return _NOT_FOUND
        if request.method not in (b"GET", b"HEAD"):
            return _NOT_ALLOWED
        ASKED_BY.set(_host(writer))
        try:
            return await serve(request)
        except Exception as error:  # noqa: BLE001 - a prober must not take a bug for a process that is gone
            _LOG.error("! http request failed", exc_info=error)
            return _FAILED

    async def _get_metrics(self, request: h11.Request) -> Response:
        # Two formats and no more: a rendering for each thing that clients can name would be theirs to multiply.
        open_metrics = any(name == b"accept" and _OPEN_METRICS in value for name, value in request.headers)
        body, content_type = await self._renderings[open_metrics].get()
        return Response(200, "OK", content_type, body)

    async def _render_own(self, open_metrics: bool) -> tuple[bytes, str]:
        self._look_again()
        for table in (self._metrics.topics, self._metrics.clients):
            await table.roll()
        return await asyncio.to_thread(self._render, open_metrics)

    def _render(self, open_metrics: bool) -> tuple[bytes, str]:
        """In a thread: 1,000 series take 13 ms, which no client's request should wait for."""
        if self._exposition is None:
            from bridge.telemetry.exposition import Exposition

            self._exposition = Exposition(self._metrics.families)
        return self._exposition.render(open_metrics=open_metrics)

    async def _get_health(self, request: h11.Request) -> Response:
        return json_response(200, "OK", {"status": "ok"})

    async def _get_start(self, request: h11.Request) -> Response:
        waits = self._start_problem()
        if waits is None:
            return json_response(200, "OK", {"started": True})
        told = waits if self._access.allows(request.headers) else _WITHHELD
        return json_response(503, "Service Unavailable", {"started": False, "reason": told})

    async def _get_readiness(self, request: h11.Request) -> Response:
        waits = self._start_problem()
        reasons = await self._reasons() if waits is None else {"start": waits}
        if self.draining:
            reasons = {**reasons, "draining": "the process is stopping"}
        failed = any(reason is not None for reason in reasons.values())
        if not self._access.allows(request.headers):
            reasons = {name: reason and _WITHHELD for name, reason in reasons.items()}
        answer: dict[str, object] = {
            "ready": not failed,
            "checks": {name: reason or "ok" for name, reason in reasons.items()},
        }
        note = self._note()
        if note is not None:
            answer["note"] = note if self._access.allows(request.headers) else _WITHHELD
        return json_response(503, "Service Unavailable", answer) if failed else json_response(200, "OK", answer)

    async def _reasons(self) -> dict[str, str | None]:
        # shielded: one probe that hangs up must not cancel the others' round
        return await asyncio.shield(self._look_again(_CHECKS_CACHED_SECONDS))

    def _look_again(self, cached_seconds: float = _CHECKS_SHOWN_SECONDS) -> "asyncio.Task[dict[str, str | None]]":
        """The round of checks that is under way, or was not long ago. A scrape does not wait for it, but has what it
        found."""
        now = asyncio.get_running_loop().time()
        if self._check_round is None or (self._check_round.done() and now - self._check_round_at > cached_seconds):
            self._check_round = asyncio.create_task(self._run_checks())
            self._check_round_at = now
        return self._check_round

    async def _run_checks(self) -> dict[str, str | None]:
        reasons = await asyncio.gather(*(_reason(check) for check in self._checks.values()))
        found = dict(zip(self._checks, reasons, strict=True))
        self._metrics.ready = {name: reason is None for name, reason in found.items()}
        before = self._health
        changed = not before.reasons or _is_well(before.reasons) != _is_well(found)
        self._health = Health(found, 0.0, time.time() if changed else before.since)
        self._health_at = asyncio.get_running_loop().time()
        return found

    def last_health(self, most_seconds: float) -> Health:
        """What the last round of checks has found, at once; one that is older than this begins the next."""
        self._look_again(most_seconds)
        return self._health._replace(age=asyncio.get_running_loop().time() - self._health_at)


def _host(writer: asyncio.StreamWriter) -> str:
    host, *_ = writer.get_extra_info("peername") or ("",)
    return str(host)


def _is_well(reasons: Mapping[str, str | None]) -> bool:
    return all(reason is None for reason in reasons.values())


async def _get_document(document: Callable[[], object], request: h11.Request) -> Response:
    content = document()
    return json_response(200, "OK", await content if isawaitable(content) else content)


async def _reason(check: Check) -> str | None:
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            return await check()
    except TimeoutError:
        return f"no answer within {CHECK_SECONDS:.0f} s"
    except (BridgeError, OSError) as error:
        return str(error) or type(error).__name__
