"""kafka-python's consumer groups and administration; what the old 2.x does otherwise is in `kafka_python_2`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import kafka.errors
from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata

from tests.clients.members import Joining, Member, ThreadMember
from tests.clients.model import GroupView, Refused, UnknownTopic


class KafkaPythonMember(ThreadMember):
    """A KafkaConsumer that subscribes."""

    def __init__(self, joining: Joining, bootstrap: str) -> None:
        super().__init__(joining)
        self._bootstrap = bootstrap

    def config(self) -> dict[str, Any]:
        """What the consumer is made with."""
        joining = self.joining
        config = {
            "bootstrap_servers": self._bootstrap,
            "group_id": joining.group,
            "auto_offset_reset": joining.reset,
            "enable_auto_commit": False,
            "heartbeat_interval_ms": joining.heartbeat_ms,
            "session_timeout_ms": joining.session_ms,
        }
        if joining.instance is not None:
            config["group_instance_id"] = joining.instance
        if joining.cooperative:
            from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

            config["partition_assignment_strategy"] = (CooperativeStickyAssignor,)
        return config

    def open(self) -> None:
        self._consumer = KafkaConsumer(**self.config())
        self._consumer.subscribe([self.joining.topic], listener=_Listener(self))

    def poll(self, seconds: float) -> None:
        polled = self._consumer.poll(timeout_ms=int(seconds * 1000))
        read = [(m.partition, m.offset, m.value.decode()) for batch in polled.values() for m in batch]
        if read:
            self.tell({"read": read})

    def commit_now(self) -> None:
        with refusals():
            self._consumer.commit()

    def close(self) -> None:
        self._consumer.close()


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Tells what the member holds."""

    def __init__(self, member: KafkaPythonMember) -> None:
        self._member = member
        self._held: set[int] = set()

    def on_partitions_revoked(self, revoked: set[Any]) -> None:
        self._held -= {each.partition for each in revoked}
        self._member.tell({"held": sorted(self._held)})

    def on_partitions_assigned(self, assigned: set[Any]) -> None:
        self._held |= {each.partition for each in assigned}
        self._member.tell({"held": sorted(self._held)})


