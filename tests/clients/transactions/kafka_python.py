"""Transactions of kafka-python 3: protocol 1, offsets with the member's generation (KIP-447)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import InvalidProducerEpochError, KafkaError, ProducerFencedError
from kafka.structs import OffsetAndMetadata

from tests.apis.wire import unique
from tests.clients.model import TIMEOUT_SECONDS, attempts
from tests.clients.transactions.model import BATCH, Ended, Fenced, Seen, ThreadCopier


class KafkaPythonTransactions:
    """The family."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def producer(self, transactional_id: str, timeout_ms: int = 60_000) -> KafkaPythonProducer:
        """A producer that has fenced those before it."""
        return KafkaPythonProducer(self._bootstrap, transactional_id, timeout_ms)

    def reader(self, topic: str, partitions: Sequence[int], *, committed: bool) -> KafkaPythonReader:
        """A reader of committed records, or of all."""
        return KafkaPythonReader(self._bootstrap, topic, partitions, committed)

    def copier(self, source: str, target: str, group: str) -> KafkaPythonCopier:
        """A copier at work."""
        return KafkaPythonCopier(self._bootstrap, source, target, group)

    def close(self) -> None:
        """Nothing stays open."""


class KafkaPythonProducer:
    """A transactional producer."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )
        self._producer.init_transactions()

    def begin(self) -> None:
        """Begin a transaction."""
        with _errors_told():
            self._producer.begin_transaction()

    def send(self, topic: str, values: Sequence[str], partition: int = 0) -> None:
        """Write records and wait for their acknowledgements."""
        with _errors_told():
            futures = [self._producer.send(topic, value.encode(), partition=partition) for value in values]
            self._producer.flush(TIMEOUT_SECONDS)
            for future in futures:
                future.get(TIMEOUT_SECONDS)

    def send_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Commit offsets of a group without members."""
        wanted = {TopicPartition(topic, one): OffsetAndMetadata(offset, "", -1) for one, offset in offsets.items()}
        with _errors_told():
            self._producer.send_offsets_to_transaction(wanted, group)

    def send_positions(self, consumer: Any, behind: Mapping[Any, int]) -> None:
        """Commit where a member is."""
        wanted = {partition: OffsetAndMetadata(offset, "", -1) for partition, offset in behind.items()}
        with _errors_told():
            self._producer.send_offsets_to_transaction(wanted, consumer.group_metadata())

    def commit(self) -> None:
        """Commit."""
        with _errors_told():
            self._producer.commit_transaction()

    def abort(self) -> None:
        """Abort."""
        with _errors_told():
            self._producer.abort_transaction()

    def close(self) -> None:
        """Let go, whatever is open."""
        self._producer.close(timeout=0)


@contextmanager
def _errors_told() -> Iterator[None]:
    """Its errors as those that the tests know."""
    try:
        yield
    except (ProducerFencedError, InvalidProducerEpochError) as error:
        raise Fenced(str(error)) from error
    except KafkaError as error:
        # an error that came of being fenced has that as its cause
        cause = error.__cause__ if isinstance(error.__cause__, ProducerFencedError) else None
        raise (Fenced if cause else Ended)(f"{type(error).__name__}: {error}") from error


class KafkaPythonReader:
    """An assigned consumer."""

    def __init__(self, bootstrap: str, topic: str, partitions: Sequence[int], committed: bool) -> None:
        level = "read_committed" if committed else "read_uncommitted"
        self._topic = topic
        self._partitions = [TopicPartition(topic, partition) for partition in partitions]
        self._consumer = KafkaConsumer(
            bootstrap_servers=bootstrap, isolation_level=level, fetch_max_wait_ms=20, auto_offset_reset="earliest"
        )
        self._consumer.assign(self._partitions)

    def read(self) -> Seen:
        """Read up to the ends of its level."""
        seen: Seen = {each.partition: [] for each in self._partitions}
        ends = self._consumer.end_offsets(self._partitions)
        for left in attempts(f"reading {self._topic}"):
            for partition, records in self._consumer.poll(timeout_ms=min(left, 0.1) * 1000).items():
                seen[partition.partition] += [record.value.decode() for record in records]
            if all(self._consumer.position(partition) >= end for partition, end in ends.items()):
                break
        return seen

    def position(self, partition: int) -> int:
        """Where it is."""
        return int(self._consumer.position(TopicPartition(self._topic, partition)))

    def close(self) -> None:
        """Let go."""
        self._consumer.close()


class KafkaPythonCopier(ThreadCopier):
    """A member with one producer, whose offsets are refused when its generation is over."""

    def copy(self) -> None:
        """Copy; after a refusal start over as another member."""
        producer = KafkaPythonProducer(self.bootstrap, unique("copier"))
        while not self.stopped:
            consumer = KafkaConsumer(
                self.source, bootstrap_servers=self.bootstrap, group_id=self.group, auto_offset_reset="earliest",
                enable_auto_commit=False, max_poll_records=BATCH, heartbeat_interval_ms=200, session_timeout_ms=10_000,
                fetch_max_wait_ms=20,
            )  # fmt: skip
            try:
                self._copy_as(consumer, producer)
            except Fenced:
                raise
            except Ended:
                producer.abort()
            finally:
                consumer.close()
        producer.close()

    def _copy_as(self, consumer: Any, producer: KafkaPythonProducer) -> None:
        while not self.stopped:
            polled = consumer.poll(timeout_ms=100)
            if not polled:
                continue
            producer.begin()
            for partition, records in polled.items():
                producer.send(self.target, [record.value.decode() for record in records], partition.partition)
            producer.send_positions(consumer, {one: records[-1].offset + 1 for one, records in polled.items()})
            producer.commit()
