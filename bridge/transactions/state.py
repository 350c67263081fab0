"""One transactional id as a state machine: its record, a request and `now` in; an answer and the next record out.

| status    | means                                                        | leaves it                             |
|-----------|--------------------------------------------------------------|---------------------------------------|
| EMPTY     | nothing was begun in this epoch                              | something is added: OPEN              |
| OPEN      | partitions or groups were added                              | EndTxn; an abort by time, tool or     |
|           |                                                              | InitProducerId: EMPTY in a new epoch  |
| COMMITTED | the last one of this epoch, in protocol 1, which ends a      | the next is begun in the same epoch:  |
| ABORTED   | transaction without a new epoch                              | OPEN                                  |

Protocol 1 counts the transactions of an epoch (`n`). Protocol 2 (KIP-890) gives each an epoch of its own; `n` is 0.
InitProducerId begins a new epoch from any status.

Rules:

1. Write ahead. What is added stands in the stored record before an entry or an offset of the transaction is stored.
2. One decision. A record that aborts goes into one entry of the log with the identity that it aborts.
3. The epoch is checked first: a request of an older one changes nothing. Kafka's InitProducerId aborts first.
4. A repetition changes nothing, and is answered once its record is known to be the newest.
5. The epoch 32,766 is the last. What would begin another begins epoch 0 of a new producer id.
6. A client changes the protocol with a new epoch. Only an EndTxn of protocol 2 may end what protocol 1 began.
7. An abort that no client asked for begins a new epoch: late entries and requests are of the old one.

Errors are those of the newest versions; the files of the APIs map them for older ones.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum, auto
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from bridge.kafka.error_codes import ErrorCode
from bridge.storage.visibility import Identity
from bridge.transactions import ranges
from bridge.transactions.ranges import Ranges

LAST_EPOCH: Final = 32_766
"""As in Kafka: 32,767 would be the last one that 16 bits hold."""

MOST_GROUPS: Final = 1000
"""Of one transaction. Each that is added is stored with all those before it; programs have one."""

INITIALIZED: Final = "i"
"""`Ended.how` where an InitProducerId named the epoch that it ended."""


_NOTHING: Final[Mapping[str, Ranges]] = MappingProxyType({})


class Status(StrEnum):
    """How a transactional id stands: see the module."""

    EMPTY = "e"
    OPEN = "o"
    COMMITTED = "c"
    ABORTED = "a"


class Ended(NamedTuple):
    """The epoch that ended last, so that a repetition of the request that ended it is known."""

    producer_id: int
    epoch: int
    how: str
    """Status.COMMITTED, Status.ABORTED or INITIALIZED."""


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition that a transaction writes to."""

    topic: str
    topic_id: str
    """In hexadecimal digits, without hyphens."""
    index: int


@dataclass(frozen=True, slots=True)
class TransactionRecord:
    """All that is known of a transactional id."""

    revision: int
    """Grows with each record: one that was stored twice is known by it."""
    producer_id: int
    epoch: int
    n: int
    status: Status
    protocol: int
    """Of the open transaction, or of the last one."""
    timeout_ms: int
    begun_ms: int
    """When the open transaction began."""
    changed_ms: int
    ended: Ended | None
    """None after an InitProducerId that named no epoch: nobody then knows the one before."""
    partitions: Mapping[tuple[str, str], Ranges]
    """By topic and topic id: a topic that is made again is another."""
    firsts: Mapping[tuple[str, int], int]
    """By topic id and partition, where it was known: an offset at or below the transaction's first one."""
    groups: frozenset[str]
    _by_topic_id: Mapping[str, Ranges] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        by_topic_id = {topic_id: of_topic for (_, topic_id), of_topic in self.partitions.items()}
        object.__setattr__(self, "_by_topic_id", by_topic_id or _NOTHING)

    @property
    def identity(self) -> Identity:
        """What names the open transaction, or the last one."""
        return Identity(self.producer_id, self.epoch, self.n)

    def names(self, topic_id: str, partition: int) -> bool:
        """Whether the partition is one of the transaction's."""
        return ranges.has(self._by_topic_id.get(topic_id, ()), partition)


class Change(NamedTuple):
    """What a request leads to."""

    error: ErrorCode = ErrorCode.NONE
    record: TransactionRecord | None = None
    """To be stored before the answer. None: nothing is, and the answer needs a confirm (rule 4)."""
    aborted: Identity | None = None
    """To be stored with it, ahead of it in the same entry (rule 2)."""
    producer_id: int = -1
    epoch: int = -1


class NeedsProducerId(Enum):
    """Given in place of a Change: the same is to be asked again with a new producer id."""

    NEEDS_PRODUCER_ID = auto()


