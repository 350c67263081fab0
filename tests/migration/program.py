"""A producer or a consumer at work, in a process of its own, until SIGTERM, at which it ends in order.

`python -m tests.migration.program LIBRARY produce BOOTSTRAP TOPIC NAME FIRST PARTITIONS RATE` or
`… consume BOOTSTRAP TOPIC GROUP`. It says a line for all that happens: `acked NUMBER MILLIS`,
`read PARTITION OFFSET MILLIS VALUE`, `failed WHY`, at last `ended`.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

EPOCH = 1_700_000_000_000
"""The time of a producer's record 0, in milliseconds; each next one is a millisecond later, whatever the clock says."""
COMMIT_SECONDS = 0.5
_ending = False


def say(*words: object) -> None:
    """Print a line whole: other threads print, too."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")


def millis() -> int:
    """Now."""
    return time.time_ns() // 1_000_000


def numbers(first: int, rate: int, idle: Callable[[float], object]) -> Iterator[int]:
    """Numbers from `first` on, so many a second, until the end; `idle` takes the seconds until the next."""
    began, number = time.monotonic(), first
    while not _ending:
        yield number
        number += 1
        idle(max(0.0, began + (number - first) / rate - time.monotonic()))


def fields(name: str, number: int) -> dict[str, Any]:
    """A record's key, value and headers."""
    return {
        "key": f"key-{number % 50}".encode(),
        "value": f"{name}:{number}".encode(),
        "headers": [("by", name.encode())],
    }


class Confluent:
    """By librdkafka."""

    def produce(self, bootstrap: str, topic: str, name: str, first: int, partitions: int, rate: int) -> None:
        """Write until the end."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True})

        def told(number: int) -> Callable[[Any, Any], None]:
            return lambda error, _: say("acked", number, millis()) if error is None else say("failed", error)

        for number in numbers(first, rate, producer.poll):
            producer.produce(
                topic, partition=number % partitions, timestamp=EPOCH + number, on_delivery=told(number),
                **fields(name, number),
            )  # fmt: skip
        producer.flush()

    def consume(self, bootstrap: str, topic: str, group: str) -> None:
        """Read, and commit what was read, until the end."""
        from confluent_kafka import Consumer, KafkaError, KafkaException

        settings = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
        consumer = Consumer({**settings, "enable.auto.commit": False})
        consumer.subscribe([topic])

        def commit() -> None:
            try:
                consumer.commit(asynchronous=False)
            except KafkaException as error:
                if error.args[0].code() != KafkaError._NO_OFFSET:  # nothing was read since
                    raise

        due = time.monotonic() + COMMIT_SECONDS
        while not _ending:
            for message in consumer.consume(500, 0.05):
                if message.error() is None:
                    say("read", message.partition(), message.offset(), millis(), message.value().decode())
            if time.monotonic() >= due:
                commit()
                due = time.monotonic() + COMMIT_SECONDS
        commit()
        consumer.close()


class KafkaPython:
    """By kafka-python."""

    def produce(self, bootstrap: str, topic: str, name: str, first: int, partitions: int, rate: int) -> None:
        """Write until the end."""
        from kafka import KafkaProducer

        producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
        for number in numbers(first, rate, time.sleep):
            sent = producer.send(
                topic, partition=number % partitions, timestamp_ms=EPOCH + number, **fields(name, number)
            )
            sent.add_callback(lambda _, number=number: say("acked", number, millis()))
            sent.add_errback(lambda error: say("failed", repr(error)))
        producer.flush()
        producer.close()

    def consume(self, bootstrap: str, topic: str, group: str) -> None:
        """Read, and commit what was read, until the end."""
        from kafka import KafkaConsumer

        settings = {"bootstrap_servers": bootstrap, "group_id": group, "auto_offset_reset": "earliest"}
        consumer = KafkaConsumer(topic, enable_auto_commit=False, **settings)
        due = time.monotonic() + COMMIT_SECONDS
        while not _ending:
            for records in consumer.poll(timeout_ms=50).values():
                for one in records:
                    say("read", one.partition, one.offset, millis(), one.value.decode())
            if time.monotonic() >= due:
                consumer.commit()
                due = time.monotonic() + COMMIT_SECONDS
        consumer.commit()
        consumer.close()


def main(library: str, what: str, *words: str) -> None:
    """Do it."""
    signal.signal(signal.SIGTERM, _end)
    by: Confluent | KafkaPython = Confluent() if library == "confluent" else KafkaPython()
    if what == "produce":
        bootstrap, topic, name, first, partitions, rate = words
        by.produce(bootstrap, topic, name, int(first), int(partitions), int(rate))
    else:
        by.consume(*words)
    say("ended")


def _end(*_: object) -> None:
    global _ending
    _ending = True


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    main(*sys.argv[1:])
