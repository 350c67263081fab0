"""The HTTP side: metrics, health and readiness, over real sockets."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

import aiohttp
import pytest

from bridge.config import HttpSettings
from bridge.errors import BridgeError, StartupError
from bridge.http import Check, HttpServer
from bridge.metrics import Metrics

Get = Callable[[str], Awaitable[tuple[int, str]]]


async def well() -> str | None:
    return None


async def unwell() -> str | None:
    return "retention is zero"


async def raising() -> str | None:
    raise BridgeError("no broker")


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

    monkeypatch.setattr("bridge.http.CHECK_SECONDS", 0.01)
    _, get = await serve({"pulsar": hangs})
    assert (await get("/readyz"))[0] == 503


async def test_many_probes_at_once_are_one_round_of_checks(serve: Serve) -> None:
    rounds = 0

    async def counting() -> str | None:
        nonlocal rounds
        rounds += 1
        return None

    _, get = await serve({"counting": counting})
    await asyncio.gather(*(get("/readyz") for _ in range(20)))
    assert rounds == 1


async def test_a_taken_port_is_named(serve: Serve) -> None:
    server, _ = await serve({})
    listen = f"127.0.0.1:{server.port}"
    with pytest.raises(StartupError, match=f"http.listen = {listen}: cannot listen there"):
        await HttpServer(HttpSettings(listen=listen), Metrics(), {}).start()


async def raw(server: HttpServer, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(request)
    try:
        return await reader.read()
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
    monkeypatch.setattr("bridge.http._HEAD_SECONDS", 0.01)
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
