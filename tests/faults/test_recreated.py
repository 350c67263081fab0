"""A topic is deleted and recreated behind the bridge's back, under load: nothing of the old one shows in the new."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.faults.topics import WAIT, consumer, create, produce, value_of, wait_for
from tests.support.bridges import BridgeChild
from tests.support.pulsar import PrivatePulsar

FAR = 20_000


class Pair:
    """A writer and a reader of one partition, which go on by themselves through whatever happens to the topic."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.changed = threading.Condition()
        self.acked: list[tuple[int, bytes, float]] = []  # offset, value, when it was sent
        self.read: list[tuple[int, bytes]] = []
        self.errors: list[str] = []
        self._ended = threading.Event()
        self._topic = topic
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 0, "topic.metadata.refresh.interval.ms": 500,
             # more requests on their way at once and librdkafka itself puts records out of order when it repeats them
             "max.in.flight.requests.per.connection": 1}
        )  # fmt: skip
        self._reader = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False, "log_level": 0,
             "auto.offset.reset": "earliest", "topic.metadata.refresh.interval.ms": 500}
        )  # fmt: skip
        self._reader.assign([TopicPartition(topic, 0, 0)])
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._write, self._follow)]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(WAIT)
        self._reader.close()

    def until(self, what: str, condition: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, WAIT), (
                f"{what}: {self.acked[-1:]} {self.read[-1:]} {self.errors[-3:]}"
            )

    def _write(self) -> None:
        number = 0
        while not self._ended.wait(0.01):
            if len(self._producer) < 100:
                sent, value = time.monotonic(), b"%d" % number
                number += 1

                def done(error: KafkaError | None, message: Message, sent: float = sent, value: bytes = value) -> None:
                    with self.changed:
                        if error is None:
                            offset = message.offset()
                            assert offset is not None
                            self.acked.append((offset, value, sent))
                        else:
                            self.errors.append(str(error))
                        self.changed.notify_all()

                self._producer.produce(self._topic, value, partition=0, on_delivery=done)
            self._producer.poll(0)
        self._producer.flush(WAIT)

    def _follow(self) -> None:
        while not self._ended.is_set():
            for message in self._reader.consume(100, 0.1):
                with self.changed:
                    if message.error() is None:
                        offset = message.offset()
                        assert offset is not None
                        self.read.append((offset, value_of(message)))
                    self.changed.notify_all()


@contextmanager
def pair(bootstrap: str, topic: str) -> Iterator[Pair]:
    running = Pair(bootstrap, topic)
    try:
        yield running
    finally:
        running.end()


def is_unknown(bootstrap: str, topic: str) -> bool:
    """Whether clients are told that there is no such topic."""
    error = AdminClient({"bootstrap.servers": bootstrap}).list_topics(topic, timeout=WAIT).topics[topic].error
    return error is not None and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def all_records(bootstrap: str, topic: str) -> dict[int, bytes]:
    reader = consumer(bootstrap, "earliest")
    try:
        partition = TopicPartition(topic, 0, 0)
        _, end = reader.get_watermark_offsets(partition, timeout=WAIT)
        reader.assign([partition])
        found: dict[int, bytes] = {}
        while len(found) < end:
            message = reader.poll(WAIT)
            assert message is not None, f"{len(found)} of {end} records"
            if message.error() is None:
                offset = message.offset()
                assert offset is not None
                found[offset] = value_of(message)
        return found
    finally:
        reader.close()


@pytest.mark.parametrize(
    "pause", [False, pytest.param(True, marks=pytest.mark.soak)], ids=["at once", "after clients were told"]
)
def test_a_topic_deleted_and_recreated_under_load_is_another_topic(
    broker: PrivatePulsar, broker_namespace: str, start_bridge: Callable[..., BridgeChild], topic: str, pause: bool
) -> None:
    bridge = start_bridge(kafka={"auto_create_topics": False})
    create(bridge.kafka, topic)
    # so far on that the new topic does not get there meanwhile: a reader could not tell, and would go on in its midst
    produce(bridge.kafka, topic, [b"old"] * FAR)
    with pair(bridge.kafka, topic) as running:
        running.until("records in the old topic", lambda: len(running.acked) > 200 and len(running.read) > FAR + 200)
        broker.admin("DELETE", f"persistent/{broker_namespace}/{topic}/partitions?force=true")
        deleted = time.monotonic()
        if pause:
            wait_for(partial(is_unknown, bridge.kafka, topic), "the topic is still there")
        broker.admin("PUT", f"persistent/{broker_namespace}/{topic}/partitions", 1)
        made = time.monotonic()
        running.until("acks in the new topic", lambda: len([a for a in running.acked if a[2] > made]) > 50)
        recovered = time.monotonic() - made
        newest = running.acked[-1][1]
        running.until("the reader to follow", lambda: any(value == newest for _, value in running.read))
    new = all_records(bridge.kafka, topic)
    print(f"figures: recovery={recovered:.2f} old={len([a for a in running.acked if a[2] < deleted])} new={len(new)}")
    acked_late = [a for a in running.acked if a[2] > made]
    assert [offset for offset in sorted(new)] == list(range(len(new))), "the new topic begins at 0 and has no gaps"
    for offset, value, _ in acked_late:
        assert new.get(offset) == value, f"{value!r} acked at {offset}, where there is {new.get(offset)!r}"
    old = {value for offset, value, sent in running.acked if sent < deleted and new.get(offset) != value}
    assert old and not old & set(new.values()), "records acknowledged in the old topic are in the new one"
    # Their order is the client's affair: what is refused while there is no topic, librdkafka queues again.


def test_a_recreated_topic_that_only_a_writer_uses_starts_at_0(
    broker: PrivatePulsar, broker_namespace: str, bridge_child: BridgeChild, topic: str
) -> None:
    create(bridge_child.kafka, topic)
    assert produce(bridge_child.kafka, topic, [b"old"] * 20) == list(range(20))
    broker.admin("DELETE", f"persistent/{broker_namespace}/{topic}/partitions?force=true")
    broker.admin("PUT", f"persistent/{broker_namespace}/{topic}/partitions", 1)
    assert produce(bridge_child.kafka, topic, [b"new"] * 3) == [0, 1, 2]
    assert all_records(bridge_child.kafka, topic) == dict.fromkeys(range(3), b"new")
