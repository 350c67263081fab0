"""Reads KoP's own topics and its data: what Pulsar has of the log itself, and before it what only compaction has kept.

Of `__consumer_offsets` compaction keeps the last message of a group, which may be about one partition of many. So the
log itself is read, though KoP reads the compacted one. Where its beginning was deleted, compaction has the last of
older groups. Of data topics the log alone is read, as it is served.

KoP ends transactions by entries with a marker of Pulsar's, which brokers keep from readers. They are asked for one by
one, of the admin interface, where a transaction is open and entries do not come.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, NamedTuple, Protocol

from bridge.cli.kop.outcomes import PartitionOutcomes, Snapshots, States
from bridge.cli.kop.records import KopOffsets
from bridge.codec import Record
from bridge.errors import BridgeError, CorruptEntry, StartupError
from bridge.pulsar import Admin, AdminError, PulsarClient
from bridge.pulsar.admin import InternalStats, NotFound
from bridge.pulsar.consumer import Reader
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import EARLIEST, LATEST, Entry, Position
from bridge.storage import entries
from bridge.storage.read.markers import Markers

TOPIC: Final = "__consumer_offsets"
STATES: Final = "__transaction_state"
_SNAPSHOTS: Final = "__transaction_producer_state"
_READ_SECONDS: Final = 30.0
_COMPACTED_SECONDS: Final = 10.0
_MAX_ENTRY_BYTES: Final = 1 << 24
_MAX_PARTITIONS: Final = 10_000


async def read_offsets(client: PulsarClient, admin: Admin, namespace: str) -> KopOffsets:
    """All that KoP has of groups' offsets in its metadata namespace; StartupError where there is no such topic."""
    topic = f"persistent://{namespace}/{TOPIC}"
    count = await _partitions(admin, topic)
    if not count:
        raise StartupError(
            f"there is no partitioned topic {topic}: name KoP's kafkaMetadataTenant and kafkaMetadataNamespace with "
            "--metadata-namespace"
        )
    found = KopOffsets(count)
    for number in range(count):
        one = _Messages(client, admin, f"{topic}-partition-{number}", partial(found.fold, number), found.counts)
        await one.read(partial(found.is_open, number), partial(found.end, number))
    return found


async def read_states(client: PulsarClient, admin: Admin, namespace: str) -> States | None:
    """What KoP has of transactional ids; None where it has coordinated no transactions."""
    topic = f"persistent://{namespace}/{STATES}"
    count = await _partitions(admin, topic)
    if not count:
        return None
    found = States(count)
    await _read_whole(client, admin, topic, count, found)
    return found


async def read_snapshots(client: PulsarClient, admin: Admin, namespace: str) -> Snapshots:
    """What KoP has of its partitions' transactions; nothing where there is no such topic."""
    topic, found = f"persistent://{namespace}/{_SNAPSHOTS}", Snapshots()
    await _read_whole(client, admin, topic, await _partitions(admin, topic), found)
    return found


async def read_outcomes(
    client: PulsarClient, admin: Admin, topic: str, tell: Callable[[], None]
) -> tuple[PartitionOutcomes, str]:
    """What became of the transactions of one partition of data, as far as its log says; and why not all ends are known,
    where that is so. `tell` is called with each entry."""
    one = _Data(client, admin, topic, tell)
    await one.read(lambda: one.outcomes.is_open, one.outcomes.end)
    return one.outcomes, one.blind


async def _partitions(admin: Admin, topic: str) -> int:
    """How many a topic has; 0: there is none, or it is no partitioned one."""
    try:
        count = (await admin.partitioned_metadata(topic)).partitions
    except NotFound:
        return 0
    return count if count <= _MAX_PARTITIONS else 0


class _Fold(Protocol):
    counts: Counter[str]

    def fold(self, partition: int, sent: Record) -> None:
        """One message of a partition, in its order."""


async def _read_whole(client: PulsarClient, admin: Admin, topic: str, count: int, found: _Fold) -> None:
    for number in range(count):
        one = _Messages(client, admin, f"{topic}-partition-{number}", partial(found.fold, number), found.counts)
        await one.read()


class _Unreadable(NamedTuple):
    """Where an entry lies that cannot be decoded."""

    position: Position


class _End(Protocol):
    def __call__(self, producer_id: int, epoch: int, /, *, committed: bool) -> object:
        """A producer's transaction has ended."""


def _none_open() -> bool:
    return False


def _no_end(producer_id: int, epoch: int, /, *, committed: bool) -> None:
    pass


