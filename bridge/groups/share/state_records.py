"""The state of a partition in a share group (KIP-932) as it is stored, and which leader may change it: pure.

It is the value of the key `p/<topic id>/<partition>/<group>` in `__bridge_groups`, JSON:

    {"v":1, "E":state epoch, "L":leader epoch, "s":start offset or −1, "b":[[first,last,state,count],…],
     "d":done at or beyond the start, "q":number of the write}

What lies at or beyond the start and in no batch was never delivered.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from bridge.errors import KafkaError
from bridge.groups.store.records import BadRecord, integer, parsed
from bridge.kafka.error_codes import ErrorCode

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4
"""States of batches, by the numbers of Kafka's persister. Acquired (1) is never stored: it is available then."""
UNINITIALIZED: Final = -1
"""The start offset of a partition of which no leader has said yet where it begins."""
_VERSION: Final = 1
_STATES: Final = frozenset((AVAILABLE, ACKNOWLEDGED, ARCHIVED))


class StateBatch(NamedTuple):
    """Records in the same state: offsets `first` to `last`, both within, delivered so many times."""

    first: int
    last: int
    state: int
    deliveries: int


@dataclass(frozen=True, slots=True)
class ShareState:
    """What is stored of one partition in one share group."""

    state_epoch: int
    """Grows when the offset is altered; random at first, so that it is not that of a state that was deleted."""
    leader_epoch: int = -1
    """Of the last leader that has read it."""
    start: int = UNINITIALIZED
    """All before it is done. −1: the partition's leader finds out where to begin, by the group's configs."""
    batches: tuple[StateBatch, ...] = ()
    """In order, apart from each other, none before the start."""
    done: int = 0
    """How many records at or beyond the start are acknowledged or archived."""
    q: int = 0
    """The number of the write."""

    @property
    def done_spans(self) -> tuple[tuple[int, int], ...]:
        """What is done at or beyond the start: offsets, both within, in order; neighbours are one."""
        spans: list[tuple[int, int]] = []
        for one in self.batches:
            if one.state == AVAILABLE:
                continue
            if spans and spans[-1][1] + 1 == one.first:
                spans[-1] = spans[-1][0], one.last
            else:
                spans.append((one.first, one.last))
        return tuple(spans)


class ShareWrite(NamedTuple):
    """A leader's write: the whole state, as it has it."""

    state_epoch: int
    leader_epoch: int
    q: int
    """One more than that of its last write, or what it has read; the same where a write is repeated."""
    start: int
    batches: Sequence[StateBatch]
    done: int


def led_by(state: ShareState, leader_epoch: int) -> ShareState:
    """The state when this leader has read it; FENCED_LEADER_EPOCH where a later one has."""
    if leader_epoch < state.leader_epoch:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, f"leader epoch {state.leader_epoch} has read it")
    return replace(state, leader_epoch=leader_epoch)


def check_epochs(state: ShareState, state_epoch: int, leader_epoch: int) -> None:
    """Refuse a leader that has not read this state: its own is another one.

    FENCED_LEADER_EPOCH where a later leader has read it; FENCED_STATE_EPOCH where, since this one did, offsets were
    altered, or the state was deleted and recreated.
    """
    led_by(state, leader_epoch)
    if state_epoch != state.state_epoch:
        raise KafkaError(ErrorCode.FENCED_STATE_EPOCH, f"the state epoch is {state.state_epoch}")
    if leader_epoch != state.leader_epoch:
        raise KafkaError(ErrorCode.FENCED_STATE_EPOCH, "the state was deleted and recreated")


def written(state: ShareState, write: ShareWrite) -> ShareState:
    """The state after a write, the same where it was stored before.

    As `check_epochs`; FENCED_STATE_EPOCH also where another write of this number, or a later one, is stored.
    """
    check_epochs(state, write.state_epoch, write.leader_epoch)
    following = replace(state, start=write.start, batches=tuple(write.batches), done=write.done, q=write.q)
    if following == state:
        return state
    if write.q <= state.q:
        raise KafkaError(ErrorCode.FENCED_STATE_EPOCH, f"write {state.q} is stored")
    return following


def encode(state: ShareState) -> bytes:
    """The value of the record."""
    value = {
        "v": _VERSION, "E": state.state_epoch, "L": state.leader_epoch, "s": state.start, "b": state.batches,
        "d": state.done, "q": state.q,
    }  # fmt: skip
    return json.dumps(value, separators=(",", ":")).encode()


def decode(data: bytes) -> ShareState:
    """The state; BadRecord for what is none, or of a later version."""
    value = parsed(data)
    if value.get("v") != _VERSION:
        raise BadRecord("of another version")
    try:
        start, listed = integer(value["s"]), value["b"]
        if not isinstance(listed, list):
            raise BadRecord("no list of batches")
        batches, least = [], max(start, 0)
        for one in listed:
            batch = _batch(one)
            if batch.first < least:
                raise BadRecord("batches are not in order")
            least = batch.last + 1
            batches.append(batch)
        return ShareState(
            integer(value["E"], 32), integer(value["L"], 32), max(start, UNINITIALIZED), tuple(batches),
            integer(value["d"]), integer(value["q"]),
        )  # fmt: skip
    except KeyError as error:
        raise BadRecord(f"without {error}") from None


def _batch(value: object) -> StateBatch:
    if not isinstance(value, list) or len(value) != len(StateBatch._fields):
        raise BadRecord("not a batch")
    batch = StateBatch(integer(value[0]), integer(value[1]), integer(value[2], 8), integer(value[3], 16))
    if batch.last < batch.first or batch.state not in _STATES or batch.deliveries < 0:
        raise BadRecord("not a batch")
    return batch
