"""The client: one per Pulsar cluster, from which producers, readers and answers about topics come."""

import asyncio
import itertools
import secrets
from collections.abc import Iterator, Mapping
from typing import Final, TypeVar
from weakref import WeakSet

from bridge.config import PulsarSettings
from bridge.pulsar import commands, protocol
from bridge.pulsar.auth import Access
from bridge.pulsar.connection.broker_connection import BrokerConnection
from bridge.pulsar.connection.context import ClientContext, QueueMemory
from bridge.pulsar.connection.lookup import Lookup, whole_topic
from bridge.pulsar.connection.pool import ConnectionPool
from bridge.pulsar.connection.reconnecting import MAX_DELAY_SECONDS
from bridge.pulsar.consumer.consumer import Consumer
from bridge.pulsar.consumer.entry_fetch import EntryFetch, IsHidden
from bridge.pulsar.consumer.reader import Reader
from bridge.pulsar.consumer.subscription import SubscriptionOptions
from bridge.pulsar.pb.PulsarApi_pb2 import FeatureFlags
from bridge.pulsar.producer.name_probe import is_name_free
from bridge.pulsar.producer.producer import Producer
from bridge.pulsar.topic_watch import Callback, TopicWatch
from bridge.pulsar.types import AccessMode, Entry, Position, SubscriptionType
from bridge.telemetry import log
from bridge.telemetry.metrics import PulsarMetrics

_log = log.get(__name__)

_BUFFER: Final = 8 << 20
_CLOSE_SECONDS: Final = 5.0
_Opened = TypeVar("_Opened", Reader, Consumer, TopicWatch)


