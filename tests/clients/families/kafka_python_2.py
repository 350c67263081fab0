"""kafka-python 2.x as a `Client`: still in wide use, with old request versions. It runs in its own process (see
`python_driver`), where `kafka` is that version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import kafka.errors

from tests.clients.families.kafka_python import KafkaPython
from tests.clients.model import GroupView, Refused, UnknownTopic


class KafkaPython2(KafkaPython):
    """The same consumer and producer, another admin client."""

    name = "kafka-python-2"

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic through the admin client."""
        from kafka.admin import NewTopic

        with self._administering() as admin:
            admin.create_topics([NewTopic(topic, partitions, 1)])

    def delete_topic(self, topic: str) -> None:
        """Delete a topic through the admin client."""
        with self._administering() as admin:
            admin.delete_topics([topic])

    def topics(self) -> set[str]:
        """List all topics."""
        with self._administering() as admin:
            return set(admin.list_topics())

    def partitions(self, topic: str) -> int:
        """Describe a topic and count its partitions."""
        with self._administering() as admin:
            (described,) = admin.describe_topics([topic])
        _check(described["error_code"])
        return len(described["partitions"])

    def groups(self) -> set[str]:
        """List all groups."""
        with self._administering() as admin:
            return {name for name, *_ in admin.list_consumer_groups()}

    def group(self, group: str) -> GroupView:
        """Describe a group."""
        with self._administering() as admin:
            (found,) = admin.describe_consumer_groups([group])
        held = [_assigned(member.member_assignment) for member in found.members]
        return GroupView(found.state, tuple(sorted(held)))

    def group_offsets(self, group: str) -> dict[tuple[str, int], int]:
        """List all offsets of a group through the admin client."""
        with self._administering() as admin:
            found = admin.list_consumer_group_offsets(group)
        return {(each.topic, each.partition): offset.offset for each, offset in found.items()}

    def delete_group(self, group: str) -> None:
        """Delete a group."""
        with self._administering() as admin:
            ((_, error),) = admin.delete_consumer_groups([group])
        _check(error.errno)

    def alter_group_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """It cannot."""
        raise NotImplementedError

    def delete_group_offsets(self, group: str, topic: str, partitions: Sequence[int]) -> None:
        """It cannot."""
        raise NotImplementedError

    def broker_configs(self) -> dict[str, str | None]:
        """Describe all configs of the first broker."""
        with self._administering() as admin:
            node = admin.describe_cluster()["brokers"][0]["node_id"]
        return self._described("BROKER", str(node))

    def set_config(self, topic: str, name: str, value: str | None) -> None:
        """It cannot, incrementally."""
        raise NotImplementedError

    def replace_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        """Set these configs and put all others back to their defaults."""
        from kafka.admin import ConfigResource, ConfigResourceType

        with self._administering() as admin:
            answer = admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, dict(configs))])
        ((code, message, *_),) = answer.resources
        _check(code, message)

    def add_partitions(self, topic: str, total: int) -> None:
        """Let a topic have so many partitions."""
        from kafka.admin import NewPartitions

        with self._administering() as admin:
            admin.create_partitions({topic: NewPartitions(total)})

    def _position(self, consumer: Any, partition: Any) -> int:
        """It spins forever, and reads nothing, where an offset is being asked for: at another node than the one polled.

        A poll ends with the first node's records. The time limit of `position` is not looked at then.
        """
        known = consumer._subscription.assignment[partition].position
        return -1 if known is None else int(known.offset)

    def _described(self, kind: str, name: str) -> dict[str, str | None]:
        from kafka.admin import ConfigResource, ConfigResourceType

        with self._administering() as admin:
            (answer,) = admin.describe_configs([ConfigResource(ConfigResourceType[kind], name)])
        ((code, message, _, _, entries),) = answer.resources
        _check(code, message)
        return {entry[0]: entry[1] for entry in entries}


def _check(code: int, message: str | None = None) -> None:
    if code == kafka.errors.UnknownTopicOrPartitionError.errno:
        raise UnknownTopic(str(message))
    if code:
        raise Refused(code, message)


def _assigned(assignment: Any) -> tuple[int, ...]:
    if not assignment:
        return ()
    return tuple(sorted(partition for _, partitions in assignment.assignment for partition in partitions))
