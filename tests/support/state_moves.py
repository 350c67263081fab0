"""What is before and during a move of the bridge's state: bridges of before, and clients that go on."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping
from typing import Any

import confluent_kafka
import pytest

from bridge import check
from bridge.cli import connected
from bridge.config import PulsarSettings

PARTITIONS = 4
Login = Mapping[str, Any]
"""As librdkafka is told how to log in."""


class Older:
    """While it lasts, bridges of this process keep their state where those did that knew no other place."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch

    def __enter__(self) -> None:
        async def nothing(*_: object) -> None:
            pass

        self._patch.setattr(PulsarSettings, "state_topic", PulsarSettings.old_state_topic)
        self._patch.setattr(check, "ensure_state", nothing)
        self._patch.setattr(connected, "ensure_state", nothing)

    def __exit__(self, *_: object) -> None:
        self._patch.undo()


class Load:
    """A group whose members read and commit a record at a time, and a producer, whatever becomes of their bridges."""

    def __init__(self, bootstrap: str, login: Login | None = None, members: int = 1) -> None:
        self.acknowledged: dict[int, int] = {}
        """Offsets by partition, as they were committed last."""
        self.stored: dict[bytes, tuple[int, int]] = {}
        """Partition and offset of each record that was acknowledged."""
        self.read: dict[int, set[int]] = {}
        """Offsets by partition, as the group was given them."""
        self._settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0, **(login or {})}
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=run) for run in (*[self._consume] * members, self._produce)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _produce(self) -> None:
        producer = confluent_kafka.Producer({**self._settings, "enable.idempotence": True})
        for number in itertools.count():
            if self._ended.is_set():
                break
            producer.produce("t", b"%d" % number, partition=number % PARTITIONS, on_delivery=self._delivered)
            producer.flush(60)

    def _delivered(self, error: object, message: confluent_kafka.Message) -> None:
        if error is None:
            self.stored[message.value() or b""] = (message.partition() or 0, message.offset() or 0)

    def _consume(self) -> None:
        more = {"group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        consumer = confluent_kafka.Consumer({**self._settings, **more})
        consumer.subscribe(["t"])
        while not self._ended.is_set():
            message = consumer.poll(0.1)
            if message is None or message.error() is not None:
                continue
            self.read.setdefault(message.partition() or 0, set()).add(message.offset() or 0)
            try:
                consumer.commit(message, asynchronous=False)
            except confluent_kafka.KafkaException:
                continue
            self.acknowledged[message.partition() or 0] = (message.offset() or 0) + 1
        consumer.close()

    def wait(self, more: int) -> None:
        """Until so many records more are committed."""
        start = sum(self.acknowledged.values())
        for _ in range(600):
            if sum(self.acknowledged.values()) >= start + more:
                return
            self._ended.wait(0.1)
        raise AssertionError("the group does not go on")


def all_records(bootstrap: str, login: Login | None = None) -> dict[bytes, tuple[int, int]]:
    """What is in the topic: partition and offset of each value."""
    words = {"bootstrap.servers": bootstrap, "group.id": "g", "enable.partition.eof": True, **(login or {})}
    consumer = confluent_kafka.Consumer(words)
    consumer.assign([confluent_kafka.TopicPartition("t", partition, 0) for partition in range(PARTITIONS)])
    found: dict[bytes, tuple[int, int]] = {}
    count, ended = 0, set[int]()
    while len(ended) < PARTITIONS:
        message = consumer.poll(60)
        assert message is not None
        error = message.error()
        if error is None:
            found[message.value() or b""] = (message.partition() or 0, message.offset() or 0)
            count += 1
        else:
            assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
            ended.add(message.partition() or 0)
    consumer.close()
    assert len(found) == count  # none twice
    return found


def committed(bootstrap: str, client_id: str = "own", login: Login | None = None) -> dict[int, int]:
    words: dict[str, Any] = {"bootstrap.servers": bootstrap, "group.id": "g", "client.id": client_id, **(login or {})}
    consumer = confluent_kafka.Consumer(words)
    try:
        asked = [confluent_kafka.TopicPartition("t", index) for index in range(PARTITIONS)]
        return {one.partition: one.offset for one in consumer.committed(asked, timeout=30) if one.offset >= 0}
    finally:
        consumer.close()
