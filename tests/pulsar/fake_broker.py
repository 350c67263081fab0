"""A scripted broker for what the real one does not show on demand; it speaks through the client's own pure framing.

By default it answers every request as a healthy broker would. A test replaces single answers with `on(type, handler)`.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Self

from bridge.pulsar import protocol
from bridge.pulsar.pb import PulsarApi_pb2 as pb

Type = pb.BaseCommand
Handler = Callable[["Peer", pb.BaseCommand, memoryview], Awaitable[None] | None]


class Peer:
    """One client's connection, seen from the broker."""

    def __init__(self, broker: "FakeBroker", writer: asyncio.StreamWriter) -> None:
        self.broker = broker
        self.commands: list[pb.BaseCommand] = []
        self.closed = False
        self._closed_producers: set[int] = set()
        self._sessions: dict[int, tuple[str, str]] = {}
        self._writer = writer

    def send(self, **fields: object) -> None:
        """Send a command: `send(type=..., field=message)`."""
        self.send_raw(protocol.simple_frame(pb.BaseCommand(**fields).SerializeToString()))  # type: ignore[arg-type]

    def send_raw(self, data: bytes) -> None:
        self._writer.write(data)

    def send_entry(self, consumer_id: int, ledger: int, entry: int, body: bytes) -> None:
        command = pb.BaseCommand(type=Type.MESSAGE)
        command.message.consumer_id = consumer_id
        command.message.message_id.ledger_id = ledger
        command.message.message_id.entry_id = entry
        self.send_raw(protocol.entry_frame_head(command.SerializeToString(), b"", len(body)) + body)

    def receipt(self, send: pb.CommandSend, ledger: int, entry: int) -> None:
        receipt = pb.CommandSendReceipt(producer_id=send.producer_id, sequence_id=send.sequence_id)
        receipt.message_id.ledger_id, receipt.message_id.entry_id = ledger, entry
        self.send(type=Type.SEND_RECEIPT, send_receipt=receipt)

    def error(self, request_id: int, code: int, message: str = "scripted") -> None:
        self.send(type=Type.ERROR, error=pb.CommandError(request_id=request_id, error=code, message=message))

    def close(self) -> None:
        self.closed = True
        self._writer.close()

    def close_producer(self, producer_id: int) -> None:
        """As on an unload: what is still under way to this producer is not stored."""
        self._closed_producers.add(producer_id)
        close = pb.CommandCloseProducer(producer_id=producer_id, request_id=2**64 - 1)
        self.send(type=Type.CLOSE_PRODUCER, close_producer=close)

    def subscribe(self, asked: pb.CommandSubscribe) -> bool:
        """Let a consumer in, or say that another one has the subscription."""
        key = asked.topic, asked.subscription
        if key in self._sessions.values():
            self.error(asked.request_id, pb.ConsumerBusy, "Exclusive consumer is already connected")
            return False
        self._sessions[asked.consumer_id] = key
        self.send(type=Type.SUCCESS, success=pb.CommandSuccess(request_id=asked.request_id))
        return True

    def close_consumer(self, consumer_id: int) -> None:
        """As on an unload."""
        self.forget_consumer(consumer_id)
        close = pb.CommandCloseConsumer(consumer_id=consumer_id, request_id=2**64 - 1)
        self.send(type=Type.CLOSE_CONSUMER, close_consumer=close)

    def forget_consumer(self, consumer_id: int) -> None:
        """As on an unload in the midst of which it has come: it is not told."""
        self._sessions.pop(consumer_id, None)

    def hears(self, command: pb.BaseCommand) -> bool:
        """Whether this command is acted on."""
        self.commands.append(command)
        if command.type == Type.PRODUCER:
            self._closed_producers.discard(command.producer.producer_id)
        if command.type == Type.CLOSE_CONSUMER:
            self.forget_consumer(command.close_consumer.consumer_id)
        return command.type != Type.SEND or command.send.producer_id not in self._closed_producers

    def of_type(self, kind: int) -> list[pb.BaseCommand]:
        return [command for command in self.commands if command.type == kind]


