"""Partitions are added under load: each keeps its order, and the new ones are found, written and read."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from tests.faults.figures import report
from tests.faults.topics import WAIT, create, value_of
from tests.support.bridges import BridgeChild

KEYS = 40
STEPS = (2, 4, 7)
"""How many partitions there are, one after the other."""
_OPEN = 200
_REFRESH: dict[str, Any] = {
    "topic.metadata.refresh.interval.ms": 500,  # clients look for new partitions only as often as this
    "reconnect.backoff.max.ms": 500,
    "log_level": 0,
}
Place = tuple[int, int]
"""Partition and offset."""


class Seen:
    """What the clients saw."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.acked: dict[bytes, Place] = {}
        self.read: dict[Place, bytes] = {}
        self.wrong: list[str] = []

    def until(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait for it; what is wrong already fails at once."""
        with self.changed:
            held = self.changed.wait_for(lambda: bool(self.wrong) or condition(), 2 * WAIT)
        assert not self.wrong, self.wrong[:5]
        assert held, f"{what}: not within {2 * WAIT} s; {len(self.acked)} acked, {len(self.read)} read"

    def acked_in(self, partitions: range) -> bool:
        """Whether each of them has acknowledged records, and one of them was read."""
        written = {partition for partition, _ in self.acked.values()}
        return {*partitions} <= written & {partition for partition, _ in self.read}

    def told(self, value: bytes, error: KafkaError | None, message: Message) -> None:
        """The outcome of one record."""
        with self.changed:
            if error is not None:
                self.wrong.append(f"{value!r}: {error}")
            else:
                self.acked[value] = place_of(message)
            self.changed.notify_all()

    def took(self, message: Message) -> None:
        """A member has this one."""
        with self.changed:
            place, value = place_of(message), value_of(message)
            known = self.read.setdefault(place, value)
            if known != value:
                self.wrong.append(f"{place} is {known!r} and {value!r}")
            self.changed.notify_all()


def place_of(message: Message) -> Place:
    partition, offset = message.partition(), message.offset()
    assert partition is not None and offset is not None
    return partition, offset


def write(bootstrap: str, topic: str, seen: Seen, ended: threading.Event) -> None:
    """`key:number` with growing numbers, by keys, until it is over."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, **_REFRESH})
    number = 0
    while not ended.is_set():
        while len(producer) < _OPEN and not ended.is_set():
            key = b"%d" % (number % KEYS)
            value = b"%s:%d" % (key, number)
            producer.produce(topic, value, key, on_delivery=partial(seen.told, value))
            number += 1
        producer.poll(0.02)
    producer.flush(WAIT)


def follow(bootstrap: str, topic: str, seen: Seen, ended: threading.Event) -> None:
    """A member of the group that reads, until it is over."""
    settings = {"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
    member = Consumer({**settings, **_REFRESH})
    member.subscribe([topic])
    while not ended.is_set():
        for message in member.consume(500, 0.1):
            if message.error() is None:
                seen.took(message)
    member.close()


@contextmanager
def under_load(bootstrap: str, topic: str) -> Iterator[tuple[Seen, Callable[[], None]]]:
    """A writer and two members of a group; what they saw, and a call that ends the writing."""
    seen, written, read = Seen(), threading.Event(), threading.Event()
    writer = threading.Thread(target=write, args=(bootstrap, topic, seen, written))
    members = [threading.Thread(target=follow, args=(bootstrap, topic, seen, read)) for _ in range(2)]
    for thread in (writer, *members):
        thread.start()

    def stop_writing() -> None:
        written.set()
        writer.join(2 * WAIT)

    try:
        yield seen, stop_writing
    finally:
        stop_writing()
        read.set()
        for member in members:
            member.join(2 * WAIT)


def check(seen: Seen) -> None:
    """All that was acknowledged was read where it was told; each partition has its records in the order of sending."""
    numbers: dict[int, list[int]] = defaultdict(list)
    for (partition, offset), value in sorted(seen.read.items()):
        assert offset == len(numbers[partition]), f"partition {partition} has no offset {len(numbers[partition])}"
        numbers[partition].append(int(value.partition(b":")[2]))
    assert {value: seen.read.get(place) for value, place in seen.acked.items()} == {v: v for v in seen.acked}
    assert len(seen.read) == len(seen.acked), "records are stored twice"
    for partition, found in numbers.items():
        assert found == sorted(found), f"partition {partition} is out of order"


def test_partitions_are_added_under_load(bridge_child: BridgeChild, topic: str) -> None:
    first, *more = STEPS
    create(bridge_child.kafka, topic, first)
    admin = AdminClient({"bootstrap.servers": bridge_child.kafka})
    with under_load(bridge_child.kafka, topic) as (seen, stop_writing):
        seen.until("the first partitions", lambda: seen.acked_in(range(first)))
        for count in more:
            admin.create_partitions([NewPartitions(topic, count)])[topic].result(WAIT)
            seen.until(f"{count} partitions", partial(seen.acked_in, range(count)))
        stop_writing()
        seen.until("the readers to see the end", lambda: {*seen.acked.values()} <= {*seen.read})
    report(acked=len(seen.acked), partitions=STEPS)
    check(seen)
