"""Random histories of assigning and reconciling: members of several processes come, go, are slow, lose answers.

What counts is what clients run, not what the group believes: each of them runs what it was last told, as far as it has
got round to it, and says so or says nothing. One that has yet to take up tasks says nothing: these would look like
tasks that it has given up, to Kafka as well.
"""

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bridge.groups.streams.assignor import AssignorMember, assign
from bridge.groups.streams.model import NO_TASKS, StreamsMember, Task, Tasks
from bridge.groups.streams.reconcile import reconcile

PROCESSES = st.sampled_from("pqr")
ROLES = ("active", "standby", "warmup")


class Histories(RuleBasedStateMachine):
    """One group and its clients."""

    def __init__(self) -> None:
        super().__init__()
        self.counts = {"0": 3, "1": 2}
        self.replicas = 1
        self.epoch = 0
        self.members: dict[str, StreamsMember] = {}
        self.targets: Mapping[str, Tasks] = {}
        self.runs: dict[str, Tasks] = {}
        self.told: dict[str, Tasks] = {}

    # ---- the group ---------------------------------------------------------------------------------------------------

    def _assign(self) -> None:
        self.epoch += 1
        had = {
            name: AssignorMember(one.process_id, self.targets.get(name, NO_TASKS)) for name, one in self.members.items()
        }
        everything = [Task(one, number) for one, count in self.counts.items() for number in range(count)]
        self.targets = assign(had, everything, {"0"}, self.replicas)

    def _reconcile(self, name: str, owned: Tasks | None) -> bool:
        """Whether there is news."""
        before = self.members[name]
        others = [one for other, one in self.members.items() if other != name]
        self.members[name] = reconcile(before, self.targets[name], self.epoch, others, owned)
        return self.members[name] is not before

    def _remove(self, name: str) -> None:
        del self.members[name], self.runs[name], self.told[name]
        self._assign()

    def _beat(self, name: str, says: bool = True) -> bool:
        news = self._reconcile(name, self._owned(name) if says else None)
        self.told[name] = self.members[name].assigned
        return news

    def _owned(self, name: str) -> Tasks | None:
        return self.runs[name] if self.told[name].within(self.runs[name]) else None

    def _obey(self, name: str) -> None:
        self.runs[name] = self.told[name]

    # ---- what happens ------------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.members) < 6)
    @rule(process=PROCESSES)
    def joins(self, process: str) -> None:
        name = f"{process}{self.epoch}"
        self.members[name] = StreamsMember(name, process)
        self.runs[name] = self.told[name] = NO_TASKS
        self._assign()
        self._beat(name)

    @precondition(lambda self: self.members)
    @rule(data=st.data(), says=st.booleans(), obeys=st.booleans())
    def beats(self, data: st.DataObject, says: bool, obeys: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.members)))
        self._beat(name, says)
        if obeys:
            self._obey(name)

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def obeys_later(self, data: st.DataObject) -> None:
        self._obey(data.draw(st.sampled_from(sorted(self.members))))

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def loses_an_answer(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.members)))
        self._reconcile(name, self._owned(name))

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def joins_anew(self, data: st.DataObject) -> None:
        """It has been fenced: it gives up all, and comes with nothing."""
        name = data.draw(st.sampled_from(sorted(self.members)))
        self.runs[name] = self.told[name] = NO_TASKS
        self.members[name] = replace(self.members[name], assigned=NO_TASKS, revoking=NO_TASKS, epoch=0, since={})
        self._assign()
        self._beat(name)

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def goes(self, data: st.DataObject) -> None:
        self._remove(data.draw(st.sampled_from(sorted(self.members))))

    @rule(replicas=st.integers(0, 2))
    def replicas_change(self, replicas: int) -> None:
        self.replicas = replicas
        self._assign()

    @rule(subtopology=st.sampled_from("01"), count=st.integers(0, 4))
    def topics_change(self, subtopology: str, count: int) -> None:
        self.counts[subtopology] = count
        self._assign()

    @rule()
    def comes_to_rest(self) -> None:
        news = True
        while news:
            news = False
            for name in sorted(self.members):
                news |= self._owned(name) is None
                news |= self._beat(name) or self.runs[name] != self.told[name]
                self._obey(name)
                self._apart()
        for name, member in self.members.items():
            assert member.reconciled(self.epoch)
            assert self.runs[name] == member.assigned == self.targets[name]

    # ---- what holds at any time --------------------------------------------------------------------------------------

    @invariant()
    def _apart(self) -> None:
        active = [task for one in self.runs.values() for task in one.active]
        assert len(active) == len(set(active)), "a task is active twice"
        held = [(self.members[name].process_id, task) for name, one in self.runs.items() for task in one.all]
        held_by_role = sum(len(getattr(one, role)) for one in self.runs.values() for role in ROLES)
        assert len(set(held)) == held_by_role, "a process has a task twice"

    @invariant()
    def _known(self) -> None:
        """The group knows of all that clients run, and since when."""
        for name, member in self.members.items():
            assert self.runs[name].within(member.assigned | member.revoking)
            assert member.since.keys() == (member.assigned | member.revoking).active
            assert all(epoch <= self.epoch for epoch in member.since.values())


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
