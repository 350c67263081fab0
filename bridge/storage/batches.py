"""Entries as a reader meets them, each with its offsets and, when somebody asks, as a Kafka batch."""

from bridge.errors import CorruptEntry
from bridge.pulsar.types import Entry, Position
from bridge.storage import entries
from bridge.storage.chunks import Assembler, is_chunk
from bridge.storage.offsets import span


class Batch:
    """One entry of a partition; turned into a Kafka batch once, however many consumers read it."""

    __slots__ = (
        "_entry",
        "_kafka",
        "_limit",
        "_newest",
        "_payload",
        "base",
        "next",
        "position",
        "published_at",
        "size",
    )

    def __init__(self, entry: Entry, payload: bytes | memoryview | None, limit: int) -> None:
        if entry.index is None:
            raise CorruptEntry(f"the entry at {entry.position} has no index: the broker does not expose it")
        self.base, self.next = span(entry.index, entries.message_count(entry.metadata))
        self.position: Position = entry.position
        self.size = entry.size
        self.published_at = entry.broker_timestamp or entry.metadata.publish_time  # ms, of Pulsar's clock if it tells
        self._entry: Entry | None = entry
        self._payload = payload
        self._kafka: bytes | None = None
        self._limit = limit
        self._newest: int | None = None

    @property
    def is_chunk(self) -> bool:
        """Whether it is a piece of a chunked message, met alone."""
        return self._entry is not None and self._payload is None

    def kafka(self) -> bytes:
        """The entry as Kafka batches; empty where it holds no record of its own (a chunk but the last)."""
        if self._kafka is None:
            entry = self._entry
            assert entry is not None  # noqa: S101 — it goes only when _kafka comes
            if self._payload is None:
                self._kafka = b""
            else:
                try:
                    self._kafka = entries.to_kafka(entry, self.base, self._payload, self._limit)
                except CorruptEntry as error:
                    raise CorruptEntry(f"the entry at {self.position} cannot be read: {error}") from error
            self._newest = entries.newest_so_far(entry.metadata)
            self._entry = self._payload = None
        return self._kafka

    def newest_timestamp(self) -> int:
        """The newest timestamp of the partition up to here where the bridge wrote it down, else the newest in here."""
        if self._newest is None and self._entry is not None:
            metadata = self._entry.metadata
            self._newest = entries.newest_so_far(metadata)
            if self._payload is None:  # a chunk, alone
                return metadata.event_time or metadata.publish_time
        if self._newest is None:
            self._newest = max((record.timestamp for record in entries.records_of(self.kafka())), default=-1)
        return self._newest


class BatchMaker:
    """Makes the batches of one reader; chunks need those before them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._chunks = Assembler(limit)

    def make(self, entry: Entry) -> Batch | None:
        """The entry's batch; None for a chunk whose beginning lies before this reader's."""
        if not is_chunk(entry.metadata):
            return Batch(entry, entry.payload, self._limit)
        if not self._chunks.is_whole(entry):
            return None
        return Batch(entry, self._chunks.feed(entry), self._limit)


def within(batches: list[Batch], max_bytes: int) -> list[bytes]:
    """The batches' bytes up to `max_bytes`, but of one at least."""
    found: list[bytes] = []
    size = 0
    for batch in batches:
        data = batch.kafka()
        size += len(data)
        if found and size > max_bytes:
            break
        if data:
            found.append(data)
    return found
