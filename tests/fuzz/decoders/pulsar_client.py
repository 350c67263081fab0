"""The Pulsar client against a lying broker: commands on a connection in use, and answers of the admin interface."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import cache
from itertools import count
from typing import Any, cast

from bridge.config import PulsarSettings
from bridge.errors import CorruptEntry
from bridge.pulsar import commands, protocol
from bridge.pulsar.admin import Admin, AdminError, rest
from bridge.pulsar.auth.session_login import SessionLogin
from bridge.pulsar.connection.broker_connection import Address, BrokerConnection
from bridge.pulsar.connection.context import ClientContext, QueueMemory
from bridge.pulsar.consumer.consumer import Consumer
from bridge.pulsar.consumer.reader import Reader
from bridge.pulsar.consumer.subscription import SubscriptionOptions
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.producer.producer import Producer
from bridge.pulsar.topic_watch import TopicWatch
from bridge.pulsar.types import EARLIEST, ConnectionLost
from bridge.telemetry.metrics import PulsarMetrics
from tests.fuzz.decoders.pulsar import JSON_WORDS
from tests.fuzz.decoders.target import Input, Target, finished, same

_TOPIC = "persistent://tenant/namespace/orders"
_READER, _CONSUMER, _PRODUCER, _WATCH, _REQUEST = 1, 2, 3, 4, 1
_Type = pb.BaseCommand

# ---- a connection in use ---------------------------------------------------------------------------------------------


@cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


@cache
def _metrics() -> PulsarMetrics:
    return PulsarMetrics()


class _Transport(asyncio.Transport):
    """Whose bytes go nowhere."""

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None: ...

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...

    def is_closing(self) -> bool:
        return False


class _Login:
    """Without credentials."""

    def connect(self, proxied_broker: str | None) -> bytes:
        return commands.ping()

    def challenged(self, write: object, logger: object) -> None: ...

    def close(self) -> None: ...


class _Stays:
    """What is detached does not come back."""

    def _start(self, delay: float = 0) -> None: ...


class _Reader(_Stays, Reader): ...


class _Consumer(_Stays, Consumer): ...


class _Producer(_Stays, Producer): ...


class _Watch(_Stays, TopicWatch): ...


class _Client:
    """A reader, a consumer, a producer with two sends under way, a watch and a request, on one connection."""

    def __init__(self) -> None:
        settings = PulsarSettings()
        unused = cast(Any, None)
        context = ClientContext(unused, unused, settings, _metrics(), count(_PRODUCER), QueueMemory(), 5.0)
        address = Address("broker", 6650, tls=False)
        self.connection = BrokerConnection(address, settings, _metrics(), cast(SessionLogin, _Login()))
        self.connection.connection_made(_Transport())
        self.feed(_command(_Type.CONNECTED, connected=pb.CommandConnected(server_version="5")), 1 << 20)
        options = SubscriptionOptions("s", durable=False, permits=100, max_buffer=1 << 16)
        self.reader = _Reader(_TOPIC, EARLIEST, False, context, options)
        self.consumer = _Consumer(_TOPIC, context, options)
        self.producer = _Producer(_TOPIC, context)
        self.watch = _Watch("tenant/namespace", lambda added, removed: None, context)
        self.connection.consumers |= {_READER: self.reader, _CONSUMER: self.consumer}
        self.connection.producers[_PRODUCER] = self.producer
        self.connection.watches[_WATCH] = self.watch
        for one in (self.reader, self.consumer, self.producer, self.watch):
            one._set_attached(self.connection)
        self.request = self.connection.request(lambda request_id: commands.lookup(request_id, _TOPIC))
        self.sends = [self.producer.send(pb.MessageMetadata(), b"payload", 1) for _ in range(2)]

    def feed(self, stream: bytes, size: int) -> None:
        """What the broker sends, in pieces."""
        while stream and not self.connection.closed:
            space = self.connection.get_buffer(-1)
            taken = min(size, len(space), len(stream))
            space[:taken] = stream[:taken]
            self.connection.buffer_updated(taken)
            stream = stream[taken:]

    def take(self) -> int:
        """How many entries have come."""
        taken = 0
        for one in (self.reader, self.consumer):
            for _ in range(1000):
                try:
                    if one.receive_nowait() is None:
                        break
                except CorruptEntry:
                    continue
                taken += 1
        return taken


def check_connection(data: bytes) -> bool:
    """Commands of a broker: nothing is raised where the event loop would be told, and all that waits has an end."""
    given = Input(data)
    size = 1 + given.number()
    stream = given.rest()

    async def exchange() -> bool:
        client = _Client()
        client.feed(stream, size)
        lost = client.connection.closed
        taken = client.take()
        client.connection.abort(ConnectionLost("the end"))
        done = [client.request.done(), *(one.done() for one in client.sends)]
        same(done[0], True, "the request's end")
        waiting: tuple[asyncio.Future[Any], ...] = (client.request, *client.sends)
        for one in waiting:
            if one.done():
                one.exception()
            else:
                one.cancel()  # it waits for the next connection
        await asyncio.sleep(0)
        return taken > 0 or any(done[1:]) or not lost

    return _loop().run_until_complete(exchange())


def _command(kind: int, **fields: Any) -> bytes:
    return protocol.simple_frame(pb.BaseCommand(type=cast(Any, kind), **fields).SerializeToString())


def _entry(consumer: int, entry: int, **fields: Any) -> bytes:
    place = pb.MessageIdData(ledger_id=1, entry_id=entry)
    message = pb.CommandMessage(consumer_id=consumer, message_id=place, **fields)
    command = pb.BaseCommand(type=_Type.MESSAGE, message=message).SerializeToString()
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1, num_messages_in_batch=2)
    head = protocol.entry_head(metadata.SerializeToString(), [b"payload"])
    return protocol.entry_frame_head(command, head, 7) + b"payload"


def conversations() -> list[bytes]:
    """Each command that a broker sends."""
    place = pb.MessageIdData(ledger_id=1, entry_id=1)
    receipt = pb.CommandSendReceipt(producer_id=_PRODUCER, sequence_id=0, message_id=place)
    refused = pb.CommandSendError(producer_id=_PRODUCER, sequence_id=0, error=pb.PersistenceError, message="no")
    failed = pb.CommandError(request_id=_REQUEST, error=pb.MetadataError, message="no")
    update = pb.CommandWatchTopicUpdate(watcher_id=_WATCH, new_topics=["a"], deleted_topics=["b"], topics_hash="h")
    answer = pb.CommandLookupTopicResponse(request_id=_REQUEST, response=pb.CommandLookupTopicResponse.Connect)
    made = [
        _entry(_READER, 1) + _entry(_READER, 2) + _entry(_CONSUMER, 1, ack_set=[1], redelivery_count=3),
        _command(_Type.SEND_RECEIPT, send_receipt=receipt), _command(_Type.SEND_ERROR, send_error=refused),
        _command(_Type.ERROR, error=failed), _command(_Type.LOOKUP_RESPONSE, lookup_topic_response=answer),
        _command(_Type.WATCH_TOPIC_UPDATE, watch_topic_update=update), commands.ping(), commands.pong(),
        _command(_Type.CLOSE_PRODUCER, close_producer=pb.CommandCloseProducer(producer_id=_PRODUCER, request_id=9)),
        _command(_Type.CLOSE_CONSUMER, close_consumer=pb.CommandCloseConsumer(consumer_id=_READER, request_id=9)),
        _command(_Type.REACHED_END_OF_TOPIC, reached_end_of_topic=pb.CommandReachedEndOfTopic(consumer_id=_READER)),
        _command(
            _Type.ACTIVE_CONSUMER_CHANGE,
            active_consumer_change=pb.CommandActiveConsumerChange(consumer_id=_CONSUMER, is_active=True),
        ),
        _command(_Type.AUTH_CHALLENGE, auth_challenge=pb.CommandAuthChallenge(server_version="5")),
    ]  # fmt: skip
    return [b"\xff" + one for one in (*made, b"".join(made))]


# ---- the admin interface ---------------------------------------------------------------------------------------------


class _Admin(Admin):
    """Which is answered with given bytes."""

    answer: Any = None

    async def call(self, *_: object, **__: object) -> Any:
        return self.answer


@cache
def _admin() -> _Admin:
    async def make() -> _Admin:
        return _Admin(PulsarSettings())

    return _loop().run_until_complete(make())


_ASKED: tuple[Callable[[Admin], Coroutine[Any, Any, Any]], ...] = (
    lambda admin: admin.partitioned_topics("t/n"),
    lambda admin: admin.partitioned_metadata(_TOPIC),
    lambda admin: admin.topic_properties(_TOPIC),
    lambda admin: admin.internal_stats(_TOPIC),
    lambda admin: admin.subscriptions(_TOPIC),
    lambda admin: admin.acknowledged(_TOPIC, "s"),
    lambda admin: admin.partition_sizes(_TOPIC),
    lambda admin: admin.compaction_status(_TOPIC),
    lambda admin: admin.namespace_retention("t/n"),
    lambda admin: admin.namespace_ack_quorum("t/n"),
    lambda admin: admin.topic_deduplication(_TOPIC),
    lambda admin: admin.broker_hosts(),
)


def check_admin(data: bytes) -> bool:
    """An answer's JSON: AdminError, or what was asked for."""
    admin = _admin()
    admin.answer = rest._json(data.decode("utf-8", "replace"))
    for ask in _ASKED:
        with suppress(AdminError):
            finished(ask(admin))
    return not isinstance(admin.answer, str)


