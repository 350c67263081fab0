"""Random histories of a streams group at its coordinator.

Members come, leave, crash, answers and writes are lost, topics grow or go, the group moves to another node. No task is
active twice, no process has a task twice, all is assigned at rest.
"""

import asyncio
from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bridge.errors import KafkaError
from bridge.groups.configs import STREAMS_STANDBYS
from bridge.groups.streams.model import NO_TASKS, Task, Tasks
from bridge.groups.streams.state import StreamsAnswer
from bridge.groups.streams.topology import configure
from bridge.kafka.error_codes import ErrorCode
from tests.groups.fake_topics import FakeTopic
from tests.groups.streams.bench import StreamsBench
from tests.groups.streams.group_machine import COUNT, SESSION

NAMES = ("a1", "a2", "b1", "b2", "c1")
"""Members of three processes."""


class Histories(RuleBasedStateMachine):
    """One group and its members, as far as these know."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.epochs: dict[str, int] = {}
        self.has: dict[str, Tasks] = {}
        self.size = 3
        self.loop.run_until_complete(self._begin())

    async def _begin(self) -> None:
        self.bench = StreamsBench()
        self._make_topics()

    def teardown(self) -> None:
        self.loop.run_until_complete(self.bench.groups.close())
        self.loop.close()

    # ---- what members do ---------------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(NAMES), lost=st.booleans())
    def joins(self, name: str, lost: bool) -> None:
        if name not in self.epochs:
            self.has[name], self.epochs[name] = NO_TASKS, 0
            self._beat(name, lost)

    @precondition(lambda self: self.epochs)
    @rule(data=st.data(), lost=st.booleans())
    def beats(self, data: st.DataObject, lost: bool) -> None:
        self._beat(data.draw(st.sampled_from(sorted(self.epochs))), lost)

    @precondition(lambda self: self.epochs)
    @rule(data=st.data())
    def cannot_be_stored(self, data: st.DataObject) -> None:
        self.bench.store.fails = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self._beat(data.draw(st.sampled_from(sorted(self.epochs))), lost=True)
        self.bench.store.fails = None

    @precondition(lambda self: self.epochs)
    @rule(data=st.data())
    def leaves(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.epochs)))
        self._send(name, -1)
        del self.epochs[name], self.has[name]

    @precondition(lambda self: self.epochs)
    @rule(data=st.data())
    def crashes(self, data: st.DataObject) -> None:
        """Its session is over; the others send heartbeats in time."""
        gone = data.draw(st.sampled_from(sorted(self.epochs)))
        del self.epochs[gone], self.has[gone]
        for _ in range(4):
            self._pass(SESSION / 3)
            for name in sorted(self.epochs):
                self._beat(name)

    # ---- what happens around them ------------------------------------------------------------------------------------

    @rule(partitions=st.integers(0, 5))
    def a_topic_changes(self, partitions: int) -> None:
        self.size = max(self.size, partitions)
        if partitions:
            self._make_topics()
        else:
            self.bench.topics.here.pop("in", None)

    @rule(replicas=st.integers(0, 2))
    def standby_replicas_change(self, replicas: int) -> None:
        self.bench.kept[STREAMS_STANDBYS] = str(replicas)

    @rule()
    def the_group_moves(self) -> None:
        async def move() -> None:
            kept = self.bench.kept
            self.bench.store.lose()
            self.bench = self.bench.restarted()
            self.bench.kept.update(kept)

        self.loop.run_until_complete(move())

    @rule(seconds=st.sampled_from((0.5, 1.5, 6.0)))
    def time_passes(self, seconds: float) -> None:
        self._pass(seconds)

    @rule()
    def all_send_heartbeats(self) -> None:
        """Then nobody waits, all tasks are active somewhere, balanced within one by process where these are alike."""
        for _ in range(12):
            self._pass(6.0)
            for name in sorted(self.epochs):
                self._beat(name)
        there = {name: one.partitions for name, one in self.bench.topics.here.items()}
        wanted = set(configure(COUNT, there.get).tasks) if self.epochs else set()
        active = [task for has in self.has.values() for task in has.active]
        assert sorted(active) == sorted(wanted)
        assert len(set(self.epochs.values())) <= 1
        counts = [len(has.active) for has in self.has.values()]
        processes = Counter(name[0] for name in self.epochs)
        if len(set(processes.values())) == 1 and counts:
            assert max(counts) - min(counts) <= 1
        replicas = min(int(self.bench.kept.get(STREAMS_STANDBYS, "0")), len(processes) - 1)
        standby = Counter(task for has in self.has.values() for task in has.standby)
        assert standby == Counter({task: replicas for task in wanted if task.subtopology == "1" and replicas > 0})

    # ---- what always holds -------------------------------------------------------------------------------------------

    @invariant()
    def no_task_is_active_twice(self) -> None:
        counts = Counter(task for has in self.has.values() for task in has.active)
        assert not counts or max(counts.values()) == 1

    @invariant()
    def no_process_has_a_task_twice(self) -> None:
        counts = Counter((name[0], task) for name, has in self.has.items() for task in _each(has))
        assert not counts or max(counts.values()) == 1

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _make_topics(self) -> None:
        self.bench.topics.here = {name: FakeTopic(self.size) for name in ("in", "by-key", "log")}

    def _pass(self, seconds: float) -> None:
        self.loop.run_until_complete(self.bench.clock.advance(seconds))

    def _send(self, name: str, epoch: int) -> StreamsAnswer | None:
        """The answer; None where the member has to begin again, or to send the same once more."""

        async def ask() -> StreamsAnswer | None:
            said = {"owned": self.has[name], "process_id": name[0], "rebalance_timeout_ms": 300_000}
            try:
                topology = COUNT if epoch == 0 else None
                return await self.bench.beat(name, epoch, topology=topology, **said)
            except KafkaError as error:
                if error.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
                    self.has[name], self.epochs[name] = NO_TASKS, 0
                else:
                    assert error.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
                return None

        return self.loop.run_until_complete(ask())

    def _beat(self, name: str, lost: bool = False) -> None:
        answer = self._send(name, self.epochs[name])
        if answer is None or lost:
            return
        self.epochs[name] = answer.epoch
        if answer.tasks is not None:
            self.has[name] = answer.tasks


def _each(has: Tasks) -> list[Task]:
    return [*has.active, *has.standby, *has.warmup]


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
