"""Topics to work on, written by an ordinary client so that every field has every variety."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from uuid import uuid4

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

_MAX_WAITING = 50_000
Header = tuple[str, bytes | None]


@dataclass(frozen=True, slots=True)
class Sample:
    """One record to write."""

    partition: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[Header, ...] = ()


def varied(count: int, partitions: int = 3, first: int = 0) -> list[Sample]:
    """Records that differ in all that a record can differ in; five days of them."""
    return list(counted(count, partitions, first))


def counted(count: int, partitions: int = 3, first: int = 0) -> Iterator[Sample]:
    """The same, one by one: there may be many."""
    return (_varied(number, partitions) for number in range(first, first + count))


def _varied(number: int, partitions: int) -> Sample:
    key = None if number % 7 == 0 else b"" if number % 11 == 0 else bytes([number % 256, 0xFF]) + b"key"
    value = None if number % 13 == 0 else b"" if number % 17 == 0 else f"value {number}".encode() + bytes([0, 0xFE])
    headers: tuple[Header, ...] = ()
    if number % 3 == 0:
        headers = (("trace", b"\x00\xff"), ("none", None), ("trace", str(number).encode()))
    time = 1_700_000_000_000 + number % 5 * 86_400_000 + number
    return Sample(number % partitions, key, value, time, headers)


def new_topic(bootstrap: str, partitions: int = 3, name: str = "t") -> str:
    """Create a fresh topic."""
    topic = f"{name}-{uuid4().hex[:10]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)
    return topic


def write(bootstrap: str, topic: str, samples: Iterable[Sample]) -> None:
    """Write records, each partition's in order, and wait until all are acknowledged."""
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20})
    for each in samples:
        while len(producer) >= _MAX_WAITING:
            producer.poll(0.1)
        producer.produce(
            topic,
            each.value,
            each.key,
            each.partition,
            on_delivery=delivered,
            timestamp=each.timestamp,
            headers=list(each.headers),
        )
        producer.poll(0)
    assert producer.flush(60) == 0
    assert not failures


def filled(bootstrap: str, samples: Iterable[Sample], partitions: int = 3) -> str:
    """Create a topic and write records into it."""
    topic = new_topic(bootstrap, partitions)
    write(bootstrap, topic, samples)
    return topic
