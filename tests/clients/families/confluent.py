"""confluent-kafka, that is librdkafka, as a `Client`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from tests.clients.families.confluent_groups import ConfluentGroups
from tests.clients.model import TIMEOUT_SECONDS, Codec, Delivery, Draft, Record, Start, UnknownTopic, attempts


class Confluent(ConfluentGroups):
    """confluent-kafka with its defaults, apart from a partitioner that agrees with the Java client."""

    name = "confluent"
    creates_topics = True

    def __init__(self, bootstrap: str) -> None:
        self._config: dict[str, Any] = {"bootstrap.servers": bootstrap}
        # its futures fail when the admin client is collected before they are done
        self._admin = AdminClient(self._config)

    def close(self) -> None:
        """Let go of the admin client."""
        del self._admin

    def can_write(self, draft: Draft) -> bool:
        """It cannot write timestamp 0: for librdkafka that means now."""
        return draft.timestamp != 0

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic through the admin client."""
        self._admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)

    def delete_topic(self, topic: str) -> None:
        """Delete a topic through the admin client."""
        try:
            self._admin.delete_topics([topic])[topic].result(30)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise UnknownTopic(topic) from error
            raise

    def topics(self) -> set[str]:
        """List all topics."""
        return {str(name) for name in self._admin.list_topics(timeout=30).topics}

    def partitions(self, topic: str) -> int:
        """Count the partitions in the metadata of one topic."""
        described = self._admin.list_topics(topic, timeout=30).topics[topic]
        if described.error is not None:
            raise UnknownTopic(str(described.error))
        return len(described.partitions)

    def write(self, topic: str, drafts: Sequence[Draft], codec: Codec = "none") -> list[Delivery]:
        """Produce all, then flush; deliveries come by callback."""
        config = {**self._config, "compression.type": codec, "partitioner": "murmur2_random"}
        said = _Said()
        producer = Producer(config if codec == "none" else {**config, "debug": "msg", "logger": said.logger})
        deliveries: dict[int, Delivery] = {}
        for position, draft in enumerate(drafts):
            optional: dict[str, Any] = {} if draft.partition is None else {"partition": draft.partition}
            if draft.timestamp is not None:
                optional["timestamp"] = draft.timestamp
            producer.produce(
                topic,
                draft.value,
                draft.key,
                headers=list(draft.headers),
                on_delivery=_note(deliveries, position),
                **optional,
            )
        assert producer.flush(60) == 0
        if codec != "none":
            # where a broker's versions make librdkafka give up compression, it says so in its debug log alone
            assert any(f", {codec})" in line for line in said.lines), said.lines
            assert not any(", uncompressed)" in line for line in said.lines), said.lines
        return [deliveries[position] for position in range(len(drafts))]

    def read(self, topic: str, starts: Mapping[int, Start]) -> list[Record]:
        """Assign with the starting offsets and poll until every partition reports its end."""
        records: list[Record] = []
        consumer = self._consumer()
        try:
            # once it is connected: librdkafka asks for a beginning or an end again only after half a second
            consumer.get_watermark_offsets(TopicPartition(topic, min(starts)), timeout=TIMEOUT_SECONDS)
            consumer.assign([TopicPartition(topic, p, self._offset(consumer, topic, p, s)) for p, s in starts.items()])
            open_partitions = set(starts)
            for left in attempts(f"reading {topic}"):
                message = consumer.poll(left)
                if message is None:
                    continue
                if message.error() is None:
                    records.append(_record(message))
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    open_partitions.discard(message.partition())
                else:
                    raise KafkaException(message.error())
                if not open_partitions:
                    break
        finally:
            consumer.close()
        return records

    def beginning_and_end(self, topic: str, partition: int) -> tuple[int, int]:
        """Query both watermarks."""
        consumer = self._consumer()
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
            return int(low), int(high)
        finally:
            consumer.close()

    def offset_for_time(self, topic: str, partition: int, timestamp: int) -> int | None:
        """Ask for an offset by time; librdkafka answers the end (-1) when no record is late enough."""
        consumer = self._consumer()
        try:
            offset = _offset_at(consumer, topic, partition, timestamp)
            return None if offset == OFFSET_END else offset
        finally:
            consumer.close()

    def _consumer(self) -> Any:
        # librdkafka wants a group id even for assignment; nothing is committed and no group is joined
        own = {"group.id": "unused", "enable.auto.commit": False, "enable.partition.eof": True}
        # the end of a partition is known when a fetch there comes back empty
        return Consumer({**self._config, **own, "fetch.wait.max.ms": 20})

    def _offset(self, consumer: Any, topic: str, partition: int, start: Start) -> int:
        if isinstance(start, int):
            return start
        if start == "beginning":
            return int(OFFSET_BEGINNING)
        if start == "end":
            return int(OFFSET_END)
        return _offset_at(consumer, topic, partition, start.timestamp)


class _Said(logging.Handler):
    """Keeps what librdkafka logs."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.logger = logging.Logger("librdkafka", logging.DEBUG)
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def _note(deliveries: dict[int, Delivery], position: int) -> Callable[[Any, Any], None]:
    def on_delivery(error: Any, message: Any) -> None:
        assert error is None, error
        deliveries[position] = Delivery(message.partition(), message.offset(), message.timestamp()[1])

    return on_delivery


def _offset_at(consumer: Any, topic: str, partition: int, timestamp: int) -> int:
    (found,) = consumer.offsets_for_times([TopicPartition(topic, partition, timestamp)], timeout=30)
    assert found.error is None, found.error
    return int(found.offset)


def _record(message: Any) -> Record:
    kind, timestamp = message.timestamp()
    assert kind == 1, f"timestamp type {kind} is not CreateTime"
    headers = tuple((str(name), value) for name, value in message.headers() or ())
    key, value = message.key(), message.value()
    return Record(message.topic(), message.partition(), message.offset(), timestamp, key, value, headers)
