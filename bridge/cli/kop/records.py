"""What KoP's `__consumer_offsets` says, record by record: the last commit of each group and partition.

A message of it holds a Kafka batch v2, which is what KoP's group coordinator would have written to a log of Kafka's:

    i16 0 or 1, group, topic, i32 partition     a commit: i16 version, i64 offset, metadata, i64 time of the commit,
                                                and, of version 1, i64 time to expire (both in ms); null: forgotten
    i16 2, group                                the group's members, or null
    control batch: i16 version, i16 type        ends the transaction of its producer: 1 commits, 0 aborts

(`GroupMetadataManager`, `GroupMetadataConstants` of KoP and Starlight.) Topics have their full names of Pulsar. The
message's own key is the same for all commits of a group, so that compaction keeps the last message of a group only,
whatever partitions that is about: what is folded here is the whole log.
"""

import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated, Final, NamedTuple

from bridge import codec
from bridge.codec import CONTROL, HEADER_SIZE, TRANSACTIONAL, BatchHeader, Record
from bridge.codec.compression import decompress_kafka
from bridge.errors import BridgeError
from bridge.kafka.message import Int16, Int32, Int64, decode, message, since
from bridge.storage import entries

_MAX_BATCH_BYTES: Final = 1 << 24
"""Of one message's records, uncompressed: KoP takes 5 MiB."""
_COMMIT_KEYS: Final = (0, 1)
_GROUP_KEY: Final = 2
_COMMIT_VALUES: Final = (0, 1)
_MARKER_SIZE: Final = 4
_ABORTED, _COMMITTED = 0, 1


@message
class _Key:
    """Of a commit."""

    version: Int16
    group: str
    topic: str
    partition: Int32


@message
class _Value:
    """Of a commit."""

    version: Int16
    offset: Int64
    metadata: str
    committed_at_ms: Int64
    expires_at_ms: Annotated[Int64, since(1)] = -1


class Place(NamedTuple):
    """Where a group commits; the topic by its full name of Pulsar."""

    group: str
    topic: str
    partition: int


class Commit(NamedTuple):
    """A committed offset; -1: it does not expire."""

    offset: int
    metadata: str
    committed_at_ms: int
    expires_at_ms: int


class NotKops(BridgeError):
    """A record says nothing that KoP writes."""


def group_partition(group: str, partitions: int) -> int:
    """The partition of `__consumer_offsets` that has a group's records: `signSafeMod` of Java's `String.hashCode`."""
    code = 0
    for (unit,) in struct.iter_unpack(">H", group.encode("utf-16-be", "surrogatepass")):
        code = (31 * code + unit) & 0xFFFFFFFF
    return (code - (1 << 32) if code >> 31 else code) % partitions


def decode_record(record: Record) -> tuple[Place, Commit | None] | None:
    """A commit, or None in its place where it was forgotten; None: of a group itself. NotKops for all else."""
    key = record.key or b""
    kind = version_of(key)
    if kind == _GROUP_KEY:
        return None
    if kind not in _COMMIT_KEYS:
        raise NotKops(f"a key of version {kind}")
    found = decode(_Key, key, kind, False)
    if not found.group or found.partition < 0:
        raise NotKops("no group, or no partition")
    place = Place(found.group, found.topic, found.partition)
    if record.value is None:
        return place, None
    version = version_of(record.value)
    if version not in _COMMIT_VALUES:
        raise NotKops(f"a commit of version {version}")
    value = decode(_Value, record.value, version, False)
    if value.offset < 0:
        raise NotKops(f"offset {value.offset}")
    return place, Commit(value.offset, value.metadata, value.committed_at_ms, max(value.expires_at_ms, -1))


class KopOffsets:
    """The last commits, of messages that are given in the order of their partition."""

    def __init__(self, partitions: int) -> None:
        self.commits: dict[Place, Commit] = {}
        self.counts: Counter[str] = Counter()
        """What was read: `commits`, `forgotten`, `groups`, `markers`, `empty` messages; and what was passed over:
        `unreadable`, `misplaced` in the partition of other groups, and `missed` by the reader."""
        self._partitions = partitions
        self._open: dict[tuple[int, int], dict[Place, Commit | None]] = {}
        """What transactions commit, by partition and producer id, until they end."""

    @property
    def undecided(self) -> Mapping[Place, Commit | None]:
        """What transactions would commit whose end was not seen."""
        return {place: commit for one in self._open.values() for place, commit in one.items()}

    def is_open(self, partition: int) -> bool:
        """Whether a transaction's end is still to come there."""
        return any(where == partition for where, _ in self._open)

    def end(self, partition: int, producer_id: int, epoch: int, /, *, committed: bool) -> None:
        """A producer's transaction has ended, by the epoch of who ended it: the coordinator's, where that was not the
        producer."""
        self.counts["markers"] += 1
        ended = self._open.pop((partition, producer_id), {})
        for place, commit in ended.items() if committed else ():
            self._apply(place, commit)

    def fold(self, partition: int, sent: Record) -> None:
        """One message of a partition. What is none of KoP's is counted as `unreadable`, and changes nothing."""
        if sent.key is None or not sent.value:
            self.counts["empty"] += 1
            return
        try:
            batches = list(_batches(sent.value))
        except BridgeError:
            self.counts["unreadable"] += 1
            return
        for header, records in batches:
            for record in records:
                try:
                    self._fold(partition, header, record)
                except BridgeError:
                    self.counts["unreadable"] += 1

    def _fold(self, partition: int, header: BatchHeader, record: Record) -> None:
        if header.attributes & CONTROL:
            self.end(partition, header.producer_id, header.producer_epoch, committed=marker_commits(record))
            return
        found = decode_record(record)
        if found is None:
            self.counts["groups"] += 1
            return
        place, commit = found
        if group_partition(place.group, self._partitions) != partition:
            self.counts["misplaced"] += 1
            return
        self.counts["forgotten" if commit is None else "commits"] += 1
        if header.attributes & TRANSACTIONAL:
            self._open.setdefault((partition, header.producer_id), {})[place] = commit
        else:
            self._apply(place, commit)

    def _apply(self, place: Place, commit: Commit | None) -> None:
        if commit is None:
            self.commits.pop(place, None)
        else:
            self.commits[place] = commit


def _batches(value: bytes) -> Iterator[tuple[BatchHeader, list[Record]]]:
    for batch in entries.split(memoryview(value)):
        header = codec.read_header(batch)
        plain = decompress_kafka(header.attributes, batch[HEADER_SIZE:], _MAX_BATCH_BYTES)
        yield header, codec.read_records(batch, bytes(plain))


def marker_commits(marker: Record) -> bool:
    """Whether a control batch's record commits; NotKops where it does not end a transaction."""
    key = marker.key or b""
    kind = int.from_bytes(key[2:], "big", signed=True) if len(key) == _MARKER_SIZE else None
    if kind not in (_ABORTED, _COMMITTED):
        raise NotKops("a marker of another kind")
    return kind == _COMMITTED


def version_of(data: bytes) -> int:
    """The version at the beginning of a key or value; −1: there is none."""
    return int.from_bytes(data[:2], "big", signed=True) if len(data) >= 2 else -1
