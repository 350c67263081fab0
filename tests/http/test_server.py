"""The HTTP side: metrics, health and readiness, over real sockets."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import aiohttp
import pytest

from bridge.config import HttpSettings
from bridge.errors import BridgeError, StartupError
from bridge.http.places import MAX_PROBES
from bridge.http.server import Check, HttpServer
from bridge.telemetry.families import Family
from bridge.telemetry.metrics import Lag, Metrics
from tests.support.waiting import until

Get = Callable[[str], Awaitable[tuple[int, str]]]


async def well() -> str | None:
    return None


async def unwell() -> str | None:
    return "retention is zero"


async def raising() -> str | None:
    raise BridgeError("no broker")


class Counted(Metrics):
    """Metrics that know how often they were rendered."""

    renderings = 0

    def families(self) -> Iterator[Family]:
        self.renderings += 1
        return super().families()


@asynccontextmanager
async def serving(
    metrics: Metrics | None = None, checks: dict[str, Check] | None = None, **settings: Any
) -> AsyncIterator[HttpServer]:
    server = HttpServer(HttpSettings(listen="127.0.0.1:0", **settings), metrics or Metrics(), checks or {})
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@pytest.fixture
async def serve() -> AsyncIterator[Callable[[dict[str, Check]], Awaitable[tuple[HttpServer, Get]]]]:
    servers: list[HttpServer] = []
    async with aiohttp.ClientSession() as session:

        async def start(checks: dict[str, Check]) -> tuple[HttpServer, Get]:
            server = HttpServer(HttpSettings(listen="127.0.0.1:0"), Metrics(), checks)
            await server.start()
            servers.append(server)

            async def get(path: str) -> tuple[int, str]:
                async with session.get(f"http://127.0.0.1:{server.port}{path}") as response:
                    return response.status, await response.text()

            return server, get

        yield start
    for server in servers:
        await server.stop()


Serve = Callable[[dict[str, Check]], Awaitable[tuple[HttpServer, Get]]]


async def test_metrics_are_served_as_prometheus_wants_them(serve: Serve) -> None:
    _, get = await serve({})
    status, text = await get("/metrics")
    assert status == 200
    assert "bridge_kafka_connections 0.0" in text


async def test_the_metrics_have_what_the_checks_found_last(serve: Serve) -> None:
    _, get = await serve({"pulsar": well, "retention": unwell})
    await get("/readyz")
    _, text = await get("/metrics")
    assert 'bridge_ready_check{check="pulsar"} 1.0' in text
    assert 'bridge_ready_check{check="retention"} 0.0' in text


async def test_the_checks_are_made_for_scrapes_alone_too(serve: Serve) -> None:
    server, get = await serve({"pulsar": well})
    await get("/metrics")
    await until(lambda: server._metrics.ready == {"pulsar": True})


async def test_a_process_that_starts_answers_its_probes_alone_and_says_what_it_waits_for() -> None:
    waits: str | None = "it waits for Pulsar"
    settings = HttpSettings(listen="127.0.0.1:0")
    server = HttpServer(settings, Metrics(), {"pulsar": unwell}, start_problem=lambda: waits)
    await server.start()
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session:

            async def get(path: str) -> tuple[int, str]:
                async with session.get(path) as response:
                    return response.status, await response.text()

            assert await get("/healthz") == (200, '{"status": "ok"}')
            assert await get("/startupz") == (503, '{"started": false, "reason": "it waits for Pulsar"}')
            assert await get("/readyz") == (503, '{"ready": false, "checks": {"start": "it waits for Pulsar"}}')
            for path in ("/metrics", "/cluster", "/"):
                assert await get(path) == (503, "it waits for Pulsar\n")
            waits = None
            assert await get("/startupz") == (200, '{"started": true}')
            assert await get("/readyz") == (503, '{"ready": false, "checks": {"pulsar": "retention is zero"}}')
            assert (await get("/metrics"))[0] == 200
    finally:
        await server.stop()


async def test_ready_when_every_check_holds(serve: Serve) -> None:
    _, get = await serve({"pulsar": well})
    assert await get("/readyz") == (200, '{"ready": true, "checks": {"pulsar": "ok"}}')


async def test_not_ready_says_what_and_why(serve: Serve) -> None:
    _, get = await serve({"pulsar": well, "retention": unwell, "index": raising})
    status, text = await get("/readyz")
    assert status == 503
    assert text == (
        '{"ready": false, "checks": {"pulsar": "ok", "retention": "retention is zero", "index": "no broker"}}'
    )
    assert (await get("/healthz"))[0] == 200


async def test_a_process_that_drains_is_healthy_but_not_ready(serve: Serve) -> None:
    server, get = await serve({})
    server.draining = True
    assert await get("/readyz") == (503, '{"ready": false, "checks": {"draining": "the process is stopping"}}')
    assert await get("/healthz") == (200, '{"status": "ok"}')


async def test_a_check_that_hangs_is_given_up(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hangs() -> str | None:
        await asyncio.Event().wait()
        return None

    monkeypatch.setattr("bridge.http.server.CHECK_SECONDS", 0.01)
    _, get = await serve({"pulsar": hangs})
    assert (await get("/readyz"))[0] == 503


async def test_what_the_last_round_has_found_is_told_at_once_and_since_when(serve: Serve) -> None:
    reason: list[str | None] = [None]
    rounds = 0

    async def check() -> str | None:
        nonlocal rounds
        rounds += 1
        return reason[0]

    server, get = await serve({"pulsar": check})
    assert not server.last_health(600.0).reasons
    await get("/readyz")
    well = server.last_health(600.0)
    assert (well.reasons, rounds) == ({"pulsar": None}, 1)
    assert well.age < 600.0
    reason[0] = "it is away"
    server.last_health(0.0)
    await get("/readyz")
    away = server.last_health(600.0)
    assert (away.reasons, rounds) == ({"pulsar": "it is away"}, 2)
    assert away.since > well.since
    reason[0] = "it is still away"
    server.last_health(0.0)
    await get("/readyz")
    assert server.last_health(600.0).since == away.since


async def test_many_probes_at_once_are_one_round_of_checks(serve: Serve) -> None:
    rounds = 0

    async def counting() -> str | None:
        nonlocal rounds
        rounds += 1
        return None

    _, get = await serve({"counting": counting})
    await asyncio.gather(*(get("/readyz") for _ in range(10)))
    assert rounds == 1


async def test_a_taken_port_is_named(serve: Serve) -> None:
    server, _ = await serve({})
    listen = f"127.0.0.1:{server.port}"
    with pytest.raises(StartupError, match=f"http.listen = {listen}: cannot listen there"):
        await HttpServer(HttpSettings(listen=listen), Metrics(), {}).start()


PROBE = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
READY = b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n"
SCRAPE = b"GET /metrics HTTP/1.1\r\nHost: x\r\n"


async def raw(server: HttpServer, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(request)
    try:
        return await reader.read()
    finally:
        writer.close()


async def scraped(server: HttpServer) -> bytes:
    """The status of a scrape for which there is room at last."""
    while True:
        answer = await raw(server, SCRAPE + b"\r\n")
        if not answer.startswith(b"HTTP/1.1 503"):
            return answer[9:12]


@asynccontextmanager
async def silent(server: HttpServer, host: str = "127.0.0.1") -> AsyncIterator[asyncio.StreamReader]:
    """A connection that asks for nothing."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, local_addr=(host, 0))
    try:
        yield reader
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /healthz?probe=1 HTTP/1.1", b"200"),
        (b"HEAD /healthz HTTP/1.1", b"200"),
        (b"GET /metrics/../etc/passwd HTTP/1.1", b"404"),
        (b"POST /metrics HTTP/1.1", b"405"),
    ],
)
async def test_what_else_is_asked(serve: Serve, request_line: bytes, status: bytes) -> None:
    server, _ = await serve({})
    answer = await raw(server, request_line + b"\r\nHost: x\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert answer.endswith(b"\r\n\r\n") is request_line.startswith(b"HEAD")


@pytest.mark.parametrize(
    "sent", [b"\r\n\r\n", b"GET\r\n\r\n", b"\x16\x03\x01" * 50_000, b"GET / HTTP/1.1\r\nx\r\n\r\n"]
)
async def test_what_is_no_request_is_hung_up_on_or_refused(serve: Serve, sent: bytes) -> None:
    server, get = await serve({})
    with suppress(ConnectionError):
        assert (await raw(server, sent))[:12] in (b"", b"HTTP/1.1 404")
    assert (await get("/healthz"))[0] == 200


async def test_who_is_slow_to_ask_is_hung_up_on(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.http.server._HEAD_TIMEOUT_SECONDS", 0.01)
    server, _ = await serve({})
    assert await raw(server, b"GET /healthz HTTP/1.1\r\n") == b""


async def test_a_bug_in_a_check_is_an_answer_and_a_line_in_the_log(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    async def wrong() -> str | None:
        raise ValueError("a bug")

    _, get = await serve({"wrong": wrong})
    assert (await get("/readyz"))[0] == 500
    assert "! http request failed" in caplog.text


# ---- limits


async def test_connections_in_all_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    metrics = Metrics()
    async with serving(metrics, max_connections=2) as server, silent(server):
        async with silent(server):
            assert (await raw(server, SCRAPE + b"\r\n")).startswith(b"HTTP/1.1 503")
            assert metrics.http_rejected.value == 1
            (said,) = [vars(one)["fields"] for one in caplog.records if one.message == "! refused"]
            assert said == {"listener": "http", "peer": "127.0.0.1", "reason": "too_many_connections"}
        assert await scraped(server) == b"200"  # there is room again


async def test_one_address_does_not_keep_others_out() -> None:
    async with serving(max_connections=4, max_connections_per_ip=3) as server, AsyncExitStack() as attack:
        for _ in range(3 + MAX_PROBES + 10):
            await attack.enter_async_context(silent(server, "127.0.0.2"))
        assert (await raw(server, SCRAPE + b"\r\n")).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("addresses", [4, 100])
async def test_no_number_of_silent_connections_keeps_a_probe_out(addresses: int) -> None:
    metrics = Metrics()
    async with serving(metrics) as server, AsyncExitStack() as attack:
        for number in range(4 * 64):
            await attack.enter_async_context(silent(server, f"127.0.1.{1 + number % addresses}"))
        for path in (PROBE, READY):
            assert (await raw(server, path)).startswith(b"HTTP/1.1 200")
        assert metrics.http_rejected.value >= 64


async def test_a_probe_from_the_address_of_the_silent_ones_gets_in() -> None:
    async with serving() as server, AsyncExitStack() as attack:
        for _ in range(2 * 64):
            await attack.enter_async_context(silent(server))
        for _ in range(5):
            assert (await raw(server, PROBE)).startswith(b"HTTP/1.1 200")


async def test_who_takes_its_answer_slowly_keeps_no_probe_out() -> None:
    metrics = Metrics()
    metrics.groups.lags = [Lag(f"group-{at}", "topic", at, at, at, 1.0) for at in range(20_000)]
    async with serving(metrics, max_connections=4) as server, AsyncExitStack() as attack:
        for _ in range(4):
            client = attack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)
            await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", server.port))
            await asyncio.get_running_loop().sock_sendall(client, SCRAPE + b"\r\n")
        assert (await raw(server, PROBE)).startswith(b"HTTP/1.1 200")
        assert (await raw(server, SCRAPE + b"\r\n")).startswith(b"HTTP/1.1 503")


async def test_who_does_not_take_the_answer_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.http.server._RENDERING_CACHED_SECONDS", 600)
    metrics = Metrics()
    metrics.groups.lags = [Lag(f"group-{at}", "topic", at, at, at, 1.0) for at in range(20_000)]
    async with serving(metrics, max_connections_per_ip=1) as server:
        whole = await raw(server, SCRAPE + b"\r\n")
        begun, exchange = asyncio.Event(), server._exchange

        async def noted(*arguments: Any) -> None:
            begun.set()
            await exchange(*arguments)

        monkeypatch.setattr(server, "_exchange", noted)
        monkeypatch.setattr("bridge.http.server._EXCHANGE_TIMEOUT_SECONDS", 0.2)
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(client, ("127.0.0.1", server.port))
            await loop.sock_sendall(client, SCRAPE + b"\r\n")
            await begun.wait()
            monkeypatch.setattr("bridge.http.server._EXCHANGE_TIMEOUT_SECONDS", 60)  # of all others
            assert await scraped(server) == b"200"
            left = 0
            with suppress(ConnectionError):
                while data := await loop.sock_recv(client, 65536):
                    left += len(data)
            assert left < len(whole)


@pytest.mark.parametrize("size", [0, 1, 65536, 65537, 200_000])
async def test_an_answer_of_any_size_is_whole(size: int) -> None:
    async def reason() -> str | None:
        return "x" * size

    async with serving(checks={"check": reason}) as server:
        head, _, body = (await raw(server, READY)).partition(b"\r\n\r\n")
        assert b"Content-Length: %d\r\n" % len(body) in head
        assert body.count(b"x") == size


async def test_scrapes_at_the_same_time_are_one_rendering(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.http.server._RENDERING_CACHED_SECONDS", 600)
    metrics = Counted()
    async with serving(metrics, max_connections=1000, max_connections_per_ip=1000) as server:
        answers = await asyncio.gather(*(raw(server, SCRAPE + b"\r\n") for _ in range(200)))
    assert len(set(answers)) == 1
    assert answers[0].startswith(b"HTTP/1.1 200")
    assert metrics.renderings == 1


async def test_clients_cannot_multiply_renderings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.http.server._RENDERING_CACHED_SECONDS", 600)
    metrics = Counted()
    async with serving(metrics) as server:
        for version in (b"0.0.4", b"1.0.0", b"1.0.1", b"7", b"x"):
            for kind in (b"text/plain", b"application/openmetrics-text"):
                for rest in (b"", b";escaping=allow-utf-8"):
                    accept = b"Accept: %s;version=%s%s\r\n\r\n" % (kind, version, rest)
                    answer = await raw(server, SCRAPE + accept)
                    assert answer.startswith(b"HTTP/1.1 200")
                    assert b"Content-Type: " + kind in answer
    assert metrics.renderings == 2


async def test_a_later_scrape_shows_what_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.http.server._RENDERING_CACHED_SECONDS", -1)
    metrics = Metrics()
    async with serving(metrics) as server:
        for count in (0, 1, 2):
            assert b"bridge_kafka_connections_accepted_total %d.0" % count in await raw(server, SCRAPE + b"\r\n")
            metrics.connections_accepted.inc()
