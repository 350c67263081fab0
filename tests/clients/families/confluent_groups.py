"""confluent-kafka's consumer groups and administration."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions

from tests.clients.members import Joining, Member, ThreadMember
from tests.clients.model import GroupView, Refused, UnknownTopic

NO_OFFSET = -1001
TIMEOUT = 30


class ConfluentMember(ThreadMember):
    """A librdkafka consumer that subscribes."""

    def __init__(self, joining: Joining, config: Mapping[str, Any]) -> None:
        super().__init__(joining)
        self._config = dict(config)
        self._held: set[int] = set()

    def open(self) -> None:
        joining = self.joining
        config = {
            **self._config,
            "group.id": joining.group,
            "auto.offset.reset": joining.reset,
            "enable.auto.commit": False,
        }
        if joining.protocol == "consumer":
            config["group.protocol"] = "consumer"
        else:
            config |= {"heartbeat.interval.ms": joining.heartbeat_ms, "session.timeout.ms": joining.session_ms}
        if joining.instance is not None:
            config["group.instance.id"] = joining.instance
        if joining.cooperative:
            config["partition.assignment.strategy"] = "cooperative-sticky"
        self._consumer = Consumer(config)
        # librdkafka takes a name that begins with ^ for a pattern
        topic = joining.topic if joining.pattern is None else f"^{joining.pattern}"
        self._consumer.subscribe([topic], on_assign=self._on_assign, on_revoke=self._on_revoke)

    def poll(self, seconds: float) -> None:
        message = self._consumer.poll(seconds)
        if message is None:
            return
        messages = [message, *self._consumer.consume(500, 0)]
        read = []
        for each in messages:
            error = each.error()
            if error is None:
                value = each.value()
                read.append((each.partition(), each.offset(), (value or b"").decode()))
            elif error.code() in (KafkaError._FATAL, KafkaError._AUTO_OFFSET_RESET):
                raise KafkaException(error)
        self.tell({"read": read})

    def commit_now(self) -> None:
        with refusals():
            try:
                told = self._consumer.commit(asynchronous=False) or ()
            except KafkaException as error:
                if error.args[0].code() == KafkaError._NO_OFFSET:  # it has read nothing of what it has got
                    return
                raise
            for committed in told:
                if committed.error is not None:
                    raise KafkaException(committed.error)

    def close(self) -> None:
        self._consumer.close()

    def _on_assign(self, _: Any, partitions: Sequence[Any]) -> None:
        self._held |= {each.partition for each in partitions}
        self.tell({"held": sorted(self._held)})

    def _on_revoke(self, _: Any, partitions: Sequence[Any]) -> None:
        self._held -= {each.partition for each in partitions}
        self.tell({"held": sorted(self._held)})


class ConfluentGroups:
    """Groups and administration through librdkafka."""

    _config: dict[str, Any]
    _admin: AdminClient

    def join(self, joining: Joining) -> Member:
        """Start a member."""
        member = ConfluentMember(joining, self._config)
        member.start()
        return member

    def commit_alone(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Commit without being a member."""
        with refusals(), self._alone(group) as consumer:
            wanted = _offsets(topic, offsets)
            consumer.assign(wanted)
            for committed in consumer.commit(offsets=wanted, asynchronous=False):
                if committed.error is not None:
                    raise KafkaException(committed.error)

    def committed(self, group: str, topic: str, partitions: Sequence[int]) -> dict[int, int | None]:
        """Ask as a consumer for committed offsets."""
        with refusals(), self._alone(group) as consumer:
            found = consumer.committed([TopicPartition(topic, each) for each in partitions], timeout=TIMEOUT)
        return {each.partition: None if each.offset == NO_OFFSET else each.offset for each in found}

    def groups(self) -> set[str]:
        """List all groups."""
        listed = self._admin.list_consumer_groups().result(TIMEOUT)
        assert not listed.errors, listed.errors
        return {each.group_id for each in listed.valid}

    def group(self, group: str) -> GroupView:
        """Describe a group."""
        found = self._admin.describe_consumer_groups([group])[group].result(TIMEOUT)
        state = "".join(part.capitalize() for part in found.state.name.split("_"))
        held = [tuple(sorted(each.partition for each in m.assignment.topic_partitions)) for m in found.members]
        return GroupView(state, tuple(sorted(held)))

    def group_offsets(self, group: str) -> dict[tuple[str, int], int]:
        """List all offsets of a group through the admin client."""
        found = self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(TIMEOUT)
        return {(each.topic, each.partition): each.offset for each in found.topic_partitions}

    def delete_group(self, group: str) -> None:
        """Delete a group."""
        with refusals():
            self._admin.delete_consumer_groups([group])[group].result(TIMEOUT)

    def alter_group_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Set offsets through the admin client."""
        wanted = ConsumerGroupTopicPartitions(group, _offsets(topic, offsets))
        with refusals():
            done = self._admin.alter_consumer_group_offsets([wanted])[group].result(TIMEOUT)
            for each in done.topic_partitions:
                if each.error is not None:
                    raise KafkaException(each.error)

    def delete_group_offsets(self, group: str, topic: str, partitions: Sequence[int]) -> None:
        """It cannot."""
        raise NotImplementedError

    def topic_configs(self, topic: str) -> dict[str, str | None]:
        """Describe all configs of a topic."""
        return self._describe(ConfigResource(ConfigResource.Type.TOPIC, topic))

    def broker_configs(self) -> dict[str, str | None]:
        """Describe all configs of the first broker."""
        node = next(iter(self._admin.list_topics(timeout=TIMEOUT).brokers))
        return self._describe(ConfigResource(ConfigResource.Type.BROKER, str(node)))

    def set_config(self, topic: str, name: str, value: str | None) -> None:
        """Set one config, incrementally."""
        operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        entry = ConfigEntry(name, value, incremental_operation=operation)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        with refusals():
            self._admin.incremental_alter_configs([resource])[resource].result(TIMEOUT)

    def replace_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        """Set these configs and put all others back to their defaults."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, set_config=dict(configs))
        with refusals(), warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # deprecated it is, and still used
            self._admin.alter_configs([resource])[resource].result(TIMEOUT)

    def add_partitions(self, topic: str, total: int) -> None:
        """Let a topic have so many partitions."""
        with refusals():
            self._admin.create_partitions([NewPartitions(topic, total)])[topic].result(TIMEOUT)

    def delete_records(self, topic: str, before: Mapping[int, int]) -> dict[int, int]:
        """Delete what is before these offsets."""
        with refusals():
            done = self._admin.delete_records(_offsets(topic, before))
            return {each.partition: future.result(TIMEOUT).low_watermark for each, future in done.items()}

    def _describe(self, resource: Any) -> dict[str, str | None]:
        with refusals():
            entries = self._admin.describe_configs([resource])[resource].result(TIMEOUT)
        return {name: entry.value for name, entry in entries.items()}

    @contextmanager
    def _alone(self, group: str) -> Iterator[Any]:
        consumer = Consumer({**self._config, "group.id": group, "enable.auto.commit": False})
        try:
            yield consumer
        finally:
            consumer.close()


@contextmanager
def refusals() -> Iterator[None]:
    """Translate librdkafka's exceptions."""
    try:
        yield
    except KafkaException as error:
        code = error.args[0].code()
        if code == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise UnknownTopic(str(error)) from error
        if code > 0:
            raise Refused(code, str(error)) from error
        raise


def _offsets(topic: str, offsets: Mapping[int, int]) -> list[Any]:
    return [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