class _Partition:
    """One partition's pass."""

    def __init__(self, client: PulsarClient, admin: Admin, topic: str) -> None:
        self._client = client
        self._admin = admin
        self._topic = topic
        self._is_open: Callable[[], bool] = _none_open
        self._end: _End = _no_end

    async def read(self, is_open: Callable[[], bool] = _none_open, end: _End = _no_end) -> None:
        """Fold it; nothing where the partition was never made: a reader would make it.

        While `is_open` says that a transaction's end is still to come, `end` is told of those that readers do not get.
        """
        self._is_open, self._end = is_open, end
        try:
            stats = await self._admin.internal_stats(self._topic)
        except NotFound:
            return
        start = next((Position(one.ledger_id, 0) for one in stats.ledgers if one.entries), None)
        if stats.compacted_ledger >= 0:
            await self._read_compacted(stats, start)
        if start is None:
            return
        end_of_log = await Markers(self._topic, self._admin, self._client).last_visible(stats.last_confirmed)
        if end_of_log >= start:
            await self._read_log(stats, end_of_log)

    async def _read_log(self, stats: InternalStats, end: Position) -> None:
        position = EARLIEST
        async with self._reading(compacted=False) as reader:
            while position < end:
                entry = await self._receive(reader, _READ_SECONDS)
                await self._end_transactions(stats, position, entry.position)
                position = entry.position
                self._fold(entry)
        await self._end_transactions(stats, position, stats.last_confirmed.after)

    async def _end_transactions(self, stats: InternalStats, after: Position, before: Position) -> None:
        """By the markers between two entries."""
        if before == after.after:
            return
        for ledger in stats.ledgers:
            first = max(after.after, Position(ledger.ledger_id, 0))
            for number in range(first.entry, ledger.entries) if first.ledger == ledger.ledger_id else ():
                position = Position(ledger.ledger_id, number)
                if position >= before or not self._is_open():
                    return
                if found := await self._admin.transaction_end(self._topic, position):
                    producer_id, epoch, kind = found
                    self._end(producer_id, epoch, committed=kind == pb.TXN_COMMIT)

    async def _read_compacted(self, stats: InternalStats, start: Position | None) -> None:
        """What lies before the log's first entry."""

    async def _receive(self, reader: Reader, seconds: float) -> Entry | _Unreadable:
        """The next entry; TimeoutError where none comes."""
        try:
            async with asyncio.timeout(seconds):
                return await reader.receive()
        except CorruptEntry as error:
            return _Unreadable(error.args[1])

    def _fold(self, entry: Entry | _Unreadable) -> None:
        raise NotImplementedError

    @asynccontextmanager
    async def _reading(self, *, compacted: bool) -> AsyncIterator[Reader]:
        reader = await self._client.reader(self._topic, EARLIEST, read_compacted=compacted)
        try:
            yield reader
        finally:
            await reader.close()


class _Messages(_Partition):
    """Of a topic of KoP's own: messages with keys, of which compaction keeps the last."""

    def __init__(
        self,
        client: PulsarClient,
        admin: Admin,
        topic: str,
        fold: Callable[[Record], None],
        counts: Counter[str],
    ) -> None:
        super().__init__(client, admin, topic)
        self._fold_message = fold
        self._counts = counts

    async def _read_compacted(self, stats: InternalStats, start: Position | None) -> None:
        """What lies before the log's first entry. What the broker keeps from readers is counted as missed."""
        before = LATEST if start is None else start.before
        async with self._reading(compacted=True) as reader:
            for left in range(stats.compacted_entries, 0, -1):
                try:
                    entry = await self._receive(reader, _COMPACTED_SECONDS)
                except TimeoutError:
                    self._counts["missed"] += left
                    return
                if entry.position > before:
                    return
                self._fold(entry)

    def _fold(self, entry: Entry | _Unreadable) -> None:
        if isinstance(entry, _Unreadable):
            self._counts["unreadable"] += 1
            return
        try:
            batches = entries.to_kafka(entry, 0, entry.payload, _MAX_ENTRY_BYTES)
            messages = entries.records_of(batches, _MAX_ENTRY_BYTES)
        except BridgeError:
            self._counts["unreadable"] += 1
            return
        for message in messages:
            self._fold_message(message)


class _Data(_Partition):
    """Of a topic with records."""

    def __init__(self, client: PulsarClient, admin: Admin, topic: str, tell: Callable[[], None]) -> None:
        super().__init__(client, admin, topic)
        self.outcomes = PartitionOutcomes()
        self.blind = ""
        """Why markers cannot be asked for, if so."""
        self._tell = tell

    async def _end_transactions(self, stats: InternalStats, after: Position, before: Position) -> None:
        if self.blind:
            return
        try:
            await super()._end_transactions(stats, after, before)
        except AdminError as error:
            self.blind = str(error)

    def _fold(self, entry: Entry | _Unreadable) -> None:
        self._tell()
        if isinstance(entry, _Unreadable):
            self.outcomes.counts["unreadable"] += 1
        else:
            self.outcomes.fold(entry)
