"""What KoP's transactions have aborted in one partition, found by its entries and by what KoP has kept of them.

    records    format `kafka`: batches with the transactional bit, which name their producer
               format `pulsar`: the entry's transaction id is the producer's id and epoch
    their end  format `kafka`: a control batch of the producer, as Kafka's
               format `pulsar`: a marker of Pulsar's, which brokers keep from readers and the admin interface tells of

A producer has one transaction at a time, so its next end in the partition is that of all its records since the last one
(`ProducerStateManager`), whatever its epoch: who fences a producer ends its transaction by the next one. Of entries
with a producer's name the epoch counts: KoP's have none, and transactions of Pulsar's own clients have the same fields.
What KoP left without an end is settled by what it has kept, first a partition's snapshot:

    __transaction_producer_state   key: a partition's name
                                   value, as Java's DataOutput writes it: UTF partition; UTF topic's id, not in old
                                   versions; i64 offset behind all that counts in it; three lists with i32 counts:
                                   producers: i64 id, i32 epoch, i32 coordinator's epoch, i64 time, i64 first offset
                                   open: i64 id, i64 first, i64 last
                                   aborted: i64 id, i64 first, i64 last, i64 last stable
    __transaction_state            key: i16 0, transactional id
                                   value: `_State`

(`PulsarTopicProducerStateManagerSnapshotBuffer`, `TransactionLogValue` of KoP.) An entry with the bridge's mark is none
of KoP's.
"""

import struct
from collections import Counter
from collections.abc import Callable, Iterator
from enum import Enum, IntEnum, auto
from typing import Final, NamedTuple, TypeAlias

from bridge import codec
from bridge.cli.kop.records import NotKops, group_partition, marker_commits, version_of
from bridge.codec import CONTROL, HEADER_SIZE, TRANSACTIONAL, BatchHeader, Record, message_sets
from bridge.codec.compression import decompress_kafka
from bridge.errors import BridgeError
from bridge.kafka.message import Int8, Int16, Int32, Int64, decode, message
from bridge.pulsar.types import Entry
from bridge.security.left_out import Run, merged
from bridge.storage import entries
from bridge.storage.offsets import span

_MAX_CONTROL_BYTES: Final = 1 << 16


class Outcome(Enum):
    """What became of records whose end was not met."""

    COMMITTED = auto()
    ABORTED = auto()
    NEVER_ENDED = auto()
    """Open when KoP stopped. It would have been aborted when it timed out."""
    UNKNOWN = auto()


Settles: TypeAlias = Callable[[int, int], Outcome]
"""The outcome of what a producer wrote at an offset."""


_LEFT_OUT: Final = (Outcome.ABORTED, Outcome.NEVER_ENDED)


class Settled(NamedTuple):
    """What became of the transactions of one partition."""

    runs: list[Run]
    """Offsets of aborted records, and of control batches that end them; merged."""
    transactions: int
    aborted: int
    records: int
    """How many those of the aborted ones are."""
    never_ended: int
    """So many of the aborted ones."""
    unknown: int
    """Transactions that have records whose outcome nothing tells."""


class _Writer(NamedTuple):
    """Whose records end together."""

    producer_id: int
    epoch: int


_NO_EPOCH: Final = -1
"""Of a producer of KoP: its transactions follow one another, so that the epoch says no more."""


