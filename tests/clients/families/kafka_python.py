"""kafka-python 3.x as a `Client`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import UnknownTopicOrPartitionError

from tests.clients.families.kafka_python_groups import KafkaPythonGroups
from tests.clients.model import At, Codec, Delivery, Draft, Record, Start, UnknownTopic, attempts


class KafkaPython(KafkaPythonGroups):
    """kafka-python with its defaults: an idempotent producer, fetch sessions."""

    name = "kafka-python"
    creates_topics = True

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def close(self) -> None:
        """Nothing stays open between calls."""

    def can_write(self, draft: Draft) -> bool:
        """It refuses a null value without a key, and null header values."""
        keyless_tombstone = draft.value is None and draft.key is None
        return not keyless_tombstone and all(value is not None for _, value in draft.headers)

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic through the admin client."""
        with self._administering() as admin:
            admin.create_topics({topic: {"num_partitions": partitions, "replication_factor": 1}})

    def delete_topic(self, topic: str) -> None:
        """Delete a topic through the admin client."""
        with self._administering() as admin:
            admin.delete_topics([topic])

    def topics(self) -> set[str]:
        """List all topics."""
        with self._administering() as admin:
            return set(admin.list_topics())

    def partitions(self, topic: str) -> int:
        """Describe a topic and count its partitions."""
        with self._administering() as admin:
            (described,) = admin.describe_topics([topic])
        if described["error_code"] == UnknownTopicOrPartitionError.errno:
            raise UnknownTopic(topic)
        assert described["error_code"] == 0, described
        return len(described["partitions"])

    def write(self, topic: str, drafts: Sequence[Draft], codec: Codec = "none") -> list[Delivery]:
        """Send all, then wait for every future."""
        compression = None if codec == "none" else codec
        with closing(KafkaProducer(bootstrap_servers=self._bootstrap, compression_type=compression)) as producer:
            futures = [
                producer.send(topic, draft.value, draft.key, list(draft.headers), draft.partition, draft.timestamp)
                for draft in drafts
            ]
            producer.flush(60)
            results = [future.get(60) for future in futures]
        return [Delivery(result.partition, result.offset, result.timestamp) for result in results]

    def read(self, topic: str, starts: Mapping[int, Start]) -> list[Record]:
        """Assign, seek, and poll until the position of every partition is its end offset."""
        records: list[Record] = []
        with self._consumer() as consumer:
            partitions = {TopicPartition(topic, partition): start for partition, start in starts.items()}
            consumer.assign(list(partitions))
            for partition, start in partitions.items():
                _seek(consumer, partition, start)
            ends = consumer.end_offsets(list(partitions))
            for left in attempts(f"reading {topic}"):
                polled = consumer.poll(timeout_ms=min(left, 0.1) * 1000)
                records += [_record(message) for batch in polled.values() for message in batch]
                if all(self._position(consumer, partition) >= end for partition, end in ends.items()):
                    break
        return records

    def beginning_and_end(self, topic: str, partition: int) -> tuple[int, int]:
        """Ask for both watermarks."""
        tp = TopicPartition(topic, partition)
        with self._consumer() as consumer:
            return int(consumer.beginning_offsets([tp])[tp]), int(consumer.end_offsets([tp])[tp])

    def offset_for_time(self, topic: str, partition: int, timestamp: int) -> int | None:
        """Ask for an offset by time."""
        tp = TopicPartition(topic, partition)
        with self._consumer() as consumer:
            found = consumer.offsets_for_times({tp: timestamp})[tp]
        return None if found is None else int(found.offset)

    def _position(self, consumer: Any, partition: Any) -> int:
        """Where the consumer is, or -1 where it does not know yet: 2.x would spin for it, and read no answers."""
        is_known = consumer._subscription.assignment[partition].position is not None
        return int(consumer.position(partition)) if is_known else -1

    def _consumer(self) -> Any:
        # 2.x consumers are no context managers
        return closing(KafkaConsumer(bootstrap_servers=self._bootstrap, group_id=None, auto_offset_reset="none"))


def _seek(consumer: Any, partition: Any, start: Start) -> None:
    if isinstance(start, At):
        found = consumer.offsets_for_times({partition: start.timestamp})[partition]
        start = "end" if found is None else int(found.offset)
    if isinstance(start, int):
        consumer.seek(partition, start)
    elif start == "beginning":
        consumer.seek_to_beginning(partition)
    else:
        consumer.seek_to_end(partition)


def _record(message: Any) -> Record:
    assert message.timestamp_type == 0, "not CreateTime"
    headers = tuple((str(name), value) for name, value in message.headers)
    return Record(
        message.topic, message.partition, message.offset, message.timestamp, message.key, message.value, headers
    )
