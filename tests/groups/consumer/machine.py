"""A group of the new consumer protocol with members that behave: they own what they are told, and say so."""

from dataclasses import replace
from typing import Any

from bridge.errors import KafkaError
from bridge.groups.consumer.model import Assignment, ConsumerGroupState, ConsumerMember, TopicFacts, View
from bridge.groups.consumer.regex import compiled
from bridge.groups.consumer.state import ConsumerGroup
from bridge.groups.epochs.group import EpochGroupConfig, HeartbeatAnswer, MemberHeartbeat
from bridge.kafka.error_codes import ErrorCode
from tests.groups.fake_topics import FakeTopics

SESSION = 45.0
REBALANCE_MS = 60_000


class ConsumerMachine:
    """One group, its topics, and what its members know."""

    def __init__(self, most_members: int = 100, **partitions: int) -> None:
        self.topics = FakeTopics(**(partitions or {"t": 4}))
        self.now = 1000.0
        self.limits = EpochGroupConfig(SESSION, most_members)
        self.group = ConsumerGroup("g", self.limits, self.now)
        self.epochs: dict[str, int] = {}
        self.owned: dict[str, Assignment] = {}

    @property
    def state(self) -> ConsumerGroupState:
        return self.group.state

    @property
    def epoch(self) -> int:
        return self.group.snapshot.epoch

    def member(self, name: str) -> ConsumerMember:
        return self.group.snapshot.members[name]

    def view(self, request: MemberHeartbeat) -> View:
        names, patterns = self.group.wanted(request)
        resolved = {pattern: frozenset(filter(compiled(pattern.regex), self.topics.here)) for pattern in patterns}
        names = names.union(*resolved.values())
        facts: dict[str, TopicFacts] = self.topics.facts()
        return View({name: one for name, one in facts.items() if name in names}, resolved)

    def send(self, name: str, epoch: int, look: bool = True, **fields: Any) -> HeartbeatAnswer:
        """One heartbeat, word for word."""
        request = MemberHeartbeat(name, epoch, **{"client_id": "client", "client_host": "/127.0.0.1", **fields})
        return self.group.heartbeat(request, self.view(request) if look else None, self.now)

    def join(self, name: str, topics: str | None = "t", **fields: Any) -> HeartbeatAnswer:
        whole = {"rebalance_timeout_ms": REBALANCE_MS, "owned": {}, "topics": frozenset(topics or ()), **fields}
        return self._told(self.send(name, 0, **whole))

    def beat(self, name: str, **fields: Any) -> HeartbeatAnswer:
        """A heartbeat of a member that does what it is told: it says what it owns, where that changes."""
        return self._told(self.send(name, self.epochs[name], owned=self.owned[name], **fields))

    def silent(self, name: str) -> HeartbeatAnswer:
        """A heartbeat without any news."""
        return self._told(self.send(name, self.epochs[name], look=False))

    def leave(self, name: str, instance_id: str | None = None, epoch: int = -1) -> HeartbeatAnswer:
        return self.send(name, epoch, instance_id=instance_id)

    def settle(self, *names: str) -> None:
        """Let members send heartbeats until nothing changes any more."""
        before = None
        while before is not self.group.snapshot:
            before = self.group.snapshot
            for name in names or tuple(before.members):
                self.beat(name)

    def partitions(self, name: str) -> dict[str, list[int]]:
        """What a member has been told, by topic name."""
        names = {topic.id: topic_name for topic_name, topic in self.topics.here.items()}
        return {names[topic]: sorted(parts) for topic, parts in self.owned[name].items()}

    def refusal(self, name: str, epoch: int, **fields: Any) -> ErrorCode:
        before = self.group.snapshot
        try:
            self.send(name, epoch, **fields)
        except KafkaError as error:
            assert self.group.snapshot is before
            return ErrorCode(error.code)
        return ErrorCode.NONE

    def restarted(self) -> "ConsumerMachine":
        """As after a restart of the bridge, at this moment."""
        self.group = ConsumerGroup("g", self.limits, self.now, replace(self.group.snapshot))
        return self

    def _told(self, beat: HeartbeatAnswer) -> HeartbeatAnswer:
        self.epochs[beat.member_id] = beat.epoch
        if beat.assignment is not None:
            self.owned[beat.member_id] = beat.assignment
        return beat