NEEDS_PRODUCER_ID: Final = NeedsProducerId.NEEDS_PRODUCER_ID


def init_producer_id(
    record: TransactionRecord | None,
    producer_id: int,
    epoch: int,
    timeout_ms: int,
    new_producer_id: int | None,
    now_ms: int,
) -> Change | Literal[NeedsProducerId.NEEDS_PRODUCER_ID]:
    """InitProducerId; -1 and -1 name no epoch (KIP-360). It aborts what is open."""
    named = (producer_id, epoch)
    if (producer_id < 0) != (epoch < 0):
        return Change(ErrorCode.INVALID_REQUEST)
    if record is None:  # also where an id that had expired is named
        return _first_epoch(timeout_ms, new_producer_id, now_ms)
    if producer_id < 0:
        return _next_epoch(replace(record, timeout_ms=timeout_ms), None, new_producer_id, now_ms)
    if record.ended is not None and named == record.ended[:2]:  # rule 4; also after an EndTxn or a time-out
        return Change(producer_id=record.producer_id, epoch=record.epoch)
    if named != (record.producer_id, record.epoch):  # rule 3
        return Change(ErrorCode.PRODUCER_FENCED)
    ended = Ended(producer_id, epoch, INITIALIZED)
    return _next_epoch(replace(record, timeout_ms=timeout_ms), ended, new_producer_id, now_ms)


def add_partitions(
    record: TransactionRecord | None,
    producer_id: int,
    epoch: int,
    partitions: Collection[Partition],
    firsts: Mapping[tuple[str, int], int],
    protocol: int,
    most: int,
    now_ms: int,
) -> Change:
    """AddPartitionsToTxn, which begins a transaction where none is open; `most`: so many partitions it may have."""
    opened = _opened(record, producer_id, epoch, protocol, now_ms)
    if isinstance(opened, ErrorCode):
        return Change(opened)
    added = [partition for partition in partitions if not opened.names(partition.topic_id, partition.index)]
    if opened is record and not added:
        return Change()  # rule 4
    named = dict(opened.partitions)
    of_topics: dict[tuple[str, str], set[int]] = {}
    for partition in added:
        of_topics.setdefault((partition.topic, partition.topic_id), set()).add(partition.index)
    for topic, indexes in of_topics.items():
        named[topic] = ranges.union(named.get(topic, ()), ranges.of(indexes))
    if sum(map(ranges.size, named.values())) > most:
        return Change(ErrorCode.INVALID_REQUEST)
    new = {(partition.topic_id, partition.index) for partition in added}
    known = {**opened.firsts, **{key: first for key, first in firsts.items() if key in new}}
    return _stored(replace(opened, partitions=named, firsts=known), now_ms)


def add_group(
    record: TransactionRecord | None, producer_id: int, epoch: int, group: str, protocol: int, now_ms: int
) -> Change:
    """AddOffsetsToTxn, which begins a transaction where none is open."""
    opened = _opened(record, producer_id, epoch, protocol, now_ms)
    if isinstance(opened, ErrorCode):
        return Change(opened)
    if opened is record and group in opened.groups:
        return Change()  # rule 4
    if len(opened.groups) >= MOST_GROUPS:
        return Change(ErrorCode.INVALID_REQUEST)
    return _stored(replace(opened, groups=opened.groups | {group}), now_ms)


def end(
    record: TransactionRecord | None,
    producer_id: int,
    epoch: int,
    committed: bool,
    protocol: int,
    new_producer_id: int | None,
    now_ms: int,
) -> Change | Literal[NeedsProducerId.NEEDS_PRODUCER_ID]:
    """EndTxn, of protocol 1 up to its version 4."""
    if protocol == 1:
        return _end_within_epoch(record, producer_id, epoch, committed, now_ms)
    how = Status.COMMITTED if committed else Status.ABORTED
    # before the producer id is compared: it was another one before a new one was begun (rule 5)
    if record is not None and record.ended is not None and record.ended[:2] == (producer_id, epoch):
        return _end_repeated(record, record.ended, how)
    current = _current(record, producer_id, epoch)
    if isinstance(current, ErrorCode):
        return Change(current)
    if committed and current.status is not Status.OPEN:
        return Change(ErrorCode.INVALID_TXN_STATE)
    return _next_epoch(current, Ended(producer_id, epoch, how), new_producer_id, now_ms)


def time_out(
    record: TransactionRecord, now_ms: int, new_producer_id: int | None = None
) -> Change | Literal[NeedsProducerId.NEEDS_PRODUCER_ID] | None:
    """Abort what has been open for its time-out, as `fence` does; None: nothing is due."""
    if record.status is not Status.OPEN or now_ms < record.begun_ms + record.timeout_ms:
        return None
    return fence(record, now_ms, new_producer_id)


