"""What the records of the owned slots make: groups, their members and their committed offsets."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import TypeAlias

from bridge.groups.store.records import Key, StoredGroup, StoredOffset, decode_key, decode_offset
from bridge.telemetry import log
from bridge.telemetry.metrics import GroupMetrics

_log = log.get(__name__)

OnStored: TypeAlias = Callable[[Key, StoredOffset | None], None]


class StoredGroups:
    """The groups of each slot, as far as Pulsar has acknowledged them (`owned_log.OwnedState`)."""

    def __init__(
        self,
        on_stored: OnStored,
        on_owned: Callable[[list[str]], None],
        on_lost: Callable[[int], None],
        metrics: GroupMetrics,
    ) -> None:
        self._on_stored = on_stored
        self._on_owned = on_owned
        self._on_lost = on_lost
        self._metrics = metrics
        self._slots: defaultdict[int, dict[str, StoredGroup]] = defaultdict(dict)

    def __iter__(self) -> Iterator[str]:
        for slot in sorted(self._slots):
            yield from self._slots[slot]

    def get(self, slot: int, group_id: str) -> StoredGroup | None:
        """What is stored of a group of this slot."""
        return self._slots[slot].get(group_id)

    def count(self, slot: int) -> int:
        """How many groups are stored in a slot."""
        return len(self._slots[slot])

    # ---- for the log (owned_log.OwnedState) --------------------------------------------------------------------------

    def reset(self, slot: int) -> None:
        """Forget the groups of the slot."""
        self._slots[slot] = {}

    def apply(self, slot: int, key: str, value: bytes | None, *, replaying: bool) -> None:
        """A record is stored."""
        decoded = decode_key(key)
        if decoded is None:
            return
        offset = self._put(self._slots[slot], decoded, value)
        if not replaying:
            self._on_stored(decoded, offset)

    def live_records(self, slot: int) -> int:
        """About: one of each group, member and offset."""
        return sum(len(group.offsets) + len(group.members) + 1 for group in self._slots[slot].values())

    def owned(self, slot: int) -> None:
        """This process coordinates the groups of the slot."""
        self._on_owned(list(self._slots[slot]))

    def lost(self, slot: int) -> None:
        """Another process may coordinate the groups of the slot."""
        self._on_lost(slot)

    def _put(self, groups: dict[str, StoredGroup], key: Key, value: bytes | None) -> StoredOffset | None:
        """Take a record over; its offset if it has one."""
        offset = None
        group = groups.setdefault(key[1], StoredGroup())
        if key[0] == "group":
            group.metadata = value
        elif key[0] == "member":
            _set(group.members, key[2], value)
        elif value is None:
            group.offsets.pop((key[2], key[3]), None)
        else:
            offset = decode_offset(value)
            if offset is None:
                self._metrics.records_unreadable.inc()
                _log.error("! offset of a group is unreadable", extra={"group": key[1], "topic": key[2]})
            else:
                group.offsets[key[2], key[3]] = offset
        if not group:
            del groups[key[1]]
        return offset


def _set(members: dict[str, bytes], member_id: str, value: bytes | None) -> None:
    if value is None:
        members.pop(member_id, None)
    else:
        members[member_id] = value
