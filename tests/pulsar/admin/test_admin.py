"""The admin client against a scripted HTTP server; the real one's answers are held in test_real_admin."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from bridge.config import PulsarSettings
from bridge.pulsar import Admin, AdminError
from bridge.pulsar.admin import NO_RESPONSE, Conflict, Forbidden, NotFound
from bridge.pulsar.admin.rest import topic_path

Serve = Callable[..., Awaitable[str]]
TOPIC = "persistent://public/default/t"


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    runners: list[web.AppRunner] = []

    async def serve(answer: Callable[[web.Request], web.Response], tls: ssl.SSLContext | None = None) -> str:
        async def handle(request: web.Request) -> web.Response:
            await request.read()
            return answer(request)

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handle)
        runner = web.AppRunner(app)
        await runner.setup()
        runners.append(runner)
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        host, port = runner.addresses[0][:2]
        return f"http://{host}:{port}" if tls is None else f"https://localhost:{port}"

    yield serve
    for runner in runners:
        await runner.cleanup()


@pytest.fixture
async def ask() -> AsyncIterator[Callable[..., Awaitable[Admin]]]:
    admins: list[Admin] = []

    async def ask(url: str, **settings: object) -> Admin:
        admin = Admin(PulsarSettings(admin_url=url, **settings))  # type: ignore[arg-type]
        await admin.start()
        admins.append(admin)
        return admin

    yield ask
    for admin in admins:
        await admin.close()


Ask = Callable[..., Awaitable[Admin]]


async def test_the_owner_of_a_topic_gets_the_same_request_with_the_token(
    serve: Serve, ask: Ask, tmp_path: Path
) -> None:
    seen: list[tuple[str, str, str]] = []

    def owner(request: web.Request) -> web.Response:
        seen.append((request.method, request.raw_path, request.headers["Authorization"]))
        return web.Response(status=204)

    url = await serve(owner)
    front = await serve(lambda request: web.Response(status=307, headers={"Location": f"{url}{request.raw_path}"}))
    (tmp_path / "token").write_text("secret\n")
    admin = await ask(front, token_file=str(tmp_path / "token"))
    await admin.delete_non_partitioned("persistent://public/default/a/b", force=True)
    assert seen == [("DELETE", "/admin/v2/persistent/public/default/a%2Fb?force=true", "Bearer secret")]


@pytest.mark.parametrize("location", ["", "/elsewhere", "https://127.0.0.1:1/", "file:///etc/passwd"])
async def test_a_redirect_to_another_kind_of_place_is_refused(serve: Serve, ask: Ask, location: str) -> None:
    admin = await ask(await serve(lambda _: web.Response(status=307, headers={"Location": location})))
    with pytest.raises(AdminError):
        await admin.clusters()


@pytest.mark.parametrize("host", ["169.254.169.254", "8.8.8.8", "[fe80::1]", "10.255.255.254"])
async def test_a_redirect_to_a_host_that_is_not_allowed_is_refused(serve: Serve, ask: Ask, host: str) -> None:
    location = f"http://{host}:8080/admin/v2/clusters"
    url = await serve(lambda _: web.Response(status=307, headers={"Location": location}))
    with pytest.raises(AdminError, match="allowed_hosts") as caught:
        await (await ask(url, token="secret", connect_timeout_seconds=0.5)).clusters()  # noqa: S106
    assert caught.value.status == NO_RESPONSE
    assert "secret" not in str(caught.value)


async def test_a_token_that_is_refused_is_replaced_once(serve: Serve, ask: Ask, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first")
    seen: list[str] = []

    def answer(request: web.Request) -> web.Response:
        seen.append(request.headers["Authorization"])
        file.write_text("second")
        return web.json_response(["c"]) if seen[-1] == "Bearer second" else web.Response(status=401)

    admin = await ask(await serve(answer), token_file=str(file))
    assert await admin.clusters() == ["c"]
    assert seen == ["Bearer first", "Bearer second"]


async def test_a_token_that_stays_refused_is_not_sent_again_and_again(serve: Serve, ask: Ask) -> None:
    seen: list[str] = []

    def answer(request: web.Request) -> web.Response:
        seen.append(request.path)
        return web.Response(status=401)

    with pytest.raises(Forbidden):
        await (await ask(await serve(answer), token="secret")).clusters()  # noqa: S106
    assert len(seen) == 1


async def test_a_broker_that_hangs_holds_up_no_question_to_others(serve: Serve, ask: Ask) -> None:
    asked, ended = asyncio.Semaphore(0), asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.release()
        await ended.wait()
        writer.close()

    def front(request: web.Request) -> web.Response:
        if "/t-" in request.path:
            return web.Response(status=307, headers={"Location": f"http://127.0.0.1:{port}{request.raw_path}"})
        return web.json_response(["c"])

    hanging = await asyncio.start_server(hang, "127.0.0.1", 0)
    port = hanging.sockets[0].getsockname()[1]
    admin = await ask(await serve(front))
    topics = [f"persistent://public/default/t-{number}" for number in range(100)]
    stuck = [asyncio.ensure_future(admin.internal_stats(topic)) for topic in topics]
    for _ in range(16):
        await asked.acquire()
    assert await admin.clusters() == ["c"]
    assert not any(task.done() for task in stuck)
    for task in stuck:
        task.cancel()
    await asyncio.gather(*stuck, return_exceptions=True)
    ended.set()
    hanging.close()


async def test_redirects_in_a_circle_end(serve: Serve, ask: Ask) -> None:
    admin = await ask(await serve(lambda one: web.Response(status=307, headers={"Location": str(one.url)})))
    with pytest.raises(AdminError, match="redirects"):
        await admin.clusters()


@pytest.mark.parametrize(
    ("status", "kind", "retriable"),
    [
        (401, Forbidden, False),
        (403, Forbidden, False),
        (404, NotFound, False),
        (409, Conflict, False),
        (412, AdminError, False),
        (429, AdminError, True),
        (503, AdminError, True),
    ],
)
async def test_errors_keep_their_reason(
    serve: Serve, ask: Ask, status: int, kind: type[AdminError], retriable: bool
) -> None:
    admin = await ask(await serve(lambda _: web.json_response({"reason": "because"}, status=status)))
    with pytest.raises(kind, match="because") as caught:
        await admin.clusters()
    assert (caught.value.status, caught.value.reason, caught.value.retriable) == (status, "because", retriable)


async def test_a_stack_trace_is_no_reason(serve: Serve, ask: Ask) -> None:
    told = """\n --- An unexpected error occurred in the server ---