class PulsarClient:
    """Everything made here shares its connections; make it inside a running event loop."""

    def __init__(
        self,
        settings: PulsarSettings,
        metrics: PulsarMetrics,
        access: Access | None = None,
        most_delay: float = MAX_DELAY_SECONDS,
    ) -> None:
        """`access`: what it shares with other clients, and does not close. `most_delay`: the longest wait before
        another attempt to attach what is made here, in seconds."""
        self._is_own = access is None
        self.metrics = metrics
        self._access = access or Access.by(settings, metrics)
        self._pool = ConnectionPool(settings, metrics, self._access)
        self._lookup = Lookup(settings, metrics, self._pool)
        self._context = ClientContext(
            self._pool, self._lookup, settings, metrics, itertools.count(1), QueueMemory(), most_delay
        )
        self._fetch = EntryFetch(self._context)
        self.max_message_size = protocol.DEFAULT_MAX_MESSAGE_SIZE  # the broker's, once started
        self.server_version = ""  # as the broker says it, "Pulsar Server4.0.7"; once started
        self.features = FeatureFlags()  # what the broker says it can, once started
        self._handlers: WeakSet[Producer | Reader | Consumer | TopicWatch] = WeakSet()
        self._producers_by_name: dict[tuple[str, str], Producer] = {}  # the last of each topic and name
        self._evictions: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Connect once to the service URL, which proves the address and the login."""
        connection = await self._pool.service()
        self.max_message_size = connection.max_message_size
        self.server_version = connection.server_version
        self.features = connection.features

    async def close(self, seconds: float = _CLOSE_SECONDS) -> None:
        """Close everything that was made here; pending sends fail.

        `seconds` are for brokers to answer. One that does not read, for a topic is above its rate, does not; the end of
        the connection closes what is open there, too.
        """
        closing = [
            asyncio.create_task(one.close(flush=False) if isinstance(one, Producer) else one.close())
            for one in list(self._handlers)
        ]
        if closing:
            await asyncio.wait(closing, timeout=seconds)
        await self._pool.close()
        await asyncio.gather(*closing)
        if self._is_own:
            await self._access.close()

    def connections(self) -> list[BrokerConnection]:
        """The open connections to brokers, for who only looks."""
        return self._pool.connections()

    def waiting_topics(self) -> Iterator[tuple[str, float]]:
        """Topics with sends that have no outcome, and since when (loop time), for who only looks; some come twice."""
        for one in list(self._handlers):
            if isinstance(one, Producer) and one.waiting_since is not None:
                yield whole_topic(one.topic), one.waiting_since

    def retry_now(self) -> None:
        """Have whatever waits to try again do so now."""
        self._pool.retry_now()

    def producer(
        self,
        topic: str,
        *,
        name: str | None = None,
        properties: Mapping[str, str] | None = None,
        access_mode: AccessMode = AccessMode.SHARED,
        must_exist: bool = False,
        may_send: asyncio.Event | None = None,
    ) -> Producer:
        """A producer, at once: it connects in the background and takes sends already.

        `must_exist`: a topic that is deleted stays so, also where the broker would create it for its producers.
        A name belongs to one producer at a time: a new producer of this process waits until the last one is closed.
        `may_send`: while it is not set, what has lost its connection does not come back, and sends nothing again.
        """
        producer = Producer(
            topic,
            self._context,
            name=name,
            properties=properties,
            access_mode=access_mode,
            must_exist=must_exist,
            may_send=may_send,
            predecessor=None if name is None else self._predecessor(topic, name),
        )
        self._handlers.add(producer)
        if name is not None:
            self._producers_by_name[topic, name] = producer
            producer.released.add_done_callback(lambda _: self._forget_name(topic, name, producer))
        return producer

    def _predecessor(self, topic: str, name: str) -> Producer | None:
        """The last producer of this name in this process; it is closed if it is not closing already."""
        before = self._producers_by_name.get((topic, name))
        if before is not None and not before.closing:
            _log.error("! producer name in use by this process", extra={"topic": topic, "producer": name})
            self._evictions.add(task := asyncio.get_running_loop().create_task(before.close(flush=False)))
            task.add_done_callback(self._evictions.discard)
        return before

    def _forget_name(self, topic: str, name: str, producer: Producer) -> None:
        if self._producers_by_name.get((topic, name)) is producer:
            del self._producers_by_name[topic, name]

    async def reader(
        self,
        topic: str,
        start: Position,
        *,
        inclusive: bool = True,
        permits: int = 1000,
        max_buffer: int = _BUFFER,
        more_buffer: int = 0,
        read_compacted: bool = False,
    ) -> Reader:
        """A reader from this entry on (or behind it), once it is open; PulsarError when it never will be."""
        options = SubscriptionOptions(
            f"bridge-reader-{secrets.token_hex(6)}",
            durable=False,
            read_compacted=read_compacted,
            permits=permits,
            max_buffer=max_buffer,
            more_buffer=more_buffer,
        )
        return await self._opened(Reader(topic, start, inclusive, self._context, options))

    async def consumer(
        self,
        topic: str,
        subscription: str,
        *,
        earliest: bool = True,
        subscription_type: SubscriptionType = SubscriptionType.EXCLUSIVE,
        name: str | None = None,
        permits: int = 1000,
        properties: Mapping[str, str] | None = None,
        waits: bool = True,
    ) -> Consumer:
        """A consumer of a durable subscription, once it is open.

        A new subscription begins at the earliest or latest entry. A failover subscription orders its consumers by
        `name` to choose the active one. `waits`: for another exclusive consumer to leave, until the operation's
        timeout.
        """
        options = SubscriptionOptions(
            subscription,
            durable=True,
            subscription_type=subscription_type,
            consumer_name=name,
            earliest=earliest,
            permits=permits,
            max_buffer=_BUFFER,
            properties=properties,
            waits_if_busy=waits,
        )
        return await self._opened(Consumer(topic, self._context, options))

    async def read_entry(self, topic: str, position: Position, hidden: IsHidden | None = None) -> Entry | None:
        """The first entry at or after the position; None when the topic ends before it; raises CorruptEntry.

        `hidden` tells whether an entry that does not come is one that never will.
        """
        return await self._fetch.read(topic, position, hidden)

    async def is_passed_over(self, topic: str, position: Position) -> bool:
        """Whether readers get no entry from this position on: the broker keeps all from them, or there is none."""
        return await self._fetch.is_passed_over(topic, position)

    async def last_position(self, topic: str) -> Position:
        """The position of the last readable entry; (-1, -1) = there is none."""
        return await self._fetch.last(topic)

    async def is_name_free(self, topic: str, name: str) -> bool:
        """Whether no producer has this name on the topic, which must exist: see `name_probe`."""
        return await is_name_free(topic, name, self._context)

    async def partitions(self, topic: str) -> int:
        """How many partitions; 0 = not partitioned; PulsarError(TopicNotFound) when there is no such topic.

        Never creates anything: a broker too old to be asked so is not asked (UnsupportedVersionError).
        """
        return await self._lookup.partitions(topic)

    async def topics_of_namespace(self, namespace: str) -> list[str]:
        """Full names of the namespace's persistent topics; of a partitioned one, its partitions."""
        connection = await self._pool.service()
        command = await connection.request(lambda request_id: commands.topics_of_namespace(request_id, namespace))
        return list(command.get_topics_of_namespace_response.topics)

    async def watch_topics(self, namespace: str, callback: Callback) -> TopicWatch | None:
        """Call back with (added, removed) topics from now on, all present ones first; None if not supported."""
        connection = await self._pool.service()
        if not connection.features.supports_topic_watchers:
            return None
        return await self._opened(TopicWatch(namespace, callback, self._context))

    async def _opened(self, made: _Opened) -> _Opened:
        self._handlers.add(made)
        try:
            await made.opened()
        except BaseException:
            await made.close()
            raise
        return made