class PartitionOutcomes:
    """Folds the entries of one partition, in their order."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """Transactions that were `committed` and `aborted`, `records` of the aborted ones; and what is passed over:
        entries that are `unreadable`, `mixed`, of several producers, or `unindexed`, without an offset."""
        self._aborted: list[Run] = []
        self._open: dict[_Writer, list[Run]] = {}

    @property
    def is_open(self) -> bool:
        """Whether a transaction's end is still to come."""
        return bool(self._open)

    def fold(self, entry: Entry) -> None:
        """The next entry that readers get."""
        try:
            found = list(_transactional(entry))
        except BridgeError:
            self.counts["unreadable"] += 1
            return
        if not found:
            return
        if entry.index is None:
            self.counts["unindexed"] += 1
            return
        run = Run(*span(entry.index, entries.message_count(entry.metadata)))
        if len(set(found)) > 1:
            self.counts["mixed"] += 1
            return
        ((writer, committed),) = set(found)
        if committed is None:
            self._open.setdefault(writer, []).append(run)
        elif self.end(*writer, committed=committed):
            self._aborted.append(run)

    def end(self, producer_id: int, epoch: int, /, *, committed: bool) -> bool:
        """A producer's transaction has ended, if it has one here; whether that has aborted records."""
        ended = [self._open.pop(_Writer(producer_id, one), None) for one in {_NO_EPOCH, epoch}]
        records = [run for runs in ended for run in runs or ()]
        if records:
            self._count(records, committed=committed)
        return bool(records) and not committed

    def settle(self, settles: Settles) -> Settled:
        """All there is, once the last entry is folded."""
        opened: dict[int, list[Run]] = {}
        for writer, records in self._open.items():
            opened.setdefault(writer.producer_id, []).extend(records)
        transactions = self.counts["committed"] + self.counts["aborted"] + len(opened)
        never_ended = unknown = 0
        for producer_id, records in opened.items():
            found = [settles(producer_id, run.first) for run in records]
            aborted = [run for run, one in zip(records, found, strict=True) if one in _LEFT_OUT]
            if aborted:
                self._count(aborted, committed=False)
            never_ended += Outcome.NEVER_ENDED in found
            unknown += Outcome.UNKNOWN in found
        self._open.clear()
        counts = self.counts
        return Settled(merged(self._aborted), transactions, counts["aborted"], counts["records"], never_ended, unknown)

    def _count(self, records: list[Run], *, committed: bool) -> None:
        self.counts["committed" if committed else "aborted"] += 1
        if not committed:
            self.counts["records"] += sum(run.next - run.first for run in records)
            self._aborted += records


def _transactional(entry: Entry) -> Iterator[tuple[_Writer, bool | None]]:
    """Of each batch the writer, and what it says of its transaction: None of records, else whether it commits."""
    metadata = entry.metadata
    if metadata.HasField("replicated_from") or entries.mark_text(metadata) is not None:
        return
    if not entries.is_kafka(metadata):
        if metadata.HasField("txnid_most_bits"):
            epoch = metadata.txnid_least_bits if metadata.producer_name else _NO_EPOCH
            yield _Writer(metadata.txnid_most_bits, epoch), None
        return
    payload = entry.payload
    if len(payload) > message_sets.MAGIC_AT and payload[message_sets.MAGIC_AT] < 2:
        return
    batches = entries.split(payload)
    if not any(batch[entries.ATTRIBUTES_AT] & (TRANSACTIONAL | CONTROL) for batch in batches):
        return
    for batch in batches:
        header = codec.read_header(batch)
        if header.attributes & CONTROL:
            yield _Writer(header.producer_id, header.producer_epoch), _commits(header, batch)
        else:
            yield _Writer(header.producer_id if header.attributes & TRANSACTIONAL else -1, _NO_EPOCH), None


def _commits(header: BatchHeader, batch: memoryview) -> bool:
    plain = decompress_kafka(header.attributes, batch[HEADER_SIZE:], _MAX_CONTROL_BYTES)
    (record,) = codec.read_records(batch, bytes(plain))
    return marker_commits(record)


# ---- snapshots of partitions -----------------------------------------------------------------------------------------


class Snapshot(NamedTuple):
    """What a partition's transactions were up to an offset."""

    partition: str
    """Its full name in Pulsar."""
    topic_id: str
    """`kafkaTopicUUID`; empty where it is not said."""
    next: int
    open: dict[int, int]
    """By producer the first offset of its transaction."""
    aborted: dict[int, list[Run]]
    """By producer the runs in which all that was its own is aborted."""

    def settles(self, producer_id: int, offset: int) -> Outcome:
        """As `Settles`."""
        if any(run.first <= offset < run.next for run in self.aborted.get(producer_id, ())):
            return Outcome.ABORTED
        is_settled = offset < min(self.next, self.open.get(producer_id, self.next))
        return Outcome.COMMITTED if is_settled else Outcome.UNKNOWN


def decode_snapshot(value: bytes) -> Snapshot:
    """A snapshot; NotKops for all else."""
    try:
        return _snapshot(value, names_topic=True)
    except NotKops:
        return _snapshot(value, names_topic=False)


