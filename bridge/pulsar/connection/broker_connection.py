"""One connection to a broker: the handshake, requests and their answers, and which handler gets which command.

Life: connecting → handshake (CONNECT sent) → ready (CONNECTED received) → closed. What is closed stays closed. Its
handlers are told once, by `detached`, and reconnect elsewhere.
"""

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from logging import DEBUG, INFO
from typing import Final, NamedTuple, cast

from bridge.config import PulsarSettings
from bridge.net.tls_errors import speaks_no_tls
from bridge.pulsar import commands, protocol
from bridge.pulsar.auth import Access
from bridge.pulsar.auth.session_login import SessionLogin
from bridge.pulsar.connection.connection_handler import (
    ConnectionHandler,
    ConsumerHandler,
    ProducerHandler,
    TopicWatchHandler,
)
from bridge.pulsar.connection.frame_writer import Buffer, FrameWriter
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import ConnectionLost, ConnectionsRefused, OperationTimeout, PulsarError
from bridge.telemetry import log
from bridge.telemetry.metrics import BrokerMetrics, PulsarMetrics

Type = pb.BaseCommand
# So often a connection is looked at: a ping to a silent broker, and to its topics if it does not answer.
_CHECK_SECONDS: Final = 5.0
# After so many of them without a producer, what is for producers is closed.
_UNUSED_CHECKS: Final = 2
# Of receipts, which are all that comes where there are producers only: there may be a thousand such connections.
_RECEIPTS_BYTES: Final = 4096
# Of the newest answer in the smoothed time of answers, as TCP smooths its round trips (RFC 6298).
_DELAY_WEIGHT: Final = 0.125
_CLOSED_AT_ONCE: Final = (
    "it closed the connection without an answer: it may want TLS (pulsar+ssl://, port 6651 as a rule), or be no broker"
)
_log = log.get(__name__)

# Answers by request id: the field of BaseCommand that holds each.
_ANSWERS: Final[Mapping[int, str]] = {
    Type.SUCCESS: "success",
    Type.ERROR: "error",
    Type.PRODUCER_SUCCESS: "producer_success",
    Type.LOOKUP_RESPONSE: "lookup_topic_response",
    Type.PARTITIONED_METADATA_RESPONSE: "partition_metadata_response",
    Type.CONSUMER_STATS_RESPONSE: "consumer_stats_response",
    Type.GET_LAST_MESSAGE_ID_RESPONSE: "get_last_message_id_response",
    Type.GET_TOPICS_OF_NAMESPACE_RESPONSE: "get_topics_of_namespace_response",
    Type.ACK_RESPONSE: "ack_response",
    Type.WATCH_TOPIC_LIST_SUCCESS: "watch_topic_list_success",
}


class Address(NamedTuple):
    """Where to connect, and to whom: behind a Pulsar proxy these differ."""

    host: str
    port: int
    tls: bool
    proxied_broker: str | None = None  # host:port for CommandConnect.proxy_to_broker_url

    def __str__(self) -> str:
        name = f"{'pulsar+ssl' if self.tls else 'pulsar'}://{self.host}:{self.port}"
        return f"{name} for {self.proxied_broker}" if self.proxied_broker else name


class Delay:
    """How long a broker takes to answer, of late: two additions for each answer, for receipts are on the hot path."""

    __slots__ = ("_broker", "answered_at", "seconds")

    def __init__(self, broker: BrokerMetrics) -> None:
        self._broker = broker
        self.seconds: float | None = None
        """None before the first answer."""
        self.answered_at = float("-inf")
        """The loop time of the latest answer."""

    def answered(self, sent_at: float, now: float) -> None:
        """What was sent then has its answer now; loop times."""
        took = now - sent_at
        self.seconds = took if self.seconds is None else self.seconds + _DELAY_WEIGHT * (took - self.seconds)
        self.answered_at = now

    def acknowledged(self, sent_at: float, now: float) -> float:
        """An entry that was sent then has its receipt now: how long that took."""
        self.answered(sent_at, now)
        return self._broker.acknowledged(sent_at, now)