def fence(
    record: TransactionRecord, now_ms: int, new_producer_id: int | None = None
) -> Change | Literal[NeedsProducerId.NEEDS_PRODUCER_ID]:
    """Abort what is open, though no client asked for it (rule 7).

    A client of protocol 2 whose EndTxn aborts is then told that it did; one of protocol 1 is fenced. An InitProducerId
    that names the epoch gives the one that has begun, so that a client goes on that was too slow (KIP-588).
    """
    if record.status is not Status.OPEN:
        return Change()
    ended = Ended(record.producer_id, record.epoch, Status.ABORTED)
    return _next_epoch(record, ended, new_producer_id, now_ms)


# ---- what several requests share -------------------------------------------------------------------------------------


def _current(record: TransactionRecord | None, producer_id: int, epoch: int) -> TransactionRecord | ErrorCode:
    """The record, if a request of this producer id and epoch may change it."""
    if record is None or record.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    return record if record.epoch == epoch else ErrorCode.PRODUCER_FENCED


def _opened(
    record: TransactionRecord | None, producer_id: int, epoch: int, protocol: int, now_ms: int
) -> TransactionRecord | ErrorCode:
    """The record itself if a transaction is open in it, else as one is begun."""
    current = _current(record, producer_id, epoch)
    if isinstance(current, ErrorCode):
        return current
    is_open = current.status is Status.OPEN
    if (protocol == 1 and is_open and current.protocol == 2) or (protocol == 2 and current.n > 0):
        return ErrorCode.INVALID_TXN_STATE  # rule 6
    if is_open:
        return current
    n = current.n + 1 if protocol == 1 else 0
    return replace(_without_names(current), status=Status.OPEN, n=n, protocol=protocol, begun_ms=now_ms)


def _first_epoch(
    timeout_ms: int, new_producer_id: int | None, now_ms: int
) -> Change | Literal[NeedsProducerId.NEEDS_PRODUCER_ID]:
    if new_producer_id is None:
        return NEEDS_PRODUCER_ID
    empty = TransactionRecord(
        0, new_producer_id, 0, 0, Status.EMPTY, 1, timeout_ms, now_ms, now_ms, None, {}, {}, frozenset()
    )
    return _stored(empty, now_ms)


def _next_epoch(
    record: TransactionRecord, ended: Ended | None, new_producer_id: int | None, now_ms: int
) -> Change | Literal[NeedsProducerId.NEEDS_PRODUCER_ID]:
    """End the epoch; what is open is aborted, unless `ended` commits it."""
    producer_id, epoch = record.producer_id, record.epoch + 1
    if record.epoch >= LAST_EPOCH:  # rule 5
        if new_producer_id is None:
            return NEEDS_PRODUCER_ID
        producer_id, epoch = new_producer_id, 0
    is_committed = ended is not None and ended.how == Status.COMMITTED
    aborted = record.identity if record.status is Status.OPEN and not is_committed else None
    following = replace(
        _without_names(record), status=Status.EMPTY, producer_id=producer_id, epoch=epoch, n=0, ended=ended
    )
    return _stored(following, now_ms, aborted)


def _end_within_epoch(
    record: TransactionRecord | None, producer_id: int, epoch: int, committed: bool, now_ms: int
) -> Change:
    """EndTxn of protocol 1: the next transaction is of the same epoch."""
    current = _current(record, producer_id, epoch)
    if isinstance(current, ErrorCode):
        return Change(current)
    how = Status.COMMITTED if committed else Status.ABORTED
    if current.status is how:
        return Change()  # rule 4
    if current.status is not Status.OPEN or current.protocol != 1:
        return Change(ErrorCode.INVALID_TXN_STATE)
    return _stored(replace(_without_names(current), status=how), now_ms, None if committed else current.identity)


def _end_repeated(record: TransactionRecord, ended: Ended, how: Status) -> Change:
    """EndTxn of protocol 2 that names the epoch that ended last (rule 4)."""
    # what protocol 1 ended in this epoch came later than that end
    if record.status is not Status.EMPTY or ended.how == INITIALIZED:
        return Change(ErrorCode.PRODUCER_FENCED)
    if ended.how != how:
        return Change(ErrorCode.INVALID_TXN_STATE)
    return Change(producer_id=record.producer_id, epoch=record.epoch)


def _without_names(record: TransactionRecord) -> TransactionRecord:
    return replace(record, partitions={}, firsts={}, groups=frozenset())


def _stored(record: TransactionRecord, now_ms: int, aborted: Identity | None = None) -> Change:
    stored = replace(record, revision=record.revision + 1, changed_ms=now_ms)
    return Change(record=stored, aborted=aborted, producer_id=stored.producer_id, epoch=stored.epoch)
