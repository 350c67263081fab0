"""A `Client` in a process of its own: every call becomes a line for its driver."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any
from uuid import uuid4

from tests.clients.members import Joining, Member
from tests.clients.model import At, Codec, Delivery, Draft, GroupView, Record, Refused, Start, UnknownTopic
from tests.support.driver import Driver, DriverError

UNKNOWN_TOPIC_OR_PARTITION = 3


class RemoteMember(Member):
    """A member that runs in a driver."""

    def __init__(self, joining: Joining, remote: Remote) -> None:
        super().__init__(joining)
        self._remote = remote
        self.name = uuid4().hex

    def commit(self) -> None:
        self._remote.call("member-commit", member=self.name)

    def leave(self) -> None:
        self._remote.call("member-leave", member=self.name)


class Remote:
    """Records, groups and administration through a driver."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def close(self) -> None:
        """End the driver."""
        self._driver.close()

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic with the broker's default replication factor."""
        self.call("create", topic=topic, partitions=partitions)

    def delete_topic(self, topic: str) -> None:
        """Delete a topic through the admin client."""
        self.call("delete", topic=topic)

    def topics(self) -> set[str]:
        """List all topics."""
        return set(self.call("list"))

    def partitions(self, topic: str) -> int:
        """Describe a topic and count its partitions."""
        return int(self.call("describe", topic=topic))

    def write(self, topic: str, drafts: Sequence[Draft], codec: Codec = "none") -> list[Delivery]:
        """Send all, then wait for every future."""
        records = [draft_to_json(draft) for draft in drafts]
        return [Delivery(*result) for result in self.call("write", topic=topic, codec=codec, records=records)]

    def read(self, topic: str, starts: Mapping[int, Start]) -> list[Record]:
        """Assign, seek, and poll until the position of every partition is its end offset."""
        wanted = {str(p): {"time": s.timestamp} if isinstance(s, At) else s for p, s in starts.items()}
        return [_record(topic, fields) for fields in self.call("read", topic=topic, starts=wanted)]

    def beginning_and_end(self, topic: str, partition: int) -> tuple[int, int]:
        """Ask for both watermarks."""
        low, high = self.call("ends", topic=topic, partition=partition)
        return low, high

    def offset_for_time(self, topic: str, partition: int, timestamp: int) -> int | None:
        """Ask for an offset by time."""
        offset: int | None = self.call("time", topic=topic, partition=partition, timestamp=timestamp)
        return offset

    def join(self, joining: Joining) -> Member:
        """Start a member."""
        member = RemoteMember(joining, self)
        self._driver.listen(member.name, member.on)
        self.call("member-join", member=member.name, **asdict(joining))
        return member

    def commit_alone(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Commit without being a member."""
        self.call("commit-alone", group=group, topic=topic, offsets=_by_text(offsets))

    def committed(self, group: str, topic: str, partitions: Sequence[int]) -> dict[int, int | None]:
        """Ask as a consumer for committed offsets."""
        found = self.call("committed", group=group, topic=topic, partitions=list(partitions))
        return {int(partition): offset for partition, offset in found.items()}

    def groups(self) -> set[str]:
        """List all groups."""
        return set(self.call("groups"))

    def group(self, group: str) -> GroupView:
        """Describe a group."""
        state, members = self.call("group", group=group)
        return GroupView(state, tuple(sorted(tuple(sorted(member)) for member in members)))

    def group_offsets(self, group: str) -> dict[tuple[str, int], int]:
        """List all offsets of a group through the admin client."""
        return {(topic, partition): offset for topic, partition, offset in self.call("group-offsets", group=group)}

    def delete_group(self, group: str) -> None:
        """Delete a group."""
        self.call("delete-group", group=group)

    def alter_group_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Set offsets through the admin client."""
        self.call("alter-group-offsets", group=group, topic=topic, offsets=_by_text(offsets))

    def delete_group_offsets(self, group: str, topic: str, partitions: Sequence[int]) -> None:
        """Delete offsets."""
        self.call("delete-group-offsets", group=group, topic=topic, partitions=list(partitions))

    def topic_configs(self, topic: str) -> dict[str, str | None]:
        """Describe all configs of a topic."""
        return dict(self.call("topic-configs", topic=topic))

    def broker_configs(self) -> dict[str, str | None]:
        """Describe all configs of the first broker."""
        return dict(self.call("broker-configs"))

    def set_config(self, topic: str, name: str, value: str | None) -> None:
        """Set one config, incrementally."""
        self.call("set-config", topic=topic, name=name, value=value)

    def replace_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        """Set these configs and put all others back to their defaults."""
        self.call("replace-configs", topic=topic, configs=dict(configs))

    def add_partitions(self, topic: str, total: int) -> None:
        """Let a topic have so many partitions."""
        self.call("add-partitions", topic=topic, total=total)

    def delete_records(self, topic: str, before: Mapping[int, int]) -> dict[int, int]:
        """Delete what is before these offsets."""
        found = self.call("delete-records", topic=topic, offsets=_by_text(before))
        return {int(partition): offset for partition, offset in found.items()}

    def call(self, operation: str, **arguments: object) -> Any:
        """Run one operation; errors with one of Kafka's codes become Refused."""
        try:
            return self._driver.call(operation, **arguments)
        except DriverError as error:
            if error.code == UNKNOWN_TOPIC_OR_PARTITION:
                raise UnknownTopic(str(error)) from error
            if error.code is not None:
                raise Refused(error.code, str(error)) from error
            raise


def encode(data: bytes | None) -> str | None:
    """Bytes as the drivers' lines carry them."""
    return None if data is None else base64.b64encode(data).decode()


def decode(text: str | None) -> bytes | None:
    """The bytes of a line."""
    return None if text is None else base64.b64decode(text)


def draft_to_json(draft: Draft) -> dict[str, object]:
    """A draft as the drivers read it."""
    return {
        "partition": draft.partition,
        "timestamp": draft.timestamp,
        "key": encode(draft.key),
        "value": encode(draft.value),
        "headers": [[name, encode(value)] for name, value in draft.headers],
    }


def _by_text(offsets: Mapping[int, int]) -> dict[str, int]:
    return {str(partition): offset for partition, offset in offsets.items()}


def _record(topic: str, fields: Any) -> Record:
    headers = tuple((str(name), decode(value)) for name, value in fields["headers"])
    key, value = decode(fields["key"]), decode(fields["value"])
    return Record(topic, fields["partition"], fields["offset"], fields["timestamp"], key, value, headers)