class _Request:
    """A request without an answer yet."""

    __slots__ = ("answer", "sent_at", "timer")

    def __init__(self, answer: "asyncio.Future[pb.BaseCommand]", timer: asyncio.TimerHandle, sent_at: float) -> None:
        self.answer = answer
        self.timer = timer
        self.sent_at = sent_at


class BrokerConnection(asyncio.BufferedProtocol):
    """See the module; made ready by `open`, which the pool calls."""

    _ids = itertools.count(1)

    def __init__(
        self,
        address: Address,
        settings: PulsarSettings,
        metrics: PulsarMetrics,
        login: SessionLogin,
        *,
        for_producers: bool = False,
    ) -> None:
        """`for_producers`: receipts are all that comes, and it closes when it has had no producer for some seconds."""
        self.address = address
        self.max_message_size = protocol.DEFAULT_MAX_MESSAGE_SIZE
        self.features = pb.FeatureFlags()
        self.server_version = ""
        self.closed = False
        self.broker = metrics.broker(address.proxied_broker or f"{address.host}:{address.port}")
        """What is counted of the broker."""
        self.producers: dict[int, ProducerHandler[BrokerConnection]] = {}
        self.consumers: dict[int, ConsumerHandler[BrokerConnection]] = {}
        self.watches: dict[int, TopicWatchHandler[BrokerConnection]] = {}
        self._settings = settings
        self._metrics = metrics
        self._login = login
        self._loop = asyncio.get_running_loop()
        self._log = _log.bind(conn=f"pulsar-{next(self._ids)}", broker=str(address))
        self._transport: asyncio.Transport | None = None
        self._connected: asyncio.Future[None] = self._loop.create_future()
        self.lost: asyncio.Future[None] = self._loop.create_future()
        """Done when nothing is left of it: some time after it is closed, with TLS."""
        self._for_producers = for_producers
        self._buffer = protocol.FrameBuffer(chunk_bytes=_RECEIPTS_BYTES if for_producers else protocol.CHUNK_BYTES)
        self._writer = FrameWriter()
        self._request_ids = itertools.count(1)
        self._requests: dict[int, _Request] = {}
        self._unknown: set[int] = set()
        self._error: PulsarError | None = None
        self.delay = Delay(self.broker)  # of answers and receipts
        self._heard = True
        self._silent_checks = 0
        self.unused_checks = 0
        self.on_end: Callable[[], None] | None = None
        """Called once it is closed, here or by the broker."""
        self.on_silence: Callable[[BrokerConnection], None] | None = None
        """Called again and again while the broker does not answer a ping."""
        self._keepalive: asyncio.TimerHandle | None = None

    # --- life -----------------------------------------------------------------------------------------------------

    @classmethod
    async def open(
        cls,
        address: Address,
        settings: PulsarSettings,
        metrics: PulsarMetrics,
        access: Access,
        *,
        for_producers: bool = False,
    ) -> "BrokerConnection":
        """Connect and log in; ConnectionLost, HostRefused, NoToken or the broker's PulsarError when that fails."""
        seconds = settings.connect_timeout_seconds
        login = SessionLogin(access.credentials, access.original_principal)
        connection = cls(address, settings, metrics, login, for_producers=for_producers)
        try:
            async with asyncio.timeout(seconds):
                await login.fetch()
                await access.connect(lambda: connection, address.host, address.port, tls=address.tls)
                await connection._connected
        except TimeoutError:
            connection.abort(OperationTimeout(f"{address}: no session within {seconds} s"))
        except OSError as error:  # ssl.SSLError is one
            connection.abort(ConnectionLost(f"{address}: {_why_not_opened(error, address)}"))
        except asyncio.CancelledError:
            connection.abort(ConnectionLost(f"{address}: given up"))
            raise
        except PulsarError as error:
            connection.abort(error)  # unless it is what abort() was told already
        if connection._error is not None:
            if connection._error.code == pb.AuthenticationError:
                login.refused()
            raise connection._error
        return connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Open the session at once."""
        self._transport = transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        self._writer.attach(transport)
        self._metrics.connections_opened.inc()
        self._metrics.connections.inc()
        self.broker.connections += 1
        if self.closed:  # given up while the TCP connection was being made
            transport.abort()
            return
        self.write([self._login.connect(self.address.proxied_broker)])

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail what is under way and detach the handlers."""
        self._metrics.connections.dec()
        self.broker.connections -= 1
        self.lost.set_result(None)
        if not self.closed:
            self._metrics.connections_lost.inc()
        closed = "closed by the broker" if self._connected.done() else _CLOSED_AT_ONCE
        self.abort(ConnectionLost(f"{self.address}: {exc or closed}"))

    def abort(self, error: PulsarError) -> None:
        """Close at once: everything under way fails with the error, handlers are detached."""
        if self._transport is not None:
            self._transport.abort()
        self._end(error)

    def close(self) -> None:
        """Close after what is waiting has been written."""
        self._writer.flush()
        if self._transport is not None:
            self._transport.close()
        self._end(ConnectionLost("closed here"))

    def _end(self, error: PulsarError) -> None:
        if self.closed:
            return
        self.closed = True
        self._error = error
        self._tell("= pulsar disconnected", reason=str(error))
        self._login.close()
        if self._keepalive is not None:
            self._keepalive.cancel()
        self._writer.clear()
        if not self._connected.done():
            self._connected.set_exception(error)
            self._connected.exception()  # open() may have been cancelled: nothing else would read it
        requests, self._requests = self._requests, {}
        for request in requests.values():
            request.timer.cancel()
            if not request.answer.done():
                request.answer.set_exception(error)
        handlers: list[ConnectionHandler[BrokerConnection]] = [
            *self.producers.values(),
            *self.consumers.values(),
            *self.watches.values(),
        ]
        self.producers, self.consumers, self.watches = {}, {}, {}
        for handler in handlers:
            handler.detached(self)
        if self.on_end is not None:
            self.on_end()

    def _tell(self, what: str, **fields: object) -> None:
        # topics' own connections come and go by hundreds, and one that was never ready is no news of its own
        is_news = not self._for_producers and self.server_version
        self._log.log(INFO if is_news else DEBUG, what, extra=fields)

    # --- sending --------------------------------------------------------------------------------------------------

    def write(self, frame: Sequence[Buffer], owner: object = None, item: object = None) -> None:
        """Send a frame, given in parts; with an owner it can be withdrawn as long as it waits."""
        if not self.closed:
            self._writer.write(frame, owner, item)

    def withdraw(self, owner: object, only: object = None) -> list[object]:
        """Take back what the owner sent and is still waiting, or this item of it: the items that it named."""
        return self._writer.withdraw(owner, only)

    def request(
        self, build: Callable[[int], bytes], *, timeout: float | None = None
    ) -> "asyncio.Future[pb.BaseCommand]":
        """Send what `build` makes of a fresh request id; the answer, or PulsarError if it is an error."""
        answer: asyncio.Future[pb.BaseCommand] = self._loop.create_future()
        if self._error is not None:
            answer.set_exception(self._error)
            return answer
        request_id = next(self._request_ids)
        frame = build(request_id)
        seconds = self._settings.operation_timeout_seconds if timeout is None else timeout
        timer = self._loop.call_later(seconds, self._timed_out, request_id)
        self._requests[request_id] = _Request(answer, timer, self._loop.time())
        self.write([frame])
        return answer

    def notify(self, build: Callable[[int], bytes]) -> None:
        """Send a request whose answer does not matter."""
        self.write([build(next(self._request_ids))])

    def _timed_out(self, request_id: int) -> None:
        request = self._requests.pop(request_id, None)
        if request is not None and not request.answer.done():
            request.answer.set_exception(OperationTimeout(f"{self.address}: no answer in time"))

    def pause_writing(self) -> None:
        """The transport has enough."""
        self._writer.pause()

    def resume_writing(self) -> None:
        """The transport has room again."""
        self._writer.resume()

    @property
    def waiting(self) -> int:
        """Requests without an answer yet."""
        return len(self._requests)

    @property
    def silent(self) -> bool:
        """Whether a ping has had no answer for some seconds."""
        return self._silent_checks > 1 and not self._heard

    def _keep_alive(self) -> None:
        interval = self._check_interval
        self.unused_checks = 0 if self.producers or not self._for_producers else self.unused_checks + 1
        if self.unused_checks > _UNUSED_CHECKS:
            self.close()
            return
        self._silent_checks = 0 if self._heard else self._silent_checks + 1
        self._heard = False
        if self._silent_checks * interval >= 2 * self._settings.keepalive_seconds:
            self.abort(ConnectionLost(f"{self.address}: silent for {2 * self._settings.keepalive_seconds} s"))
            return
        if self._silent_checks == 1:
            self.write([commands.ping()])
        elif self._silent_checks > 1 and self.on_silence is not None:
            self.on_silence(self)
        self._keepalive = self._loop.call_later(interval, self._keep_alive)

    @property
    def _check_interval(self) -> float:
        return min(_CHECK_SECONDS, self._settings.keepalive_seconds)

    # --- receiving ------------------------------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go."""
        return self._buffer.space()

    def buffer_updated(self, nbytes: int) -> None:
        """Act on every frame that is complete now."""
        self._heard = True
        try:
            for frame in self._buffer.received(nbytes):
                command, body = protocol.split(frame)
                handler = _ON_COMMAND.get(command.type)
                if handler is None:
                    self._on_unknown(command)
                else:
                    handler(self, command, body)
                if self.closed:
                    return
        except protocol.ProtocolError as error:
            self._log.warning("! pulsar sent what is not its protocol", extra={"reason": str(error)})
            self.abort(ConnectionLost(f"{self.address}: {error}"))

    def _on_unknown(self, command: pb.BaseCommand) -> None:
        self._metrics.unknown_commands.inc()
        if command.type not in self._unknown and len(self._unknown) < 100:
            self._unknown.add(command.type)
            self._log.warning("< pulsar command not understood", extra={"type": command.type})

    def _on_connected(self, command: pb.BaseCommand, _: memoryview) -> None:
        if self._connected.done():
            return
        connected = command.connected
        if connected.max_message_size > 0:
            self.max_message_size = self._buffer.max_message_size = connected.max_message_size
        self.features = connected.feature_flags
        self.server_version = connected.server_version
        self._tell("= pulsar connected", server=connected.server_version)
        self._keepalive = self._loop.call_later(self._check_interval, self._keep_alive)
        self._connected.set_result(None)

    def _on_auth_challenge(self, command: pb.BaseCommand, _: memoryview) -> None:
        self._metrics.auth_challenges.inc()
        self._login.challenged(self.write, self._log)

    def _on_ping(self, command: pb.BaseCommand, _: memoryview) -> None:
        self.write([commands.pong()])

    def _on_pong(self, command: pb.BaseCommand, _: memoryview) -> None:
        pass  # having heard anything is all that keep-alive asks

    def _on_answer(self, command: pb.BaseCommand, _: memoryview) -> None:
        answer = getattr(command, _ANSWERS[command.type])
        if not self._connected.done() and command.type == Type.ERROR:
            code, text = command.error.error, command.error.message
            # before a session the limit of connections alone is told so (ServerCnx.channelActive)
            self.abort(ConnectionsRefused(text) if code == pb.NotAllowedError else PulsarError(code, text))
            return
        request = self._requests.get(answer.request_id)
        if request is None:
            return  # timed out here, or has no waiter
        request.timer.cancel()
        if command.type == Type.PRODUCER_SUCCESS and not answer.producer_ready:
            return  # queued for exclusive access: the answer proper follows, whenever that may be (PIP-68)
        del self._requests[answer.request_id]
        self.delay.answered(request.sent_at, self._loop.time())
        if request.answer.done():
            return
        if command.type == Type.ERROR:
            request.answer.set_exception(PulsarError(answer.error, answer.message))
        else:
            request.answer.set_result(command)

    def _on_message(self, command: pb.BaseCommand, body: memoryview) -> None:
        consumer = self.consumers.get(command.message.consumer_id)
        if consumer is not None:
            consumer.message(command.message, body)

    def _on_receipt(self, command: pb.BaseCommand, _: memoryview) -> None:
        producer = self.producers.get(command.send_receipt.producer_id)
        if producer is not None:
            producer.receipt(self, command.send_receipt)

    def _on_send_error(self, command: pb.BaseCommand, _: memoryview) -> None:
        producer = self.producers.get(command.send_error.producer_id)
        if producer is not None:
            producer.send_error(self, command.send_error)

    def _on_close_producer(self, command: pb.BaseCommand, _: memoryview) -> None:
        # The assigned_broker_service_url it may carry is not used: lookup gives the same answer, and from a source
        # whose redirects are bounded.
        producer = self.producers.pop(command.close_producer.producer_id, None)
        if producer is not None:
            producer.detached(self)

    def _on_close_consumer(self, command: pb.BaseCommand, _: memoryview) -> None:
        consumer = self.consumers.pop(command.close_consumer.consumer_id, None)
        if consumer is not None:
            consumer.detached(self)

    def _on_active_consumer_change(self, command: pb.BaseCommand, _: memoryview) -> None:
        change = command.active_consumer_change
        consumer = self.consumers.get(change.consumer_id)
        if consumer is not None:
            consumer.active_changed(change.is_active)

    def _on_reached_end(self, command: pb.BaseCommand, _: memoryview) -> None:
        consumer = self.consumers.get(command.reached_end_of_topic.consumer_id)
        if consumer is not None:
            consumer.reached_end()

    def _on_watch_update(self, command: pb.BaseCommand, _: memoryview) -> None:
        watch = self.watches.get(command.watch_topic_update.watcher_id)
        if watch is not None:
            watch.changed(command.watch_topic_update)


