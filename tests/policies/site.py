"""A bridge in a namespace of its own: its policies are set by the admin API, requests are sent one by one."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

from bridge.apis import create_topics, fetch, list_offsets, produce
from bridge.codec import NO_PRODUCER
from bridge.kafka import fetch_messages, produce_wire
from bridge.kafka.error_codes import ErrorCode
from tests.apis.wire import Connection, ask, unique
from tests.schedules.kafka import batch
from tests.support.bridges import BridgeThread
from tests.support.pulsar import PulsarAddress
from tests.support.waiting import until

_ids = itertools.count(7_000_000)


class Site:
    """The bridge, and the admin side of its namespace."""

    def __init__(self, bridge: BridgeThread, pulsar: PulsarAddress) -> None:
        self.bridge = bridge
        self.namespace = bridge.namespace
        self._pulsar = pulsar

    def restart(self) -> None:
        """Have a node there that has nothing in memory."""
        self.bridge.stop()
        self.bridge = BridgeThread(self.bridge.settings)
        self.bridge.start()

    def set(self, policy: str, value: object, method: str = "POST") -> None:
        """Set a policy of the namespace."""
        self._pulsar.admin(method, f"namespaces/{self.namespace}/{policy}", value)

    def of_topic(self, topic: str, what: str, value: object = None, method: str = "POST") -> Any:
        """Set a policy of a topic, or ask for something."""
        return self._pulsar.admin(method, f"persistent/{self.namespace}/{topic}/{what}", value)

    def admin(self, method: str, path: str, value: object = None) -> Any:
        """Anything else of the admin API."""
        return self._pulsar.admin(method, path, value)

    def topic(self, partitions: int = 1) -> str:
        """A new topic."""
        name = unique("t")
        assert self.create(name, partitions) == (ErrorCode.NONE, None)
        return name

    def create(self, name: str, partitions: int = 1) -> tuple[ErrorCode, str | None]:
        """Ask for a topic."""
        wanted = create_topics.RequestTopic(
            name=name, num_partitions=partitions, replication_factor=-1, assignments=[], configs=[]
        )
        answer = ask(self.bridge, create_topics.API, create_topics.Request(topics=[wanted], timeout_ms=30_000))
        return ErrorCode(answer.topics[0].error_code), answer.topics[0].error_message

    def producer(self) -> Producer:
        """An idempotent producer with a connection of its own."""
        return Producer(self, next(_ids))

    def produce(self, topic: str, *values: bytes) -> tuple[ErrorCode, str]:
        """Send one batch, of no idempotent producer."""
        with Connection(self.bridge.kafka) as connection:
            return _produce(connection, topic, values or (b"v",), NO_PRODUCER)

    def refused_produces(self) -> int:
        """How many times clients were told that Pulsar does not take what they send."""
        return self.bridge.server.metrics.api(produce.API.key).errors.get(ErrorCode.KAFKA_STORAGE_ERROR, 0)

    def fetch(self, topic: str, offset: int = 0, wait_ms: int = 100) -> tuple[ErrorCode, int]:
        """The error, and how many bytes came."""
        wanted = fetch_messages.RequestPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        topics = [fetch_messages.RequestTopic(topic=topic, partitions=[wanted])]
        request = fetch_messages.Request(max_wait_ms=wait_ms, min_bytes=1, max_bytes=1 << 20, topics=topics)
        (found,) = ask(self.bridge, fetch.API, request, 12).responses[0].partitions
        return ErrorCode(found.error_code), len(found.records or b"")

    def has_records(self, topic: str, offset: int = 0) -> bool:
        """Whether a fetch that waits for records gets any."""
        code, size = self.fetch(topic, offset, wait_ms=20_000)
        return code == ErrorCode.NONE and size > 0

    def bound(self, topic: str, timestamp: int = -1) -> tuple[ErrorCode, int]:
        """The end of a partition, or with −2 its start."""
        wanted = list_offsets.RequestPartition(partition_index=0, timestamp=timestamp)
        topics = [list_offsets.RequestTopic(name=topic, partitions=[wanted])]
        answer = ask(self.bridge, list_offsets.API, list_offsets.Request(replica_id=-1, topics=topics), 5)
        (found,) = answer.topics[0].partitions
        return ErrorCode(found.error_code), found.offset


class Producer:
    """One idempotent producer: `with` it, and it leaves at the end."""

    def __init__(self, site: Site, producer_id: int) -> None:
        self.id = producer_id
        self._connection = Connection(site.bridge.kafka)
        self._sequence = 0

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def produce(self, topic: str, *values: bytes, sequence: int | None = None) -> tuple[ErrorCode, str]:
        """Send the next batch, or one of another sequence."""
        values = values or (b"v",)
        at = self._sequence if sequence is None else sequence
        code, text = _produce(self._connection, topic, values, (self.id, 0, at))
        if code == ErrorCode.NONE and sequence is None:
            self._sequence += len(values)
        return code, text


def produce_request(topic: str, values: Sequence[bytes], producer: tuple[int, int, int]) -> produce_wire.Request:
    """One batch."""
    records = batch(list(values), [time.time_ns() // 1_000_000] * len(values), producer)
    data = [produce_wire.RequestPartition(index=0, records=records)]
    topics = [produce_wire.RequestTopic(name=topic, partition_data=data)]
    return produce_wire.Request(acks=-1, timeout_ms=20_000, topic_data=topics)


def _produce(
    connection: Connection, topic: str, values: Sequence[bytes], producer: tuple[int, int, int]
) -> tuple[ErrorCode, str]:
    answer = connection.ask(produce.API, produce_request(topic, values, producer), 10)
    (found,) = answer.responses[0].partition_responses
    return ErrorCode(found.error_code), found.error_message or str(found.base_offset)


def eventually(condition: Callable[[], bool]) -> None:
    """Return when it has come true: Pulsar goes by a policy some moments after it has taken it."""
    asyncio.run(until(condition))
