"""The view log: folds its records to the view, and makes the record that leads from one view to the next.

Compare-and-set by log order: a view record counts if its `base` is the version that all records before it make. Every
node reads the same records in the same order, so all agree on which of two proposals came first. All else changes
nothing. A log begins with version 0; its first view takes a version that is later than any of an earlier log: the
seconds since 2020. So a log that was lost is one whose first view is far ahead of the view that a node has.

A record that builds on a later version than a node knows shows that it has missed some. Then nothing counts for it but
the whole view that a tick names.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from bridge.cluster.membership.records import LogRecord, Tick, ViewDifference, ViewRecord, WholeView
from bridge.cluster.membership.view import ClusterView, NodeRegistration, Sender, names_away
from bridge.pulsar.types import EARLIEST, Position

_NEW_LOG: Final = 60
"""Two nodes that begin a log at once by clocks that differ are not so far apart; a log that was lost lived longer."""


def first_of_new_log(version: int) -> int:
    """A version that makes a view count as the first of another log for all who know this version."""
    return version + _NEW_LOG + 1


class ViewLog:
    """The view as far as the log has been read."""

    has_gap = False
    """Records are missing: Pulsar deleted them before they were read here, and the view is one of the past."""

    def __init__(self) -> None:
        self.view = ClusterView()
        self.version = 0
        """The base that the next view record must have; the view's own version but after the log was lost."""
        self.whole_at = EARLIEST
        self.folded_to = EARLIEST
        self._trusted: Position | None = None

    def start_at(self, tick: Tick) -> Position:
        """Where to begin to read, after the newest tick that was found; a stale tick means reading further, no more."""
        self.folded_to = EARLIEST
        self._trusted = tick.whole_at
        return tick.whole_at

    def fold(self, record: LogRecord, position: Position) -> bool:
        """Take the next record; True: it made a new view."""
        if position <= self.folded_to:
            return False  # read again after a reconnect
        self.folded_to = position
        shown = record.version if isinstance(record, Tick) else getattr(record, "base", 0)
        self.has_gap |= shown > self.version
        if not isinstance(record, WholeView | ViewDifference) or not self._counts(record, position):
            return False
        if isinstance(record, WholeView):
            self.view, self.whole_at = record.view, position
        else:
            view = applied(self.view, record)
            if view is None:
                return False
            self.view = view
        self.version = self.view.version
        self.has_gap = False
        self._trusted = None
        return True

    def _counts(self, record: ViewRecord, position: Position) -> bool:
        if isinstance(record, WholeView) and position == self._trusted:
            return True  # the controller said that it counted
        if record.base == 0:
            return isinstance(record, WholeView) and (not self.version or record.version > self.version + _NEW_LOG)
        # what has an old base, and so is void, might fit to the view before a gap
        return not self.has_gap and record.base == self.version and record.version == record.base + 1


def applied(view: ClusterView, change: ViewDifference) -> ClusterView | None:
    """The view after the change; None if it does not fit to this view, which all nodes find alike."""
    owners, epochs, groups = list(view.owners), list(view.epochs), list(view.groups)
    if not _fits(change.slots.values(), len(owners)) or not _fits(change.groups.values(), len(groups)):
        return None
    for owner, slots in change.slots.items():
        for slot in slots:
            owners[slot] = owner
            epochs[slot] = change.version
    for owner, slots in change.groups.items():
        for slot in slots:
            groups[slot] = owner
    members = dict(view.members)
    for id_ in change.removed:
        members.pop(id_, None)
    members.update((member.id, member) for member in change.members)
    ids = {**view.ids, **change.ids}
    return replace(
        view,
        version=change.version,
        controller=change.controller,
        members=members,
        ids=ids,
        away=names_away(view, members, ids, change.version),
        owners=tuple(owners),
        epochs=tuple(epochs),
        groups=tuple(groups),
        level=change.level,
    )


def view_record(sender: Sender, before: ClusterView, after: ClusterView, reason: str) -> ViewRecord:
    """What to write to get from one view to the next: a difference where it can say so."""
    if not _is_expressible(before, after):
        return WholeView(sender, before.version, after, reason)
    return ViewDifference(
        sender=sender,
        base=before.version,
        version=after.version,
        controller=after.controller,
        level=after.level,
        members=_changed_members(before, after),
        removed=tuple(sorted(before.members.keys() - after.members.keys())),
        ids={name: id_ for name, id_ in after.ids.items() if before.ids.get(name) != id_},
        slots=_changed_owners(before.owners, after.owners),
        groups=_changed_owners(before.groups, after.groups),
        reason=reason,
    )


def _is_expressible(before: ClusterView, after: ClusterView) -> bool:
    same_size = len(before.owners) == len(after.owners) and len(before.groups) == len(after.groups)
    same_orders = (before.drained, before.removed) == (after.drained, after.removed)
    return same_size and same_orders and before.version > 0 and before.ids.keys() <= after.ids.keys()


def _changed_members(before: ClusterView, after: ClusterView) -> tuple[NodeRegistration, ...]:
    return tuple(member for id_, member in after.members.items() if before.members.get(id_) != member)


def _changed_owners(before: Sequence[int], after: Sequence[int]) -> Mapping[int, tuple[int, ...]]:
    found: dict[int, list[int]] = {}
    for slot, (old, new) in enumerate(zip(before, after, strict=True)):
        if old != new:
            found.setdefault(new, []).append(slot)
    return {owner: tuple(slots) for owner, slots in found.items()}


def _fits(changed: Iterable[tuple[int, ...]], size: int) -> bool:
    return all(slots[-1] < size for slots in changed if slots)
