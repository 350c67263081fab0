"""A real listener on a loopback socket, with small APIs of the tests' own behind it."""

import asyncio
import gc
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

from bridge.apis import api_versions, sasl_authenticate, sasl_handshake
from bridge.config import Address, Settings
from bridge.connection import Acceptor, Listener, SharedResources
from bridge.connection.client import ClientConnection
from bridge.connection.environment import TenantNamespaces
from bridge.connection.listeners.certificates import ListenerTls
from bridge.connection.listeners.listener import Logins
from bridge.errors import KafkaError
from bridge.kafka.message import Int16, Int32, message
from bridge.net.listening import listen
from bridge.requests.api import Api, Broker, Handle
from bridge.requests.responses import DeferredResponse, LongPoll
from bridge.requests.rights import NOTHING
from bridge.requests.session import Session
from bridge.runtime.futures import Outcome
from bridge.runtime.scheduler import REQUESTER, LoopShare
from bridge.security.principal import Principal
from bridge.security.sasl.failures import LoginFailures
from bridge.telemetry.metrics import Metrics
from tests.connection.tls_client import open_tls

MakeNamespaces = Callable[[Broker], TenantNamespaces]
ECHO, LATER, POLL, FAIL, SILENT = range(100, 105)
PRODUCE = 0
"""Echoes, with the API key of an append."""


@message
class Request:
    number: Int32
    data: bytes


@message
class Response:
    error_code: Int16 = 0
    number: Int32
    data: bytes
    throttle_time_ms: Int32 = 0


class Tls(NamedTuple):
    """How a bench and its clients are encrypted."""

    settings: dict[str, Any]
    """Of the listener."""
    context: ssl.SSLContext
    """The clients'."""


AT_ONCE = False
"""Where it is set, benches' APIs begin at once: what awaits nothing needs no task."""
LONG_POLLS = False
"""Where it is set as well, polls wait without a task."""
TLS: Tls | None = None
"""Where it is set, benches speak TLS, and so do their clients."""


class Bench:
    """What the test APIs did, and what lets them go on."""

    def __init__(
        self,
        settings: Settings,
        tls: Tls | None = None,
        logins: Logins | None = None,
        namespaces: MakeNamespaces | None = None,
    ) -> None:
        self.metrics = Metrics()
        self.requests: list[int] = []
        self.principals: list[Principal] = []
        """Who asked for an echo."""
        self.shares: list[LoopShare] = []
        """Whose time of the event loop each request takes."""
        self.began = asyncio.Semaphore(0)
        self.release = asyncio.Event()
        self.later: dict[int, asyncio.Future[Response]] = {}
        self.cancelled: list[int] = []
        apis = {api.key: api for api in (api_versions.API, sasl_handshake.API, sasl_authenticate.API, *self._apis())}
        none = cast(Any, None)
        failures = LoginFailures(settings.kafka.max_failed_logins_per_ip_per_second)
        cluster: Any = SimpleNamespace(snapshot=SimpleNamespace(has_transactions=True))
        broker = Broker(settings, none, cluster, self.metrics, apis, none, none, none, login_failures=failures)
        shared = SharedResources(settings.kafka, self.metrics)
        self.budget = shared.budget
        self.tls = tls
        plan = None if tls is None else settings.listeners[0]
        self.listener = Listener(
            broker,
            shared,
            tls=None if plan is None else ListenerTls(plan, self.metrics.tls),
            logins=logins,
            namespaces=None if namespaces is None else namespaces(broker),
        )
        self.port = 0

    def _apis(self) -> list[Api]:
        poll: Handle = self._poll_at_once if AT_ONCE and LONG_POLLS else self._poll
        handles = {
            ECHO: self._echo, LATER: self._later, POLL: poll, FAIL: self._fail, SILENT: self._silent,
            PRODUCE: self._echo,
        }  # fmt: skip
        return [
            Api(
                key=key,
                name=f"Test{key}",
                min_version=0,
                max_version=0,
                flexible=None,
                handle=handle,
                at_once=AT_ONCE,
                request=Request,
                response=Response,
                rights=NOTHING,
                max_request_bytes=2**31 - 1,
                read_only=key == POLL,
                long_poll=key == POLL,
            )
            for key, handle in handles.items()
        ]

    def _start(self, request: Request) -> None:
        self.requests.append(request.number)
        self.shares.append(REQUESTER.get())
        self.began.release()

    async def _echo(self, request: Request, broker: Broker, session: Session) -> Response:
        self._start(request)
        self.principals.append(session.principal)
        return Response(number=request.number, data=request.data)

    async def _later(self, request: Request, broker: Broker, session: Session) -> DeferredResponse[Response]:
        self._start(request)
        self.later[request.number] = asyncio.get_running_loop().create_future()
        return DeferredResponse(self.later[request.number])

    async def _poll(self, request: Request, broker: Broker, session: Session) -> Response:
        self._start(request)
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.cancelled.append(request.number)
            self.began.release()
            raise
        return Response(number=request.number, data=b"")

    async def _poll_at_once(self, request: Request, broker: Broker, session: Session) -> LongPoll[Response]:
        """The same without a task."""
        self._start(request)
        poll: Outcome[Response] = Outcome()
        released = asyncio.ensure_future(self.release.wait())

        def answer(_: asyncio.Future[Any]) -> None:
            if not poll.done():
                poll.set_result(Response(number=request.number, data=b""))

        def ended(_: Outcome[Response]) -> None:
            released.remove_done_callback(answer)
            released.cancel()
            if poll.cancelled():
                self.cancelled.append(request.number)
                self.began.release()

        released.add_done_callback(answer)
        poll.call_at_once(ended)
        return LongPoll(poll)

    async def _fail(self, request: Request, broker: Broker, session: Session) -> Response:
        self._start(request)
        if request.number > 0:
            raise KafkaError(request.number, "as told")
        if request.number == -1:
            raise asyncio.CancelledError  # as when something it waits for is cancelled
        if request.number == -2:
            return Response(number=2**31, data=b"")  # which cannot be written
        raise RuntimeError("as told")

    async def _silent(self, request: Request, broker: Broker, session: Session) -> None:
        self._start(request)

    def answer(self, number: int, data: bytes = b"") -> None:
        """Let a DeferredResponse have its answer."""
        self.later[number].set_result(Response(number=number, data=data))

    async def begun(self, count: int) -> None:
        """Wait until so many more requests have begun."""
        for _ in range(count):
            await self.began.acquire()