class KafkaPythonGroups:
    """Groups and administration of kafka-python 3."""

    _bootstrap: str

    def member(self, joining: Joining) -> ThreadMember:
        """Make a member that is not started."""
        return KafkaPythonMember(joining, self._bootstrap)

    def join(self, joining: Joining) -> Member:
        """Start a member."""
        member = self.member(joining)
        member.start()
        return member

    def commit_alone(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Commit without being a member."""
        wanted = _offsets(topic, offsets)
        with refusals(), self._alone(group) as consumer:
            consumer.assign(list(wanted))
            consumer.commit(wanted)

    def committed(self, group: str, topic: str, partitions: Sequence[int]) -> dict[int, int | None]:
        """Ask as a consumer for committed offsets."""
        with refusals(), self._alone(group) as consumer:
            return {each: consumer.committed(TopicPartition(topic, each)) for each in partitions}

    def groups(self) -> set[str]:
        """List all groups."""
        with self._administering() as admin:
            return {each["group_id"] for each in admin.list_groups()}

    def group(self, group: str) -> GroupView:
        """Describe a group; one that is not there comes with an error (DescribeGroups v6) or as Dead."""
        with self._administering() as admin:
            found = admin.describe_groups([group])[group]
        if found["error"] is not None:
            assert _code(found["error"]) == kafka.errors.GroupIdNotFoundError.errno, found
            return GroupView("Dead")
        held = [_assigned(member["member_assignment"]) for member in found["members"]]
        return GroupView(found["group_state"], tuple(sorted(held)))

    def group_offsets(self, group: str) -> dict[tuple[str, int], int]:
        """List all offsets of a group through the admin client."""
        with self._administering() as admin:
            found = admin.list_group_offsets(group)[group]
        return {(each.topic, each.partition): offset.offset for each, offset in found.items()}

    def delete_group(self, group: str) -> None:
        """Delete a group; the client names the error's class."""
        with self._administering() as admin:
            outcome = admin.delete_groups([group])[group]
        if outcome != "OK":
            raise Refused(getattr(kafka.errors, outcome).errno, outcome)

    def alter_group_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Set offsets through the admin client."""
        with self._administering() as admin:
            _check_each(admin.alter_group_offsets(group, _offsets(topic, offsets)))

    def delete_group_offsets(self, group: str, topic: str, partitions: Sequence[int]) -> None:
        """Delete offsets."""
        with self._administering() as admin:
            _check_each(admin.delete_group_offsets(group, [TopicPartition(topic, each) for each in partitions]))

    def topic_configs(self, topic: str) -> dict[str, str | None]:
        """Describe all configs of a topic; this client leaves errors out, and with them all configs."""
        return self._described("TOPIC", topic)

    def broker_configs(self) -> dict[str, str | None]:
        """Describe all configs of the first broker."""
        with self._administering() as admin:
            node = admin.describe_cluster()["brokers"][0]["broker_id"]
        return self._described("BROKER", str(node))

    def set_config(self, topic: str, name: str, value: str | None) -> None:
        """Set one config, incrementally."""
        self._altered(topic, {name: ("DELETE", None) if value is None else ("SET", value)}, incremental=True)

    def replace_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        """Set these configs; this client sends the ones that were set before along."""
        self._altered(topic, dict(configs), incremental=False)

    def add_partitions(self, topic: str, total: int) -> None:
        """Let a topic have so many partitions."""
        with self._administering() as admin:
            admin.create_partitions({topic: total})

    def delete_records(self, topic: str, before: Mapping[int, int]) -> dict[int, int]:
        """Delete what is before these offsets."""
        with self._administering() as admin:
            done = admin.delete_records({TopicPartition(topic, p): offset for p, offset in before.items()})
        return {each.partition: result["low_watermark"] for each, result in done.items()}

    def _described(self, kind: str, name: str) -> dict[str, str | None]:
        from kafka.admin import ConfigResource

        with self._administering() as admin:
            found = admin.describe_configs([ConfigResource(kind, name)], config_filter="all")
        return {config: entry["value"] for config, entry in found[kind.lower()][name].items()}

    def _altered(self, topic: str, configs: dict[str, Any], *, incremental: bool) -> None:
        from kafka.admin import ConfigResource

        resource = ConfigResource("TOPIC", topic, configs)
        with self._administering() as admin:
            # what is unknown is for the server to say
            done = admin.alter_configs([resource], raise_on_unknown=False, incremental=incremental)
        outcome = done["topic"][topic]
        if outcome == "OK":
            return
        code = _code(outcome)
        raise (
            UnknownTopic(outcome) if code == kafka.errors.UnknownTopicOrPartitionError.errno else Refused(code, outcome)
        )

    @contextmanager
    def _administering(self) -> Iterator[Any]:
        from kafka import KafkaAdminClient

        with refusals():
            admin = KafkaAdminClient(bootstrap_servers=self._bootstrap)
            try:
                yield admin
            finally:
                admin.close()

    @contextmanager
    def _alone(self, group: str) -> Iterator[Any]:
        consumer = KafkaConsumer(bootstrap_servers=self._bootstrap, group_id=group, enable_auto_commit=False)
        try:
            yield consumer
        finally:
            consumer.close()


@contextmanager
def refusals() -> Iterator[None]:
    """Translate kafka-python's exceptions."""
    try:
        yield
    except kafka.errors.UnknownTopicOrPartitionError as error:
        raise UnknownTopic(str(error)) from error
    except kafka.errors.BrokerResponseError as error:
        if error.errno is None:
            raise
        raise Refused(error.errno, str(error)) from error


def _offsets(topic: str, offsets: Mapping[int, int]) -> dict[Any, Any]:
    return {TopicPartition(topic, p): OffsetAndMetadata(offset, "", -1) for p, offset in offsets.items()}


def _check_each(outcomes: Mapping[Any, Any]) -> None:
    for error in outcomes.values():
        if error is not kafka.errors.NoError:
            raise error


def _code(text: str) -> int:
    found = re.search(r"\[Error (\d+)\]", text)
    assert found, text
    return int(found[1])


def _assigned(assignment: Any) -> tuple[int, ...]:
    if not assignment:
        return ()
    topics = assignment["assigned_partitions"]
    return tuple(sorted(partition for each in topics for partition in each["partitions"]))
