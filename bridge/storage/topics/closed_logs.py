"""What Pulsar is asked about partitions that need not be open here: where they end, and when a record was published.

Nothing is opened for it, created or kept: each question is a reader that lasts for one answer.
"""

from collections.abc import AsyncGenerator
from typing import Final, NamedTuple

from bridge.pulsar.admin import NotFound
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import EARLIEST, Position, PulsarError
from bridge.storage import topic_properties
from bridge.storage.entries import is_kafka, mark_text
from bridge.storage.mark_signer import MarkSigner
from bridge.storage.names import Names
from bridge.storage.offsets import OffsetIndex
from bridge.storage.read.batches import Batch
from bridge.storage.read.markers import Markers
from bridge.storage.read.search import Search
from bridge.storage.services import Storage
from bridge.storage.topics.topics import Topics

_MOST_KNOWN: Final = 10_000
_LOOK_PERMITS: Final = 100
_LOOK_BYTES: Final = 1 << 20
"""What one who looks at records lets Pulsar send ahead."""


class Published(NamedTuple):
    """When the first record at or after an offset was published (ms): one answer for a range of offsets."""

    first: int
    next: int
    at: int

    def holds(self, offset: int) -> bool:
        """Whether it is the answer for this offset, too."""
        return self.first <= offset < self.next


class AskedEnd(NamedTuple):
    """Where a partition ends, as it was asked."""

    offset: int
    position: Position
    last: Published | None
    """When its last entry was published; None: it has none."""


class StoredBatch(NamedTuple):
    """An entry as Kafka batches."""

    batch: Batch
    by_kafka: bool
    """Whether a client of Kafka's wrote it, as the entry says: any client of Pulsar's can say so, too."""


class Extent(NamedTuple):
    """What a partition holds, from the first entry that readers get to the last."""

    first: Position
    first_stored_at: int | None
    """By the broker's clock (ms); None: brokers are not told to keep it."""
    last: Position


