"""The offset that a group has committed for a partition: the plain one, or that of a committed transaction.

The one that was stored last in the group's slot counts, as on Kafka: a plain one, or one of a transaction that is
committed by now, whenever that was. Those of open transactions do not count yet, those of aborted ones never.

The order is that of the records in the slot. It is the same in memory, in the log and in its compacted view, which
keeps the last value of each key at its place. A deleted record leaves no trace there: that an offset was deleted after
a pending one was stored does not matter to that one.

A pending offset that is decided is settled: its record goes. The one that counts is stored as the plain one before,
where nothing of the partition is open: a plain one that is stored again stands behind all that is open, and would
count instead. What is visible is the same after each of the records.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from bridge.errors import KafkaError
from bridge.groups.store.records import (
    Key,
    PendingOffset,
    Pendings,
    StoredGroup,
    StoredOffset,
    encode_offset,
    offset_key,
    pending_key,
)
from bridge.kafka.error_codes import ErrorCode
from bridge.storage.visibility import Outcome, Outcomes, Transaction

OutcomeOf: TypeAlias = Callable[[Transaction], Outcome]
"""`Outcomes.outcome`."""
TopicPartition: TypeAlias = tuple[str, int]
"""A topic's name and a partition."""


def visible(group: StoredGroup, where: TopicPartition, outcome: OutcomeOf) -> StoredOffset | None:
    """The offset that a group has committed for a partition; None where there is none."""
    plain = group.offsets.get(where)
    pendings = group.pendings.get(where)
    if pendings is None:
        return plain
    winner = _winner(plain, pendings, outcome)
    return plain if winner is None else winner.offset


class VisibleOffsets(Mapping[TopicPartition, StoredOffset]):
    """All offsets that a group has committed, as they are whenever one looks."""

    def __init__(self, group: StoredGroup, outcome: OutcomeOf) -> None:
        self._group = group
        self._outcome = outcome

    def __getitem__(self, where: TopicPartition) -> StoredOffset:
        found = visible(self._group, where, self._outcome)
        if found is None:
            raise KeyError(where)
        return found

    def __iter__(self) -> Iterator[TopicPartition]:
        return (where for where in stored_for(self._group) if where in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def visible_offsets(group: StoredGroup, outcome: OutcomeOf) -> Mapping[TopicPartition, StoredOffset]:
    """The same; where nothing is pending, the plain ones themselves."""
    return VisibleOffsets(group, outcome) if group.pendings else group.offsets


def stored_for(group: StoredGroup) -> Mapping[TopicPartition, object]:
    """The partitions for which a group has an offset of any kind."""
    return {**group.offsets, **group.pendings} if group.pendings else group.offsets


def open_offsets(group: StoredGroup, where: TopicPartition, outcome: OutcomeOf) -> list[PendingOffset]:
    """The offsets of a partition that are pending in open transactions."""
    return [one for one in group.pendings.get(where, ()) if outcome(one.transaction) is Outcome.OPEN]


async def confirm_decided(group: StoredGroup, outcomes: Outcomes) -> None:
    """Return when it is known how the group's pending offsets stand, as any node had recorded it before the call.

    At once where none is open. Raises KafkaError(COORDINATOR_LOAD_IN_PROGRESS), which all clients ask again after.
    """
    if any(open_offsets(group, where, outcomes.outcome) for where in group.pendings):
        try:
            await outcomes.confirm()
        except KafkaError as error:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(error)) from None


def all_decided_keys(group_id: str, group: StoredGroup, outcome: OutcomeOf) -> list[Key]:
    """As `decided_keys`, of all partitions."""
    return [key for where in stored_for(group) for key in decided_keys(group_id, group, where, outcome)]


def decided_keys(group_id: str, group: StoredGroup, where: TopicPartition, outcome: OutcomeOf) -> list[Key]:
    """The records that make the visible offset of a partition what it is: without them there is none."""
    decided = [one for one in group.pendings.get(where, ()) if outcome(one.transaction) is not Outcome.OPEN]
    # the plain one also where there is none yet: the offset that counts may be about to be stored as such
    plain = [offset_key(group_id, *where)] if decided or where in group.offsets else []
    return [*plain, *(pending_key(group_id, *where, one.transaction.identity) for one in decided)]


def settling(group_id: str, group: StoredGroup, where: TopicPartition, outcome: OutcomeOf) -> dict[Key, bytes | None]:
    """What is to be stored of a partition so that nothing decided is pending, as far as that can be; in this order."""
    pendings = group.pendings.get(where, Pendings())
    outcomes = {one: outcome(one.transaction) for one in pendings}
    winner = _winner(group.offsets.get(where), pendings, outcome)
    is_open = Outcome.OPEN in outcomes.values()
    records: dict[Key, bytes | None] = {}
    if winner is not None and not is_open:
        records[offset_key(group_id, *where)] = encode_offset(winner.offset)
    for one, its_outcome in outcomes.items():
        if its_outcome is not Outcome.OPEN and not (is_open and one is winner):
            records[pending_key(group_id, *where, one.transaction.identity)] = None
    return records


def _winner(plain: StoredOffset | None, pendings: Pendings, outcome: OutcomeOf) -> PendingOffset | None:
    """The pending offset that counts; None: the plain one does."""
    for stored in (pendings.after, pendings.before if plain is None else {}):
        for one in reversed(stored.values()):
            if outcome(one.transaction) is Outcome.COMMITTED:
                return one
    return None
