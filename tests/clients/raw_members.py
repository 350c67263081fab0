"""Members of the new consumer protocol (KIP-848) request by request, without a client."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

from bridge.apis import (
    consumer_group_describe,
    consumer_group_heartbeat,
    find_coordinator,
    join_group,
    metadata,
    offset_commit,
    offset_fetch,
)
from bridge.kafka.error_codes import ErrorCode
from tests.apis.wire import ask_at
from tests.clients.endpoint import unique
from tests.clients.model import attempts

PARTITIONS = 4
Held = dict[str, list[int]]


class Group:
    """A group, what its members know, and what they hold."""

    def __init__(self, address: str, topics: list[str]) -> None:
        self.address = address
        self.name = unique("raw")
        self.topics = topics
        self.ids = {topic: self._id(topic) for topic in self.topics}
        self.epochs: dict[str, int] = {}
        self.held: dict[str, Held] = {}
        for _ in attempts("a coordinator"):
            # Kafka has none before the first client asks for one
            found = self.ask(find_coordinator, find_coordinator.Request(coordinator_keys=[self.name])).coordinators[0]
            if found.error_code == ErrorCode.NONE:
                self.address = f"{found.host}:{found.port}"
            if self.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND:
                break

    def ask(self, api: Any, request: Any, version: int | None = None) -> Any:
        return ask_at(self.address, api.API, request, version)

    def send(self, member: str, epoch: int, version: int = 1, **fields: Any) -> Any:
        values = {"group_id": self.name, **fields}
        request = consumer_group_heartbeat.Request(member_id=member, member_epoch=epoch, **values)
        return self.ask(consumer_group_heartbeat, request, version)

    def joining(self, **fields: Any) -> dict[str, Any]:
        return {
            "rebalance_timeout_ms": 60_000, "subscribed_topic_names": self.topics, "topic_partitions": [], **fields,
        }  # fmt: skip

    def join(self, member: str, **fields: Any) -> Any:
        return self._told(member, self.send(member, 0, **self.joining(**fields)))

    def beat(self, member: str, **fields: Any) -> Any:
        """A heartbeat that says what the member owns."""
        return self._told(member, self.send(member, self.epochs[member], topic_partitions=self.owned(member), **fields))

    def silent(self, member: str) -> Any:
        return self._told(member, self.send(member, self.epochs[member]))

    def owned(self, member: str) -> list[Any]:
        held = self.held[member].items()
        return [consumer_group_heartbeat.TopicPartitions(topic_id=self.ids[t], partitions=parts) for t, parts in held]

    def settle(self, done: Callable[[], bool], *members: str) -> None:
        """Let members send heartbeats until it is so."""
        for _ in attempts("the group to settle"):
            for member in members or tuple(self.epochs):
                self.beat(member)
            if done():
                return

    def shared(self, *members: str, partitions: Iterable[int] = range(PARTITIONS)) -> bool:
        held = [sorted(part for one in members for part in self.held[one].get(topic, ())) for topic in self.topics]
        epochs = {self.epochs[one] for one in members}
        return all(one == list(partitions) for one in held) and len(epochs) == 1

    def describe(self) -> Any:
        request = consumer_group_describe.Request(group_ids=[self.name], include_authorized_operations=False)
        return self.ask(consumer_group_describe, request).groups[0]

    def commit(self, member: str, epoch: int, version: int = 9, offset: int = 5) -> int:
        partition = offset_commit.RequestPartition(partition_index=0, committed_offset=offset)
        topic = offset_commit.RequestTopic(name=self.topics[0], partitions=[partition])
        request = offset_commit.Request(
            group_id=self.name, member_id=member, generation_id_or_member_epoch=epoch, topics=[topic]
        )
        return int(self.ask(offset_commit, request, version).topics[0].partitions[0].error_code)

    def fetch(self, member: str | None, epoch: int) -> tuple[int, list[int]]:
        topics = [offset_fetch.Topic(name=self.topics[0], partition_indexes=[0])]
        asked = offset_fetch.RequestGroup(group_id=self.name, member_id=member, member_epoch=epoch, topics=topics)
        (group,) = self.ask(offset_fetch, offset_fetch.Request(groups=[asked]), 9).groups
        return group.error_code, [one.committed_offset for topic in group.topics for one in topic.partitions]

    def classic_join(self, member: str = "") -> Any:
        """A JoinGroup of a version in which a member is told its id and its generation at once."""
        subscription = b"\0\1\0\0\0\0\xff\xff\xff\xff"
        request = join_group.Request(
            group_id=self.name,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id=member,
            protocol_type="consumer",
            protocols=[join_group.Protocol(name="range", metadata=subscription)],
        )
        return self.ask(join_group, request, 3)

    def _id(self, topic: str) -> UUID:
        asked = [metadata.RequestTopic(name=topic)]
        for _ in attempts("the topic's id"):
            found: UUID = self.ask(metadata, metadata.Request(topics=asked), 12).topics[0].topic_id
            if found.int:
                break
        return found

    def _told(self, member: str, answer: Any) -> Any:
        assert answer.error_code == 0, answer.error_message
        self.epochs[member] = answer.member_epoch
        if answer.assignment is not None:
            names = {topic_id: topic for topic, topic_id in self.ids.items()}
            given = answer.assignment.topic_partitions
            self.held[member] = {names[one.topic_id]: sorted(one.partitions) for one in given}
        return answer