class ClosedLogs:
    """The ends of the partitions of one namespace whose logs are not open here."""

    def __init__(self, storage: Storage, topics: Topics) -> None:
        self.end_polls, self.time_polls = storage.end_polls, storage.time_polls
        self._storage = storage
        self._topics = topics
        self._names = Names(storage.settings.pulsar.full_namespace)
        self._partitioned: dict[str, bool] = {}

    async def end(self, topic: str, partition: int, before: AskedEnd | None = None) -> AskedEnd | None:
        """The end as ListOffsets tells it; None: there is no such partition. `before`: a former answer.

        Raises BridgeError where Pulsar cannot be asked.
        """
        was_known = topic in self._partitioned
        search = await self._search(topic, partition)
        if search is None:
            return None
        try:
            last = await search.last_position()
        except PulsarError as error:
            if error.code != pb.TopicNotFound or not was_known:  # its topic is there, so it may come back
                raise
            del self._partitioned[topic]
            return await self.end(topic, partition, before)
        if before is not None and before.position == last != EARLIEST:
            return before
        batch = await search.last_batch(last)
        if batch is None:
            return AskedEnd(await search.next_offset_when_empty(), last, None)
        return AskedEnd(batch.next, last, Published(batch.base, batch.next, batch.published_at))

    async def start(self, topic: str, partition: int, end: AskedEnd) -> int:
        """Where a partition that ends there starts: its first record that is there, or its end if there is none."""
        found = await self._topics.get(topic)
        search = await self._search(topic, partition)
        if found is None or search is None:
            return end.offset
        start = topic_properties.log_starts(found.properties).get(partition, 0)
        batch = await search.find_offset(start)
        return end.offset if batch is None else max(start, batch.base)

    async def offset_at(self, topic: str, partition: int, timestamp: int) -> int | None:
        """An offset before which no record is as new as a time (ms), near the first that is; None where none is."""
        search = await self._search(topic, partition)
        batch = None if search is None else await search.find_time(timestamp)
        return None if batch is None else batch.base

    async def entries(self, topic: str, partition: int, offset: int) -> AsyncGenerator["StoredBatch", None]:
        """The entries from the one that holds an offset on, up to the end there is now, and who wrote each.

        One reader of Pulsar, for as long as the iterator is open: close it. Raises BridgeError.
        """
        found, search = await self._topics.get(topic), await self._search(topic, partition)
        first = None if search is None else await search.find_offset(offset)
        last = None if search is None else await search.last_batch(await search.last_position())
        if found is None or search is None or first is None or last is None:
            return
        full = self._names.partition(topic, partition, partitioned=self._partitioned.get(topic, True))
        maker = self._storage.maker(full, MarkSigner(self._storage.mark_secret, full))
        reader = await self._storage.client.reader(full, first.position, permits=_LOOK_PERMITS, max_buffer=_LOOK_BYTES)
        try:
            reached = False
            while not reached:
                entry = await reader.receive()
                reached = entry.position >= last.position
                by_kafka = is_kafka(entry.metadata) or mark_text(entry.metadata) is not None
                if maker.lacks_earlier(entry):
                    await maker.read_earlier(entry, search.earlier_chunks)
                batch = maker.make(entry)
                if batch is not None and batch.next > offset:
                    await batch.convert(self._storage.threads)
                    yield StoredBatch(batch, by_kafka)
        finally:
            await reader.close()

    async def published(self, topic: str, partition: int, offset: int) -> Published | None:
        """When the first record at or after `offset` that is there was published; None if there is none."""
        found = await self._topics.get(topic)
        search = await self._search(topic, partition)
        if found is None or search is None:
            return None
        start = topic_properties.log_starts(found.properties).get(partition, 0)
        batch = await search.find_offset(max(offset, start))
        return None if batch is None else Published(min(offset, batch.base), batch.next, batch.published_at)

    async def extent(self, topic: str, partition: int) -> Extent | None:
        """What Pulsar has of a partition, whatever of it is hidden; None: no entry, or there is no such partition.

        Raises BridgeError where Pulsar cannot be asked. What a deleted topic has left behind counts as well.
        """
        partitions = await self._partitions(topic)
        full = self._names.partition(topic, partition, partitioned=partitions != 0 or partition > 0)
        client, admin = self._storage.client, self._storage.admin
        if partitions is None or partition >= max(partitions, 1):
            try:
                await admin.internal_stats(full)
            except NotFound:
                return None
        first = await client.read_entry(full, EARLIEST, Markers(full, admin, client).are_markers)
        if first is None:
            return None
        return Extent(first.position, first.broker_timestamp, max(first.position, await client.last_position(full)))

    async def _search(self, topic: str, partition: int) -> Search | None:
        """What asks about a partition; None where the topic is known to have none of this number."""
        partitioned = self._partitioned.get(topic)
        if partitioned is None:
            partitions = await self._partitions(topic)
            if partitions is None or partition >= max(partitions, 1):
                return None
            if len(self._partitioned) >= _MOST_KNOWN:
                self._partitioned.clear()
            partitioned = self._partitioned[topic] = partitions > 0
        if not partitioned and partition:
            return None
        full = self._names.partition(topic, partition, partitioned=partitioned)
        of = self._storage
        signer = MarkSigner(of.mark_secret, full)
        maker = of.maker(full, signer)
        return Search(full, of.client, of.admin, of.metrics, maker, OffsetIndex(), of.threads, signer)

    async def _partitions(self, topic: str) -> int | None:
        """How many partitions, 0: it is not partitioned; None: there is no such topic."""
        full = self._names.pulsar(topic)
        try:
            return await self._storage.client.partitions(full)
        except PulsarError as error:
            if error.code == pb.TopicNotFound:
                return None
            if error.code != pb.UnsupportedVersionError:
                raise
        try:
            return (await self._storage.admin.partitioned_metadata(full)).partitions
        except NotFound:
            return None
