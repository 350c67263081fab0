"""What the records of the owned slots make: groups, their members and their committed offsets."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import TypeAlias, TypeVar

from bridge.groups.store.records import (
    Key,
    OffsetKey,
    PendingKey,
    PendingOffset,
    Pendings,
    StoredGroup,
    StoredOffset,
    decode_key,
    decode_offset,
    decode_pending,
)
from bridge.storage.visibility import Identity
from bridge.telemetry import log
from bridge.telemetry.metrics import GroupMetrics

_log = log.get(__name__)

OnStored: TypeAlias = Callable[[Key, StoredOffset | None], None]
OnPending: TypeAlias = Callable[[str, tuple[str, int]], None]
_K = TypeVar("_K")


class StoredGroups:
    """The groups of each slot, as far as Pulsar has acknowledged them (`owned_log.OwnedState`)."""

    def __init__(
        self,
        on_stored: OnStored,
        on_pending: OnPending,
        on_owned: Callable[[list[str]], None],
        on_lost: Callable[[int], None],
        metrics: GroupMetrics,
    ) -> None:
        self._on_stored = on_stored
        self._on_pending = on_pending
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
        groups = self._slots[slot]
        offset = self._put(groups, decoded, value)
        if replaying:
            return
        self._on_stored(decoded, offset)
        if decoded[0] == "offset" or decoded[0] == "pending":
            group = groups.get(decoded[1])
            if group is not None and decoded[2:4] in group.pendings:
                self._on_pending(decoded[1], decoded[2:4])

    def live_records(self, slot: int) -> int:
        """About: one of each group, member, offset, share partition, and partition that has pending offsets."""
        groups = self._slots[slot].values()
        return sum(
            len(group.offsets) + len(group.pendings) + len(group.members) + len(group.shares) + 1 for group in groups
        )

    def owned(self, slot: int) -> None:
        """This process coordinates the groups of the slot."""
        self._on_owned(list(self._slots[slot]))

    def lost(self, slot: int) -> None:
        """Another process may coordinate the groups of the slot."""
        self._on_lost(slot)

    def _put(self, groups: dict[str, StoredGroup], key: Key, value: bytes | None) -> StoredOffset | None:
        """Take a record over; its offset if it has one that is not pending."""
        group = groups.setdefault(key[1], StoredGroup())
        offset = None
        if key[0] == "group":
            group.metadata = value
        elif key[0] == "member":
            _set(group.members, key[2], value)
        elif key[0] == "share":
            _set(group.shares, key[2:], value)
        elif key[0] == "offset":
            offset = None if value is None else decode_offset(value)
            self._check_readable(key, value, offset)
            if offset is not None:
                put_offset(group, key[2:], offset)
            elif value is None:
                group.offsets.pop(key[2:], None)
        else:
            pending = None if value is None else decode_pending(value, key[4])
            self._check_readable(key, value, pending)
            if pending is not None or value is None:
                put_pending(group, key, pending)
        if not group:
            del groups[key[1]]
        return offset

    def _check_readable(self, key: OffsetKey | PendingKey, value: bytes | None, found: object) -> None:
        if value is not None and found is None:
            self._metrics.records_unreadable.inc()
            _log.error("! offset of a group is unreadable", extra={"group": key[1], "topic": key[2]})


class PendingTransactions:
    """Which transactions have pending offsets in a slot (`owned_log.Copy`)."""

    def __init__(self) -> None:
        self._keys: set[str] = set()

    def apply(self, key: str, value: bytes | None) -> None:
        """The next record is stored; None deletes it."""
        if key.startswith("t/"):
            if value:
                self._keys.add(key)
            else:
                self._keys.discard(key)

    @property
    def identities(self) -> Iterator[Identity]:
        """Theirs; one that has several offsets comes as often."""
        return (key[4] for key in map(decode_key, self._keys) if key is not None and key[0] == "pending")


def put_offset(group: StoredGroup, where: tuple[str, int], offset: StoredOffset) -> None:
    """A plain offset is stored: it stands behind all that is pending."""
    group.offsets[where] = offset
    pendings = group.pendings.get(where)
    if pendings is not None:
        pendings.before |= pendings.after
        pendings.after = {}


def put_pending(group: StoredGroup, key: PendingKey, pending: PendingOffset | None) -> None:
    """A pending offset is stored, and stands behind all others; None: it is not pending any more."""
    where, identity = key[2:4], key[4]
    pendings = group.pendings.setdefault(where, Pendings())
    pendings.before.pop(identity, None)
    pendings.after.pop(identity, None)
    if pending is not None:
        pendings.after[identity] = pending
    if not pendings:
        del group.pendings[where]


def _set(values: dict[_K, bytes], key: _K, value: bytes | None) -> None:
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value
