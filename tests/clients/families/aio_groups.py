"""aiokafka's consumer groups and administration."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from aiokafka.errors import KafkaError, UnknownTopicOrPartitionError
from aiokafka.structs import OffsetAndMetadata

from tests.clients.members import Joining, Member, ThreadMember
from tests.clients.model import GroupView, Refused, UnknownTopic

Result = TypeVar("Result")


class AioMember(ThreadMember):
    """An aiokafka consumer, its event loop in the member's thread."""

    def __init__(self, joining: Joining, bootstrap: str) -> None:
        super().__init__(joining)
        self._bootstrap = bootstrap
        self._runner = asyncio.Runner()

    def open(self) -> None:
        self._runner.run(self._start())

    async def _start(self) -> None:
        joining = self.joining
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap,
            group_id=joining.group,
            group_instance_id=joining.instance,
            auto_offset_reset=joining.reset,
            enable_auto_commit=False,
            heartbeat_interval_ms=joining.heartbeat_ms,
            session_timeout_ms=joining.session_ms,
        )
        self._consumer.subscribe([joining.topic], listener=_Listener(self))
        await self._consumer.start()

    def poll(self, seconds: float) -> None:
        polled = self._runner.run(self._consumer.getmany(timeout_ms=int(seconds * 1000)))
        read = [(m.partition, m.offset, m.value.decode()) for batch in polled.values() for m in batch]
        if read:
            self.tell({"read": read})

    def commit_now(self) -> None:
        try:
            self._runner.run(self._consumer.commit())
        except KafkaError as error:
            raise Refused(error.errno, str(error)) from error

    def close(self) -> None:
        self._runner.run(self._consumer.stop())
        self._runner.close()


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Tells what the member holds; aiokafka's rebalances are eager."""

    def __init__(self, member: AioMember) -> None:
        self._member = member

    def on_partitions_revoked(self, revoked: set[Any]) -> None:
        self._member.tell({"held": []})

    def on_partitions_assigned(self, assigned: set[Any]) -> None:
        self._member.tell({"held": sorted(each.partition for each in assigned)})


class AioGroups:
    """Groups and administration through aiokafka."""

    _bootstrap: str

    def join(self, joining: Joining) -> Member:
        """Start a member."""
        member = AioMember(joining, self._bootstrap)
        member.start()
        return member

    def commit_alone(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Commit without being a member."""
        wanted = {TopicPartition(topic, p): OffsetAndMetadata(offset, "") for p, offset in offsets.items()}

        async def commit() -> None:
            async with self._alone(group, list(wanted)) as consumer:
                await consumer.commit(wanted)

        run(commit())

    def committed(self, group: str, topic: str, partitions: Sequence[int]) -> dict[int, int | None]:
        """Ask as a consumer for committed offsets."""
        wanted = [TopicPartition(topic, partition) for partition in partitions]

        async def ask() -> dict[int, int | None]:
            async with self._alone(group, wanted) as consumer:
                return {each.partition: await consumer.committed(each) for each in wanted}

        return run(ask())

    def groups(self) -> set[str]:
        """List all groups."""

        async def ask(admin: Any) -> set[str]:
            return {name for name, *_ in await admin.list_consumer_groups()}

        return self._with_admin(ask)

    def group(self, group: str) -> GroupView:
        """Describe a group; members and their assignments come as raw bytes."""

        async def ask(admin: Any) -> GroupView:
            (answer,) = await admin.describe_consumer_groups([group])
            ((code, _, state, _, _, members, *_),) = answer.groups
            if code:
                raise Refused(code)
            held = [_assigned(assignment) for *_, assignment in members]
            return GroupView(state, tuple(sorted(held)))

        return self._with_admin(ask)

    def group_offsets(self, group: str) -> dict[tuple[str, int], int]:
        """List all offsets of a group through the admin client."""

        async def ask(admin: Any) -> dict[tuple[str, int], int]:
            found = await admin.list_consumer_group_offsets(group)
            return {(each.topic, each.partition): offset.offset for each, offset in found.items()}

        return self._with_admin(ask)

    def delete_group(self, group: str) -> None:
        """It cannot."""
        raise NotImplementedError

    def alter_group_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """It cannot."""
        raise NotImplementedError

    def delete_group_offsets(self, group: str, topic: str, partitions: Sequence[int]) -> None:
        """It cannot."""
        raise NotImplementedError

    def topic_configs(self, topic: str) -> dict[str, str | None]:
        """Describe all configs of a topic."""
        return self._with_admin(lambda admin: _describe(admin, ConfigResource(ConfigResourceType.TOPIC, topic)))

    def broker_configs(self) -> dict[str, str | None]:
        """Describe all configs of the first broker."""

        async def ask(admin: Any) -> dict[str, str | None]:
            node = (await admin.describe_cluster())["brokers"][0]["node_id"]
            return await _describe(admin, ConfigResource(ConfigResourceType.BROKER, str(node)))

        return self._with_admin(ask)

    def set_config(self, topic: str, name: str, value: str | None) -> None:
        """It cannot, incrementally."""
        raise NotImplementedError

    def replace_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        """Set these configs and put all others back to their defaults."""

        async def alter(admin: Any) -> None:
            (answer,) = await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, dict(configs))])
            ((code, message, *_),) = answer.resources
            _check(code, message)

        self._with_admin(alter)

    def add_partitions(self, topic: str, total: int) -> None:
        """Let a topic have so many partitions."""

        async def add(admin: Any) -> None:
            await admin.create_partitions({topic: NewPartitions(total)})

        self._with_admin(add)

    def delete_records(self, topic: str, before: Mapping[int, int]) -> dict[int, int]:
        """Delete what is before these offsets."""

        async def delete(admin: Any) -> dict[int, int]:
            wanted = {TopicPartition(topic, p): RecordsToDelete(offset) for p, offset in before.items()}
            done = await admin.delete_records(wanted)
            return {each.partition: int(low) for each, low in done.items()}

        return self._with_admin(delete)

    def _with_admin(self, work: Callable[[Any], Coroutine[Any, Any, Result]]) -> Result:
        async def whole() -> Result:
            admin = AIOKafkaAdminClient(bootstrap_servers=self._bootstrap)
            await admin.start()
            try:
                return await work(admin)
            finally:
                await admin.close()

        return run(whole())

    @asynccontextmanager
    async def _alone(self, group: str, partitions: list[Any]) -> AsyncIterator[Any]:
        consumer = AIOKafkaConsumer(bootstrap_servers=self._bootstrap, group_id=group, enable_auto_commit=False)
        await consumer.start()
        try:
            consumer.assign(partitions)
            yield consumer
        finally:
            await consumer.stop()


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a whole event loop, with aiokafka's errors translated."""
    try:
        return asyncio.run(work)
    except UnknownTopicOrPartitionError as error:
        raise UnknownTopic(str(error)) from error
    except KafkaError as error:
        if getattr(error, "errno", 0) > 0:
            raise Refused(error.errno, str(error)) from error
        raise


def _check(code: int, message: str | None) -> None:
    if code == UnknownTopicOrPartitionError.errno:
        raise UnknownTopic(str(message))
    if code:
        raise Refused(code, message)


def _assigned(assignment: bytes) -> tuple[int, ...]:
    if not assignment:
        return ()
    return tuple(sorted(each.partition for each in ConsumerProtocolMemberAssignment.decode(assignment).partitions()))


async def _describe(admin: Any, resource: Any) -> dict[str, str | None]:
    (answer,) = await admin.describe_configs([resource])
    ((code, message, _, _, entries),) = answer.resources
    _check(code, message)
    return {name: value for name, value, *_ in entries}
