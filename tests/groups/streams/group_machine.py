"""A streams group with members that remember what they are told."""

from dataclasses import replace
from typing import Any

from bridge.errors import KafkaError
from bridge.groups.streams.model import NO_TASKS, Subtopology, Task, Tasks, TopicInfo, Topology
from bridge.groups.streams.snapshot import StreamsSnapshot
from bridge.groups.streams.state import StreamsAnswer, StreamsGroup, StreamsGroupConfig, StreamsHeartbeat
from bridge.groups.streams.topology import StatusCode
from bridge.kafka.error_codes import ErrorCode
from tests.groups.fake_topics import FakeTopic, FakeTopics

SESSION = 45.0
DELAY = 3.0
COUNT = Topology(
    1,
    (
        Subtopology("0", source_topics=("in",), repartition_sinks=("by-key",)),
        Subtopology("1", changelogs=(TopicInfo("log"),), repartition_sources=(TopicInfo("by-key"),)),
    ),
)
"""Reads `in`, repartitions, and counts with a changelog."""
PLAIN = Topology(1, (Subtopology("0", source_topics=("in",)),))


def tasks(*active: str, standby: str = "") -> Tasks:
    """`"0_1"` is partition 1 of subtopology 0."""

    def task(text: str) -> Task:
        part, _, number = text.partition("_")
        return Task(part, int(number))

    return Tasks(frozenset(map(task, active)), frozenset(map(task, standby.split())))


class GroupMachine:
    """One group, its topics, and what its members know."""

    def __init__(self, topology: Topology = PLAIN, delay: float = 0.0, **partitions: int) -> None:
        self.topology = topology
        self.topics = FakeTopics(**(partitions or {"in": 4}))
        self.now = 1000.0
        self.limits = StreamsGroupConfig(SESSION, 100, 1.0, 0, delay)
        self.group = StreamsGroup("g", self.limits, self.now)
        self.epochs: dict[str, int] = {}
        self.has: dict[str, Tasks] = {}
        self.endpoint_epochs: dict[str, int] = {}

    def send(self, name: str, epoch: int, look: bool = True, **fields: Any) -> StreamsAnswer:
        """One heartbeat, word for word."""
        self.group.limits = self.limits
        request = StreamsHeartbeat(name, epoch, **fields)
        required = self.group.required(request)
        facts = {topic: one for topic, one in self.topics.facts().items() if topic in required}
        return self.group.heartbeat(request, facts if look else None, self.now)

    def join(self, name: str, process: str = "", **fields: Any) -> StreamsAnswer:
        said = {"topology": self.topology, "rebalance_timeout_ms": 300_000, "process_id": process or f"of-{name}"}
        self.has[name] = NO_TASKS
        return self._told(self.send(name, 0, **{**said, "owned": NO_TASKS, **fields}))

    def beat(self, name: str, look: bool = True, **fields: Any) -> StreamsAnswer:
        said = {"owned": self.has[name], "endpoint_epoch": self.endpoint_epochs.get(name, 0)}
        return self._told(self.send(name, self.epochs[name], look, **{**said, **fields}))

    def leave(self, name: str, **fields: Any) -> StreamsAnswer:
        del self.epochs[name], self.has[name]
        return self.send(name, -1, **fields)

    def settle(self) -> None:
        """All send heartbeats until nothing moves."""
        for _ in range(6):
            self.now += 1.0
            for name in sorted(self.epochs):
                self.beat(name)

    def make_internal_topics(self) -> None:
        configured = self.group.configured
        for one in configured.to_create if configured is not None else ():
            self.topics.here[one.name] = FakeTopic(one.partitions)

    def refusal(self, name: str, epoch: int, **fields: Any) -> tuple[ErrorCode, str]:
        before = self.group.snapshot
        try:
            self.send(name, epoch, **fields)
        except KafkaError as error:
            assert self.group.snapshot is before
            return ErrorCode(error.code), error.message
        return ErrorCode.NONE, ""

    def restarted(self, snapshot: StreamsSnapshot | None = None) -> "GroupMachine":
        """As after a restart of the bridge, at this moment."""
        self.group = StreamsGroup("g", self.limits, self.now, snapshot or replace(self.group.snapshot))
        return self

    def _told(self, answer: StreamsAnswer) -> StreamsAnswer:
        self.epochs[answer.member_id] = answer.epoch
        self.endpoint_epochs[answer.member_id] = answer.endpoint_epoch
        if answer.tasks is not None:
            self.has[answer.member_id] = answer.tasks
        return answer


def codes(answer: StreamsAnswer) -> list[StatusCode]:
    """What the member is told beside its tasks."""
    return [one.code for one in answer.statuses]