_ON_COMMAND: Final[Mapping[int, Callable[[BrokerConnection, pb.BaseCommand, memoryview], None]]] = {
    **dict.fromkeys(_ANSWERS, BrokerConnection._on_answer),
    Type.CONNECTED: BrokerConnection._on_connected,
    Type.AUTH_CHALLENGE: BrokerConnection._on_auth_challenge,
    Type.PING: BrokerConnection._on_ping,
    Type.PONG: BrokerConnection._on_pong,
    Type.MESSAGE: BrokerConnection._on_message,
    Type.SEND_RECEIPT: BrokerConnection._on_receipt,
    Type.SEND_ERROR: BrokerConnection._on_send_error,
    Type.CLOSE_PRODUCER: BrokerConnection._on_close_producer,
    Type.CLOSE_CONSUMER: BrokerConnection._on_close_consumer,
    Type.ACTIVE_CONSUMER_CHANGE: BrokerConnection._on_active_consumer_change,
    Type.REACHED_END_OF_TOPIC: BrokerConnection._on_reached_end,
    Type.WATCH_TOPIC_UPDATE: BrokerConnection._on_watch_update,
}


def _why_not_opened(error: OSError, address: Address) -> str:
    if address.tls and speaks_no_tls(error):
        return "it does not speak TLS: a plain port, 6650 as a rule, is for pulsar://"
    return error.strerror or str(error)
