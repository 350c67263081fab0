"""Topics of the fault tests: created, written and read by plain clients."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.faults.processes import let_pass

WAIT = 30.0


def consumer(bootstrap: str, reset: str = "error", *, group: str = "none", session_ms: int = 45_000) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "session.timeout.ms": session_ms,
            "auto.offset.reset": reset,
            "fetch.wait.max.ms": 10,  # what is asked next waits behind a long poll
            "log_level": 0,
        }
    )


def create(bootstrap: str, topic: str, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})  # its futures fail when it is collected before they are done
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(WAIT)


def produce(bootstrap: str, topic: str, values: list[bytes], first_timestamp: int = 0) -> list[int]:
    """One batch (so one Pulsar entry) for each value; the offsets acknowledged."""
    offsets: list[int] = []

    def done(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        offset = message.offset()
        assert offset is not None
        offsets.append(offset)

    producer = Producer({"bootstrap.servers": bootstrap, "batch.num.messages": 1, "linger.ms": 0})
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=0, timestamp=first_timestamp + 10 * number, on_delivery=done)
    assert producer.flush(WAIT) == 0
    return offsets


def value_of(message: Message) -> bytes:
    assert message.error() is None, message.error()
    value = message.value()
    assert isinstance(value, bytes)
    return value


def read(reader: Consumer, topic: str, partition: int, offset: int, count: int) -> list[Message]:
    """So many records from an offset on, or the error that comes instead."""
    reader.assign([TopicPartition(topic, partition, offset)])
    found: list[Message] = []
    while len(found) < count:
        messages = reader.consume(count - len(found), WAIT)
        assert messages, f"nothing more after {len(found)} of {count} records from {partition}/{offset} on"
        found += messages
        if messages[-1].error() is not None:
            break
    return found


def read_values(bootstrap: str, topic: str, offset: int, count: int) -> list[bytes]:
    """So many values of the first partition from an offset on, read by a new consumer."""
    reader = consumer(bootstrap)
    try:
        return [value_of(message) for message in read(reader, topic, 0, offset, count)]
    finally:
        reader.close()


def wait_for(condition: Callable[[], bool], otherwise: str, tries: int = 150) -> None:
    for _ in range(tries):
        if condition():
            return
        let_pass(0.1)
    raise AssertionError(otherwise)
