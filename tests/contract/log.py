"""One topic as a program sees it that keeps offsets itself: assigned, never a group, no reset."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from itertools import takewhile
from types import TracebackType
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

TIMEOUT_SECONDS = 30.0
_NOT_YET = (
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_PARTITION,
)


class OutOfRange(Exception):
    """The server says that the offset is outside the log."""


class Log:
    """Writes and reads one topic."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic = topic
        self._bootstrap = bootstrap
        self._producers: dict[str, Producer] = {}
        self._consumer = _consumer(bootstrap)

    def __enter__(self) -> Log:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._consumer.close()
        self._producers.clear()  # whatever is left of them would miss the server

    def wait_for_leaders(self, partitions: int) -> None:
        """A Kafka broker leads a new topic's partitions a moment after it has said that the topic is made."""
        until = time.monotonic() + TIMEOUT_SECONDS
        for partition in range(partitions):
            while True:
                try:
                    self.ends(partition)
                    break
                except KafkaException as error:
                    if error.args[0].code() not in _NOT_YET or time.monotonic() > until:
                        raise

    def write(
        self, values: Sequence[bytes | None], partition: int = 0, codec: str = "none", **fields: Any
    ) -> list[int]:
        """Write and wait; the offsets that the producer was told."""
        if codec not in self._producers:
            own = {"bootstrap.servers": self._bootstrap, "linger.ms": 50, "compression.type": codec}
            self._producers[codec] = Producer(own)
        producer = self._producers[codec]
        told: list[int] = []

        def on_delivery(error: KafkaError | None, message: Any) -> None:
            assert error is None, error
            told.append(message.offset())

        for value in values:
            producer.produce(self.topic, value, partition=partition, on_delivery=on_delivery, **fields)
        assert producer.flush(TIMEOUT_SECONDS) == 0
        return told

    def write_batches(self, sizes: Sequence[int], partition: int = 0) -> list[int]:
        """As `write`, each size a batch of its own."""
        return [offset for size in sizes for offset in self.write([b"%d" % at for at in range(size)], partition)]

    def ends(self, partition: int = 0) -> tuple[int, int]:
        """The earliest and the latest offset, asked of the server."""
        low, high = self._consumer.get_watermark_offsets(
            TopicPartition(self.topic, partition), TIMEOUT_SECONDS, cached=False
        )
        return int(low), int(high)

    def at_time(self, timestamp: int, partition: int = 0) -> int:
        """The first offset at or after a time; −1 for none."""
        wanted = [TopicPartition(self.topic, partition, timestamp)]
        return int(self._consumer.offsets_for_times(wanted, TIMEOUT_SECONDS)[0].offset)

    def read(self, start: int, partition: int = 0, isolation: str = "read_uncommitted") -> list[Any]:
        """The messages from an offset up to the end of the partition; raises OutOfRange."""
        return list(takewhile(lambda message: message is not None, self.reading(start, partition, isolation)))

    def first(self, start: int, partition: int = 0) -> Any | None:
        """The first message from an offset on; None where the partition ends there."""
        return next(self.reading(start, partition))

    def reading(
        self, start: int, partition: int = 0, isolation: str = "read_uncommitted"
    ) -> Generator[Any | None, None, None]:
        """Messages from an offset on as they come, None at each end of the partition; raises OutOfRange."""
        reader = _consumer(self._bootstrap, isolation)
        try:
            reader.assign([TopicPartition(self.topic, partition, start)])
            until = time.monotonic() + TIMEOUT_SECONDS
            while True:
                message = reader.poll(max(0.0, until - time.monotonic()))
                assert message is not None, f"nothing for {TIMEOUT_SECONDS} s at {start} of {self.topic}-{partition}"
                yield _checked(message)
        finally:
            reader.close()


def _consumer(bootstrap: str, isolation: str = "read_uncommitted") -> Consumer:
    """A consumer without a group's ways; librdkafka wants a name all the same."""
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 20,
            "isolation.level": isolation,
        }
    )


def _checked(message: Any) -> Any | None:
    error = message.error()
    if error is None:
        return message
    if error.code() == KafkaError._PARTITION_EOF:
        return None
    if error.code() == KafkaError._AUTO_OFFSET_RESET:
        raise OutOfRange(str(error))
    raise KafkaException(error)
