"""A share group with members that remember what they are told."""

from dataclasses import replace
from typing import Any

from bridge.errors import KafkaError
from bridge.groups.consumer.model import Assignment, ShareSnapshot, View
from bridge.groups.epochs.group import EpochGroupConfig, HeartbeatAnswer, MemberHeartbeat
from bridge.groups.share.state import ShareGroup
from bridge.kafka.error_codes import ErrorCode
from tests.groups.fake_topics import FakeTopics

SESSION = 45.0


class ShareMachine:
    """One group, its topics, and what its members know."""

    def __init__(self, most_members: int = 200, interval: float = 0.0, **partitions: int) -> None:
        self.topics = FakeTopics(**(partitions or {"t": 4}))
        self.now = 1000.0
        self.limits = EpochGroupConfig(SESSION, most_members, interval)
        self.group = ShareGroup("g", self.limits, self.now, ShareSnapshot())
        self.epochs: dict[str, int] = {}
        self.has: dict[str, Assignment] = {}

    def send(self, name: str, epoch: int, look: bool = True, **fields: Any) -> HeartbeatAnswer:
        """One heartbeat, word for word."""
        request = MemberHeartbeat(name, epoch, **fields)
        names, _ = self.group.wanted(request)
        view = View({name: one for name, one in self.topics.facts().items() if name in names}) if look else None
        return self.group.heartbeat(request, view, self.now)

    def join(self, name: str, topics: str = "t") -> HeartbeatAnswer:
        return self._told(self.send(name, 0, topics=frozenset(topics)))

    def beat(self, name: str, look: bool = True, **fields: Any) -> HeartbeatAnswer:
        return self._told(self.send(name, self.epochs[name], look, **fields))

    def leave(self, name: str) -> HeartbeatAnswer:
        del self.epochs[name], self.has[name]
        return self.send(name, -1)

    def partitions(self, name: str) -> dict[str, list[int]]:
        """What a member has been told, by topic name."""
        names = {topic.id: topic_name for topic_name, topic in self.topics.here.items()}
        return {names[topic]: sorted(parts) for topic, parts in self.has[name].items()}

    def refusal(self, name: str, epoch: int, **fields: Any) -> tuple[ErrorCode, str]:
        before = self.group.snapshot
        try:
            self.send(name, epoch, **fields)
        except KafkaError as error:
            assert self.group.snapshot is before
            return ErrorCode(error.code), error.message
        return ErrorCode.NONE, ""

    def restarted(self) -> "ShareMachine":
        """As after a restart of the bridge, at this moment."""
        self.group = ShareGroup("g", self.limits, self.now, replace(self.group.snapshot))
        return self

    def _told(self, beat: HeartbeatAnswer) -> HeartbeatAnswer:
        self.epochs[beat.member_id] = beat.epoch
        if beat.assignment is not None:
            self.has[beat.member_id] = beat.assignment
        return beat