def answers() -> list[bytes]:
    """As Pulsar writes them."""
    ledger = {"ledgerId": 7, "entries": 3, "size": 100, "offloaded": False}
    stats = {
        "ledgers": [ledger, {**ledger, "entries": 0}], "lastConfirmedEntry": "7:2", "entriesAddedCounter": 3,
        "totalSize": 100, "currentLedgerEntries": 1, "currentLedgerSize": 5,
        "cursors": {"s": {"markDeletePosition": "7:1"}},
    }  # fmt: skip
    subscriptions = {"subscriptions": {"s": {"subscriptionProperties": {"a": "b"}}}, "deduplicationStatus": "Enabled"}
    made: tuple[object, ...] = (
        stats, subscriptions, ["persistent://t/n/a"], ["broker:8080", "[::1]:8080"], True,
        {"partitions": 3, "properties": {"a": "b"}}, {"partitions": {_TOPIC: {"storageSize": 5}}},
        {"retentionTimeInMinutes": -1, "retentionSizeInMB": 5}, {"bookkeeperAckQuorum": 2}, {"status": "SUCCESS"},
    )  # fmt: skip
    return [json.dumps(one).encode() for one in made]


_ODD_ANSWERS = [
    b'{"retentionTimeInMinutes":5}', b'{"partitions":{}}', b'{"partitions":1e999}', b'{"partitions":5,"properties":7}',
    b'{"ledgers":[{}]}', b'{"cursors":{"s":{}}}', b'{"subscriptions":[]}', b'{"lastConfirmedEntry":"7"}', b"[" * 3000,
    b'{"bookkeeperAckQuorum":"two"}',
]  # fmt: skip

TARGETS = (
    Target(
        "pulsar_connections", check_connection, conversations, (b"\x0e\x01", b"\x0e\x02"), lines_per_byte=200,
        regressions=[b"\xff" + _entry(_CONSUMER, 1, ack_set=[0])],
    ),
    Target("admin_answers", check_admin, answers, JSON_WORDS, 8192, _ODD_ANSWERS),
)  # fmt: skip