def _snapshot(value: bytes, *, names_topic: bool) -> Snapshot:
    at = 0

    def take(form: str) -> tuple[int, ...]:
        nonlocal at
        found = struct.unpack_from(form, value, at)
        at += struct.calcsize(form)
        return found

    def text() -> str:
        nonlocal at
        (length,) = take(">H")
        found, at = value[at : at + length], at + length
        return found.decode()

    def rows(form: str) -> list[tuple[int, ...]]:
        (count,) = take(">i")
        if not 0 <= count <= (len(value) - at) // struct.calcsize(form):
            raise NotKops(f"{count} of a list")
        return [take(form) for _ in range(count)]

    try:
        partition, topic_id = text(), text() if names_topic else ""
        (after,) = take(">q")
        rows(">qiiqq")
        opened, aborted = rows(">qqq"), rows(">qqqq")
    except (struct.error, UnicodeDecodeError) as error:
        raise NotKops(f"no snapshot: {error}") from None
    if at != len(value) or after < 0:
        raise NotKops("no snapshot")
    found = Snapshot(partition, topic_id, after, {producer_id: first for producer_id, first, _ in opened}, {})
    for producer_id, first, last, _ in aborted:
        found.aborted.setdefault(producer_id, []).append(Run(first, last + 1))
    return found


class Snapshots:
    """The last of each partition."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._last: dict[str, Snapshot] = {}

    def of(self, partition: str, topic_id: str | None) -> Snapshot | None:
        """By the partition's full name in Pulsar; of an earlier topic of the same name there is none."""
        found = self._last.get(partition)
        return None if found is None or found.topic_id not in ("", topic_id) else found

    def fold(self, partition: int, sent: Record) -> None:
        """One message of the topic, in the order of its partition."""
        if not sent.value:
            return
        try:
            found = decode_snapshot(sent.value)
        except NotKops:
            self.counts["unreadable"] += 1
            return
        if found.partition.encode() == sent.key:
            self._last[found.partition] = found
        else:
            self.counts["misplaced"] += 1


# ---- states of transactional ids -------------------------------------------------------------------------------------


class _Status(IntEnum):
    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7


_STATUSES: Final = frozenset(one.value for one in _Status)
_OUTCOMES: Final = {
    _Status.ONGOING: Outcome.NEVER_ENDED,
    _Status.PREPARE_COMMIT: Outcome.COMMITTED,
    _Status.PREPARE_ABORT: Outcome.ABORTED,
    _Status.PREPARE_EPOCH_FENCE: Outcome.ABORTED,
}
"""Of transactions whose end was still to be written."""


@message
class _Partitions:
    topic: str
    partitions: list[Int32]


@message
class _State:
    """Of a transactional id."""

    version: Int16
    producer_id: Int64
    epoch: Int16
    timeout_ms: Int32
    status: Int8
    partitions: list[_Partitions] | None
    updated_ms: Int64
    started_ms: Int64


@message
class _StateKey:
    version: Int16
    transactional_id: str


class States:
    """The last state of each transactional id; `partitions`: how many the topic has."""

    def __init__(self, partitions: int) -> None:
        self.counts: Counter[str] = Counter()
        self._partitions = partitions
        self._last: dict[str, _State] = {}

    def settles(self, producer_id: int, partition: str) -> Outcome:
        """The outcome of the last transaction of a producer, if that names the partition (by its full name)."""
        for state in self._last.values():
            if state.producer_id == producer_id and partition in _named(state):
                return _OUTCOMES.get(_Status(state.status), Outcome.UNKNOWN)
        return Outcome.UNKNOWN

    def fold(self, partition: int, sent: Record) -> None:
        """One message of the topic, in the order of its partition."""
        try:
            if version_of(sent.key or b"") != 0:
                raise NotKops("no transactional id")
            transactional_id = decode(_StateKey, sent.key or b"", 0, False).transactional_id
            state = _state(sent.value) if sent.value else None
        except BridgeError:
            self.counts["unreadable"] += 1
            return
        if group_partition(transactional_id, self._partitions) != partition:
            self.counts["misplaced"] += 1
        elif state is None:
            self._last.pop(transactional_id, None)
        else:
            self._last[transactional_id] = state


def _state(value: bytes) -> _State:
    if version_of(value) != 0:
        raise NotKops("a state of another version")
    state = decode(_State, value, 0, False)
    if state.status not in _STATUSES:
        raise NotKops(f"status {state.status}")
    return state


def _named(state: _State) -> Iterator[str]:
    """The partitions of a transaction, by their full names in Pulsar."""
    return (f"{one.topic}-partition-{index}" for one in state.partitions or () for index in one.partitions)
