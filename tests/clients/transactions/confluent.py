"""Transactions of confluent-kafka, that is librdkafka: protocol 1, offsets with the member's generation (KIP-447)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Producer as KafkaProducer

from tests.apis.wire import unique
from tests.clients.model import TIMEOUT_SECONDS, attempts
from tests.clients.transactions.model import BATCH, Ended, Fenced, Seen, ThreadCopier

_FENCED = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}


class ConfluentTransactions:
    """The family."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def producer(self, transactional_id: str, timeout_ms: int = 60_000) -> ConfluentProducer:
        """A producer that has fenced those before it."""
        return ConfluentProducer(self._bootstrap, transactional_id, timeout_ms)

    def reader(self, topic: str, partitions: Sequence[int], *, committed: bool) -> ConfluentReader:
        """A reader of committed records, or of all."""
        return ConfluentReader(self._bootstrap, topic, partitions, committed)

    def copier(self, source: str, target: str, group: str) -> ConfluentCopier:
        """A copier at work."""
        return ConfluentCopier(self._bootstrap, source, target, group)

    def close(self) -> None:
        """Nothing stays open."""


class ConfluentProducer:
    """A transactional producer."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        config = {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "log_level": 0}
        # without an error_cb a fatal error makes its flush raise a SystemError that does not say why
        own = {"transaction.timeout.ms": timeout_ms, "linger.ms": 0, "error_cb": _told_elsewhere}
        self._producer = KafkaProducer({**config, **own})
        self._errors: list[Any] = []
        self._producer.init_transactions(TIMEOUT_SECONDS)

    def begin(self) -> None:
        """Begin a transaction."""
        with _errors_told():
            self._producer.begin_transaction()

    def send(self, topic: str, values: Sequence[str], partition: int = 0) -> None:
        """Write records and wait for their acknowledgements."""
        with _errors_told():
            for value in values:
                self._producer.produce(topic, value, partition=partition, on_delivery=self._on_delivery)
            try:
                assert self._producer.flush(TIMEOUT_SECONDS) == 0
            except SystemError:
                self._producer.abort_transaction(
                    TIMEOUT_SECONDS
                )  # says why, which a flush that is interrupted does not
                raise
            self._raise()

    def send_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Commit offsets of a group without members."""
        consumer = Consumer({"bootstrap.servers": "localhost:1", "group.id": group, "log_level": 0})
        positions = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
        with _errors_told():
            metadata = consumer.consumer_group_metadata()
            self._producer.send_offsets_to_transaction(positions, metadata, TIMEOUT_SECONDS)
        consumer.close()

    def send_positions(self, consumer: Any) -> None:
        """Commit where a member is."""
        with _errors_told():
            positions = [one for one in consumer.position(consumer.assignment()) if one.offset >= 0]
            self._producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), TIMEOUT_SECONDS)

    def commit(self) -> None:
        """Commit."""
        with _errors_told():
            self._producer.commit_transaction(TIMEOUT_SECONDS)

    def abort(self) -> None:
        """Abort."""
        with _errors_told():
            self._producer.abort_transaction(TIMEOUT_SECONDS)

    def close(self) -> None:
        """Let go, whatever is open."""
        self._producer.purge()
        with suppress(KafkaException, SystemError):
            self._producer.flush(0)

    def _on_delivery(self, error: Any, _: Any) -> None:
        if error is not None:
            self._errors.append(error)

    def _raise(self) -> None:
        if self._errors:
            errors, self._errors = self._errors, []
            raise KafkaException(next((one for one in errors if one.code() in _FENCED), errors[0]))


def _told_elsewhere(_: Any) -> None:
    """Each call tells its own errors."""


@contextmanager
def _errors_told() -> Iterator[None]:
    """Its errors as those that the tests know."""
    try:
        yield
    except KafkaException as error:
        raise (Fenced if error.args[0].code() in _FENCED else Ended)(str(error)) from error


class ConfluentReader:
    """An assigned consumer. Its own position is behind the last record; where it fetches next, an EOF tells."""

    def __init__(self, bootstrap: str, topic: str, partitions: Sequence[int], committed: bool) -> None:
        level = "read_committed" if committed else "read_uncommitted"
        own = {"group.id": "unused", "enable.auto.commit": False, "enable.partition.eof": True}
        config = {**own, "isolation.level": level, "fetch.wait.max.ms": 20}
        self._consumer = Consumer({"bootstrap.servers": bootstrap, **config})
        self._topic = topic
        self._positions = dict.fromkeys(partitions, 0)
        self._consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])

    def read(self) -> Seen:
        """Read up to the ends of its level."""
        seen: Seen = {partition: [] for partition in self._positions}
        ends = {partition: self._end(partition) for partition in self._positions}
        for left in attempts(f"reading {self._topic}"):
            if all(self._positions[partition] >= end for partition, end in ends.items()):
                break
            message = self._consumer.poll(left)
            if message is None:
                continue
            if message.error() is None:
                seen[message.partition()].append(message.value().decode())
                self._positions[message.partition()] = message.offset() + 1
            elif message.error().code() == KafkaError._PARTITION_EOF:
                self._positions[message.partition()] = message.offset()
            else:
                raise KafkaException(message.error())
        return seen

    def position(self, partition: int) -> int:
        """Where it is."""
        return self._positions[partition]

    def close(self) -> None:
        """Let go."""
        self._consumer.close()

    def _end(self, partition: int) -> int:
        _, end = self._consumer.get_watermark_offsets(TopicPartition(self._topic, partition), timeout=TIMEOUT_SECONDS)
        return int(end)


class ConfluentCopier(ThreadCopier):
    """A member with one producer, whose offsets are refused when its generation is over."""

    def copy(self) -> None:
        """Copy; after a refusal start over as another member."""
        producer = ConfluentProducer(self.bootstrap, unique("copier"))
        while not self.stopped:
            consumer = self._member()
            try:
                self._copy_as(consumer, producer)
            except Fenced:
                raise
            except Ended:
                producer.abort()
            finally:
                consumer.close()
        producer.close()

    def _copy_as(self, consumer: Any, producer: ConfluentProducer) -> None:
        while not self.stopped:
            messages = [one for one in consumer.consume(BATCH, 0.1) if one.error() is None]
            if not messages:
                continue
            producer.begin()
            for message in messages:
                producer.send(self.target, [message.value().decode()], message.partition())
            producer.send_positions(consumer)
            producer.commit()

    def _member(self) -> Any:
        config = {"bootstrap.servers": self.bootstrap, "group.id": self.group, "auto.offset.reset": "earliest"}
        own = {"enable.auto.commit": False, "heartbeat.interval.ms": 200, "session.timeout.ms": 10_000}
        consumer = Consumer({**config, **own, "fetch.wait.max.ms": 20, "log_level": 0})
        consumer.subscribe([self.source])
        return consumer
