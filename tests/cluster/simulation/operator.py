"""An operator with a tool: it reads the view log, appends a view, and tries again when another one came first."""

from collections.abc import Callable
from typing import Final

from bridge.cluster.membership.orders import Order, OrderRefused, ordered
from bridge.cluster.membership.view import ClusterView, Sender
from bridge.cluster.membership.view_log import ViewLog
from bridge.pulsar.types import Position
from tests.cluster.simulation.clock import Clock
from tests.cluster.simulation.pulsar import Pulsar

_NAME: Final = "operator"
_TRIES: Final = 20


class Operator:
    """Each order is a tool that is started for it."""

    def __init__(self, clock: Clock, pulsar: Pulsar) -> None:
        self.clock, self.pulsar = clock, pulsar
        self.removed: set[Sender] = set()
        """Lives that must not be members any more."""
        self.drained: set[str] = set()
        self._tools = 0

    def order(self, what: Order, name: str) -> None:
        """Start the tool."""
        self._tools += 1
        self._try(what, name, Sender(_NAME, self._tools), _TRIES)

    def _try(self, what: Order, name: str, sender: Sender, tries: int) -> None:
        view = self._read()
        try:
            record = ordered(view, sender, what, name)
        except OrderRefused:
            return

        def judge() -> None:
            member = view.member(name)
            if not any(entry[1] == record for entry in self.pulsar.log.entries):
                self.clock.after(0.1, judge)  # Pulsar has not stored it yet
            elif self._counted(record.sender, record.version):
                if what is Order.REMOVE and member is not None:
                    self.removed.add(member.sender)
                else:
                    (self.drained.add if what is Order.DRAIN else self.drained.discard)(name)
            elif tries:
                self._try(what, name, sender, tries - 1)

        def append() -> None:
            if self.pulsar.is_up and not self.pulsar.is_stalled:
                self.pulsar.append(self.pulsar.log, sender, record, self.clock.now, lambda: None)
                self.clock.after(self.clock.latency(), judge)
            else:
                self.clock.after(0.5, append)

        self.clock.after(self.clock.latency(), append)

    def _read(self) -> ClusterView:
        return self._folded()[0].view

    def _counted(self, sender: Sender, version: int) -> bool:
        return (sender, version) in self._folded()[1]

    def _folded(self) -> tuple[ViewLog, set[tuple[Sender, int]]]:
        log, counted = ViewLog(), set[tuple[Sender, int]]()
        for at, (sender, record) in enumerate(self.pulsar.log.entries):
            if log.fold(record, Position(0, at)):  # type: ignore[arg-type]
                counted.add((sender, log.version))
        return log, counted

    # ---- what must hold ----------------------------------------------------------------------------------------------

    @staticmethod
    def is_by(sender: Sender) -> bool:
        """Whether a tool has sent it."""
        return sender.name == _NAME

    def check(self, before: ClusterView, after: ClusterView, sender: Sender, fail: Callable[[str], None]) -> None:
        """I12 of `checks`, at every new view."""
        back = [member.name for member in after.members.values() if member.sender in self.removed]
        if back:
            fail(f"I12: {back} are members again and were removed")
        if after.drained != before.drained and not self.is_by(sender):
            fail(f"I12: {sorted(after.drained ^ before.drained)} are drained or not, and no operator said so")
        for name, life in before.removed.items():
            member = after.member(name)
            is_later = member is not None and member.incarnation > life
            if name not in after.removed and not is_later and not self.is_by(sender):
                fail(f"I12: nothing is said any more of {name}, which was removed")

    def check_ids(
        self, before: ClusterView, after: ClusterView, sender: Sender, kept: int, fail: Callable[[str], None]
    ) -> None:
        """I13 of `checks`."""
        asked_for = {member.id for member in after.members.values() if before.members.get(member.id) != member}
        gone = {name: id_ for name, id_ in before.ids.items() if name not in after.ids and id_ not in asked_for}
        if not gone or self.is_by(sender):
            return
        if len(before.ids) - len(before.members) <= kept - len(before.members.keys() - after.members.keys()):
            fail(f"I13: {sorted(gone)} have no ids any more, and few are away")
        owners = {*after.owners, *after.groups}
        for name, id_ in gone.items():
            if before.member(name) or id_ in owners:
                fail(f"I13: {name} has no id any more")
        kept_since = [
            since for name, since in after.away.items() if name in before.away and after.ids[name] not in owners
        ]
        if kept_since and max(before.away.get(name, 0) for name in gone) > min(kept_since):
            fail("I13: one that left later lost its id before one that left earlier")
