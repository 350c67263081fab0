"""What records make of groups: whom it is told, and what cannot be read."""

import pytest

from bridge.groups.store.records import (
    Key,
    StoredOffset,
    encode_key,
    encode_offset,
    encode_pending,
    offset_key,
    pending_key,
)
from bridge.groups.store.stored_groups import StoredGroups
from bridge.telemetry.metrics import GroupMetrics
from tests.groups.fake_outcomes import transaction

ONE = transaction(1)
PLAIN, PENDING = offset_key("g", "t", 0), pending_key("g", "t", 0, ONE.identity)
OFFSET, VALUE = encode_offset(StoredOffset(5)), encode_pending(StoredOffset(6), ONE.slot)


class Slot:
    """One slot, and what was told of it."""

    def __init__(self) -> None:
        self.metrics = GroupMetrics()
        self.stored: list[tuple[Key, StoredOffset | None]] = []
        self.pending: list[tuple[str, tuple[str, int]]] = []
        self.groups = StoredGroups(
            lambda *told: self.stored.append(told), lambda *told: self.pending.append(told),
            lambda _: None, lambda _: None, self.metrics,
        )  # fmt: skip

    def put(self, key: Key, value: bytes | None, *, replaying: bool = False) -> None:
        self.groups.apply(0, encode_key(key), value, replaying=replaying)


def test_that_something_is_pending_is_told_while_it_is() -> None:
    slot = Slot()
    slot.put(PLAIN, OFFSET)
    slot.put(offset_key("g", "t", 1), OFFSET)
    assert slot.pending == []
    slot.put(PENDING, VALUE)
    slot.put(PLAIN, OFFSET)
    slot.put(offset_key("g", "t", 1), OFFSET)
    assert slot.pending == [("g", ("t", 0))] * 2
    assert slot.groups.live_records(0) == 4
    slot.put(PENDING, None)
    assert len(slot.pending) == 2
    assert slot.stored[2] == (PENDING, None)  # who follows committed offsets hears of the plain one when it is settled


def test_what_is_read_when_a_slot_is_taken_is_not_told() -> None:
    slot = Slot()
    slot.put(PENDING, VALUE, replaying=True)
    assert (slot.stored, slot.pending, list(slot.groups)) == ([], [], ["g"])


@pytest.mark.parametrize("value", [OFFSET, b"?", VALUE.replace(b'"v":1', b'"v":2')])
def test_a_pending_offset_that_cannot_be_read_is_counted_and_changes_nothing(value: bytes) -> None:
    slot = Slot()
    slot.put(PENDING, VALUE)
    slot.put(PENDING, value)
    slot.put(pending_key("h", "t", 0, ONE.identity), value)
    group = slot.groups.get(0, "g")
    assert group is not None
    assert [one.offset.offset for one in group.pendings["t", 0]] == [6]
    assert list(slot.groups) == ["g"]
    assert slot.metrics.records_unreadable.value == 2