class FakeBroker:
    """Listens on a port of its own; `async with` it."""

    def __init__(self, *, tls: ssl.SSLContext | None = None, port: int = 0) -> None:
        self.peers: list[Peer] = []
        self.stored: list[bytes] = []
        self._tls, self._port = tls, port
        self._handlers: dict[int, Handler] = {**_DEFAULTS}
        self._server: asyncio.Server | None = None
        self._heard, self._left = asyncio.Event(), asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def producing(self) -> Peer:
        """The connection that a producer was opened on last; producers have others than all else."""
        return next(peer for peer in reversed(self.peers) if peer.of_type(Type.PRODUCER))

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @property
    def url(self) -> str:
        return f"{'pulsar+ssl' if self._tls else 'pulsar'}://127.0.0.1:{self.port}"

    def on(self, kind: int, handler: Handler) -> None:
        self._handlers[kind] = handler

    def once(self, kind: int, handler: Handler) -> None:
        """Replace the next answer only."""
        before = self._handlers[kind]

        def first(peer: Peer, command: pb.BaseCommand, body: memoryview) -> Awaitable[None] | None:
            self._handlers[kind] = before
            return handler(peer, command, body)

        self._handlers[kind] = first

    def all(self, kind: int) -> list[pb.BaseCommand]:
        return [command for peer in self.peers for command in peer.of_type(kind)]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something the client does has come about."""
        async with asyncio.timeout(10):
            while not condition():
                self._heard.clear()
                await self._heard.wait()

    async def peer_left(self) -> None:
        """Wait until a client hangs up."""
        async with asyncio.timeout(10):
            await self._left.wait()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._port, ssl=self._tls)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for peer in self.peers:
            peer.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        peer = Peer(self, writer)
        self.peers.append(peer)
        try:
            async for frame in _frames(reader):
                command, body = protocol.split(frame)
                handler = self._handlers.get(command.type) if peer.hears(command) else None
                if handler is not None and (waiting := handler(peer, command, body)) is not None:
                    await waiting
                self._heard.set()
                if peer.closed:
                    return
        finally:
            self._left.set()
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


async def _frames(reader: asyncio.StreamReader) -> AsyncIterator[memoryview]:
    buffer = protocol.FrameBuffer()
    while True:
        with contextlib.suppress(OSError):
            data = await reader.read(65536)
            while data:
                space = buffer.space()
                count = min(len(space), len(data))
                space[:count] = data[:count]
                data = data[count:]
                for frame in buffer.received(count):
                    yield frame
                if not data:
                    data = await reader.read(65536)
        return


def _connect(peer: Peer, command: pb.BaseCommand, _: memoryview) -> None:
    peer.send(
        type=Type.CONNECTED,
        connected=pb.CommandConnected(
            server_version="fake",
            protocol_version=20,
            max_message_size=1 << 20,
            feature_flags=pb.FeatureFlags(
                supports_topic_watchers=True, supports_get_partitioned_metadata_without_auto_creation=True
            ),
        ),
    )


def lookup_answer(request_id: int, url: str, *, redirect: bool = False, proxy: bool = False) -> pb.BaseCommand:
    kinds = pb.CommandLookupTopicResponse
    return pb.BaseCommand(
        type=Type.LOOKUP_RESPONSE,
        lookup_topic_response=pb.CommandLookupTopicResponse(
            request_id=request_id,
            response=kinds.Redirect if redirect else kinds.Connect,
            broker_service_url=url,
            broker_service_url_tls=url,
            authoritative=redirect,
            proxy_through_service_url=proxy,
        ),
    )


def _lookup(peer: Peer, command: pb.BaseCommand, _: memoryview) -> None:
    answer = lookup_answer(command.lookup_topic.request_id, peer.broker.url)
    peer.send_raw(protocol.simple_frame(answer.SerializeToString()))


def _producer(peer: Peer, command: pb.BaseCommand, _: memoryview) -> None:
    success = pb.CommandProducerSuccess(
        request_id=command.producer.request_id, producer_name=command.producer.producer_name
    )
    peer.send(type=Type.PRODUCER_SUCCESS, producer_success=success)


def _subscribe(peer: Peer, command: pb.BaseCommand, _: memoryview) -> None:
    peer.subscribe(command.subscribe)


def store(peer: Peer, command: pb.BaseCommand, body: memoryview) -> None:
    peer.broker.stored.append(bytes(body))
    peer.receipt(command.send, 1, len(peer.broker.stored) - 1)


def _success(field: str) -> Handler:
    def answer(peer: Peer, command: pb.BaseCommand, _: memoryview) -> None:
        peer.send(type=Type.SUCCESS, success=pb.CommandSuccess(request_id=getattr(command, field).request_id))

    return answer


_DEFAULTS: dict[int, Handler] = {
    Type.CONNECT: _connect,
    Type.LOOKUP: _lookup,
    Type.PRODUCER: _producer,
    Type.SEND: store,
    Type.CLOSE_PRODUCER: _success("close_producer"),
    Type.SUBSCRIBE: _subscribe,
    Type.CLOSE_CONSUMER: _success("close_consumer"),
    Type.PING: lambda peer, command, body: peer.send(type=Type.PONG, pong=pb.CommandPong()),
}