Message: Topic is already fenced

Stacktrace:

org.apache.pulsar.broker.service.BrokerServiceException$TopicFencedException: Topic is already fenced
\tat org.apache.pulsar.broker.service.persistent.PersistentTopic.delete(PersistentTopic.java:1486)
"""
    admin = await ask(await serve(lambda _: web.json_response({"reason": told}, status=500)))
    with pytest.raises(AdminError) as caught:
        await admin.clusters()
    assert caught.value.reason == "Topic is already fenced"


async def test_a_refused_connection_is_an_error_without_status(ask: Ask) -> None:
    admin = await ask("http://127.0.0.1:1")
    with pytest.raises(AdminError) as caught:
        await admin.brokers_health()
    assert (caught.value.status, caught.value.retriable) == (0, True)


async def test_of_several_hosts_one_that_is_reached_answers_and_is_asked_again(serve: Serve, ask: Ask) -> None:
    asked: list[str] = []

    def answer(request: web.Request) -> web.Response:
        asked.append(request.method)
        return web.json_response([])

    url = await serve(answer)
    admin = await ask(f"http://127.0.0.1:1,{url.removeprefix('http://')}")
    await admin.create_namespace("public/new")  # nothing was sent to the first: nothing is done twice
    assert await asyncio.gather(*(admin.clusters() for _ in range(3))) == [[], [], []]
    assert asked == ["PUT", "GET", "GET", "GET"]


async def test_a_write_without_an_answer_is_not_repeated_and_the_next_request_goes_to_another_host(
    serve: Serve, ask: Ask
) -> None:
    async with frozen_server() as frozen:
        url = await serve(lambda _: web.json_response(["c"]))
        admin = await ask(f"http://{frozen},{url.removeprefix('http://')}", operation_timeout_seconds=0.2)
        with pytest.raises(AdminError, match="no answer in time"):
            await admin.create_namespace("public/new")
        assert await admin.clusters() == ["c"]


async def test_a_read_without_an_answer_is_asked_at_another_host(serve: Serve, ask: Ask) -> None:
    async with frozen_server() as frozen:
        url = await serve(lambda _: web.json_response(["c"]))
        admin = await ask(f"http://{frozen},{url.removeprefix('http://')}", operation_timeout_seconds=0.4)
        assert await admin.clusters() == ["c"]


@asynccontextmanager
async def frozen_server() -> AsyncIterator[str]:
    """The host:port of a server that takes connections and answers nothing, as a stopped process does."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize(("settings", "accepted"), [({"tls_ca_file": "ca.pem"}, True), ({}, False)])
async def test_a_server_is_believed_by_its_certificate(
    serve: Serve, ask: Ask, certificates: Path, settings: dict[str, str], accepted: bool
) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates / "broker.cert.pem", certificates / "broker.key.pem")
    url = await serve(lambda _: web.json_response(["c"]), context)
    admin = await ask(url, **{name: str(certificates / file) for name, file in settings.items()})
    if accepted:
        assert [await admin.clusters() for _ in range(2)] == [["c"], ["c"]]
    else:
        with pytest.raises(AdminError, match="CERTIFICATE_VERIFY_FAILED"):
            await admin.clusters()


async def test_an_answer_that_does_not_come_in_time_is_an_error_without_status(ask: Ask) -> None:
    hung_up = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        hung_up.set()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    admin = await ask(f"http://127.0.0.1:{port}", operation_timeout_seconds=0.05)
    with pytest.raises(AdminError, match="no answer in time") as caught:
        await admin.clusters()
    assert caught.value.status == 0
    await hung_up.wait()
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize("text", ["[", "7", '"x"', "[1]"])
async def test_answers_of_the_wrong_shape_are_errors(serve: Serve, ask: Ask, text: str) -> None:
    admin = await ask(await serve(lambda _: web.Response(text=text)))
    with pytest.raises(AdminError):
        await admin.topic_properties(TOPIC)


async def test_a_sick_broker_is_not_healthy(serve: Serve, ask: Ask) -> None:
    admin = await ask(await serve(lambda _: web.Response(text="no")))
    with pytest.raises(AdminError):
        await admin.brokers_health()


@pytest.mark.parametrize(
    "topic",
    [
        "t",
        "public/default/t",
        "http://public/default/t",
        "persistent://public/t",
        "persistent://public/default/",
        "persistent://../default/t",
        "persistent://public/default/..",
        "persistent:///default/t",
    ],
)
async def test_what_is_no_topic_is_not_asked_about(ask: Ask, topic: str) -> None:
    admin = await ask("http://127.0.0.1:1")
    with pytest.raises(AdminError, match="not a"):
        await admin.topic_properties(topic)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_a_topic_name_stays_one_segment(name: str) -> None:
    if name not in (".", ".."):
        path = topic_path(f"persistent://public/default/{name}")
        assert path.count("/") == 3
        assert not set("?#%/ ") & set(path.rpartition("/")[2].replace("%", ""))