class Client:
    """The other side."""

    def __init__(self, reader: asyncio.StreamReader, writer: Any) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, *requests: bytes) -> None:
        self.writer.write(b"".join(requests))

    async def receive(self) -> Response:
        body = await self.receive_frame()
        error_code, number, size = struct.unpack_from(">hii", body, 4)
        (throttle,) = struct.unpack_from(">i", body, 14 + size)
        return Response(error_code=error_code, number=number, data=body[14 : 14 + size], throttle_time_ms=throttle)

    async def receive_frame(self) -> bytes:
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        return await self.reader.readexactly(size)

    async def closed(self) -> bytes:
        """What still comes before the end."""
        try:
            return await self.reader.read()
        except ConnectionResetError:
            return b""

    def reset(self) -> None:
        """Hang up without a word."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


def request(key: int, number: int, data: bytes = b"", version: int = 0) -> bytes:
    body = struct.pack(">hhihii", key, version, number, 0, number, len(data)) + data
    return struct.pack(">i", len(body)) + body


@asynccontextmanager
async def serving(
    *, logins: Logins | None = None, namespaces: MakeNamespaces | None = None, **kafka: Any
) -> AsyncIterator[Bench]:
    """A bench on a free port."""
    tls = TLS
    settings = Settings().with_values(kafka=kafka)
    if tls is not None:
        kafka = {**kafka, "listeners": "SSL://127.0.0.1:0"}
        settings = settings.with_values(kafka=kafka, listener={"SSL": tls.settings})
    bench = Bench(settings, tls, logins, namespaces)
    (sock,) = listen(Address("127.0.0.1", 0))
    bench.port = sock.getsockname()[1]
    strangers = None if logins is None else bench.listener.shared.strangers
    acceptor = Acceptor(sock, bench.listener, bench.listener.is_behind, strangers=strangers)
    try:
        yield bench
    finally:
        acceptor.close()
        await bench.listener.drain(0.01)


@contextmanager
def no_garbage() -> Iterator[None]:
    """What connections leave in the block goes by itself: none is there after it that has to be found."""

    def connections() -> int:
        return sum(isinstance(one, ClientConnection) for one in gc.get_objects())

    gc.collect()
    before = connections()
    gc.disable()
    try:
        yield
        assert connections() == before
    finally:
        gc.enable()


@asynccontextmanager
async def connected(bench: Bench, **options: Any) -> AsyncIterator[Client]:
    """A client of the bench."""
    if bench.tls is None:
        client = Client(*await asyncio.open_connection("127.0.0.1", bench.port, **options))
    else:
        client = Client(*await open_tls(bench.port, bench.tls.context, **options))
    try:
        yield client
    finally:
        await client.close()
