"""The HTTP client, judged by another implementation's server and by scripted sockets."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web

from bridge.net.http1 import HttpError
from bridge.net.http_client import CannotConnect, HttpClient

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Serve = Callable[[Handler], Awaitable[str]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """A sound server; its URL."""
    runners: list[web.AppRunner] = []

    async def serve(handle: Handler) -> str:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        runners.append(runner)
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{runner.addresses[0][1]}"

    yield serve
    for runner in runners:
        await runner.cleanup()


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    """At most two connections."""
    made = HttpClient(2, 5.0, None)
    yield made
    await made.close()


class Scripted:
    """A server that answers the first requests of each connection, and hangs up on the next; it counts connections."""

    def __init__(self, answers_a_connection: int) -> None:
        self.most = answers_a_connection
        self.connections = 0
        self.requests: list[bytes] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> str:
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}/"

    async def __aexit__(self, *_: object) -> None:
        self.server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        for _ in range(self.most):
            self.requests.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await reader.read(1)  # the next request has come: the connection is closed in that moment
        writer.close()


async def echo(request: web.Request) -> web.Response:
    body = (await request.read()).decode()
    return web.Response(text=f"{request.method} {request.raw_path} {request.headers.get('X-One')} {body}")


async def test_a_request_arrives_as_it_was_sent(serve: Serve, client: HttpClient) -> None:
    url = await serve(echo)
    answer = await client.request("PUT", f"{url}/a%2Fb?c=d%20e", {"X-One": "1"}, "Ä".encode())
    assert (answer.status, answer.reason, answer.body.decode()) == (200, "OK", "PUT /a%2Fb?c=d%20e 1 Ä")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"


async def test_a_put_without_a_body_says_so(serve: Serve, client: HttpClient) -> None:
    async def length(request: web.Request) -> web.Response:
        return web.Response(text=str(request.headers.get("Content-Length")))

    url = await serve(length)
    assert [(await client.request(method, url, {})).body for method in ("PUT", "GET")] == [b"0", b"None"]


async def test_answers_in_chunks_are_put_together(serve: Serve, client: HttpClient) -> None:
    async def chunks(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        for number in range(100):
            await response.write(b"%d," % number)
        await response.write_eof()
        return response

    expected = b"".join(b"%d," % number for number in range(100))
    assert (await client.request("GET", await serve(chunks), {})).body == expected


async def test_a_connection_is_used_again(client: HttpClient) -> None:
    async with (server := Scripted(answers_a_connection=3)) as url:
        for _ in range(3):
            assert (await client.request("GET", url, {})).body == b"ok"
    assert server.connections == 1


async def test_a_connection_closed_at_that_moment_is_replaced(client: HttpClient) -> None:
    async with (server := Scripted(answers_a_connection=1)) as url:
        for _ in range(3):
            assert (await client.request("PUT", url, {})).body == b"ok"
    assert (server.connections, len(server.requests)) == (3, 3)


async def test_what_may_not_be_sent_twice_gets_a_connection_of_its_own(client: HttpClient) -> None:
    async with (server := Scripted(answers_a_connection=1)) as url:
        for _ in range(3):
            assert (await client.request("POST", url, {})).body == b"ok"
    assert (server.connections, len(server.requests)) == (3, 3)


async def test_a_server_that_never_answers_is_an_error(client: HttpClient) -> None:
    async with Scripted(answers_a_connection=0) as url:
        with pytest.raises(HttpError, match="closed too early"):
            await client.request("GET", url, {})


async def test_no_more_connections_than_allowed(serve: Serve, client: HttpClient) -> None:
    here, most = 0, 0
    peers: set[object] = set()

    async def count(request: web.Request) -> web.Response:
        nonlocal here, most
        here += 1
        most = max(most, here)
        assert request.transport is not None
        peers.add(request.transport.get_extra_info("peername"))
        for _ in range(10):
            await asyncio.sleep(0)
        here -= 1
        return web.Response()

    url = await serve(count)
    await asyncio.gather(*(client.request("GET", url, {}) for _ in range(20)))
    assert (most, len(peers)) == (2, 2)


async def test_who_gives_up_takes_the_connection_along(serve: Serve, client: HttpClient) -> None:
    asked = asyncio.Event()

    async def first_hangs(request: web.Request) -> web.Response:
        if not asked.is_set():
            asked.set()
            await asyncio.Event().wait()
        return web.Response(text="mine")

    url = await serve(first_hangs)
    asking = asyncio.ensure_future(client.request("GET", url, {}))
    await asked.wait()
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert (await client.request("GET", url, {})).body == b"mine"


async def test_of_a_large_answer_the_head_may_be_all_that_is_read(serve: Serve, client: HttpClient) -> None:
    async def large(request: web.Request) -> web.Response:
        status = 200 if request.path == "/found" else 404
        return web.Response(body=b"x" * 10_000_000, status=status, headers={"X-Wanted": "1"})

    url = await serve(large)
    found = await client.request("GET", f"{url}/found", {}, head_only=True)
    assert (found.headers["x-wanted"], found.body) == ("1", b"")
    assert len((await client.request("GET", f"{url}/missing", {}, head_only=True)).body) == 10_000_000


async def test_a_line_end_in_a_header_is_refused_and_not_shown(client: HttpClient) -> None:
    with pytest.raises(HttpError) as caught:
        await client.request("GET", "http://127.0.0.1:1/", {"Authorization": "Bearer secret\r\nX: y"})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/a b", "http://127.0.0.1:1/ä", "http://h:p/", "ftp://h/", "http:///x", "http://[::1/"]
)
async def test_what_is_no_url_is_refused(client: HttpClient, url: str) -> None:
    with pytest.raises(HttpError):
        await client.request("GET", url, {})


async def test_a_refused_connection_is_told(client: HttpClient) -> None:
    with pytest.raises(CannotConnect, match="Connect call failed"):
        await client.request("GET", "http://127.0.0.1:1/", {})
