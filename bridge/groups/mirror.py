"""Mirrors committed offsets to Pulsar subscriptions, so that Pulsar's own tools show the backlog of Kafka's groups.

Every partition that a group whose id matches the setting `groups.mirror_pattern` has committed gets a durable
subscription named after the group, acknowledged cumulatively up to the last entry that lies wholly before the committed
offset. It goes when the offset is deleted or expires, hence with its group.

A subscription holds what it has not acknowledged, beyond all retention: a group that stops committing holds data until
it expires. And nothing else may use a subscription of that name: a Pulsar consumer there takes the place of the mirror.

The mirror lags: each partition is brought up to date at most every few seconds, with the latest offset. What Pulsar
refuses is tried again; a mirror that fails delays no commit. What a killed process leaves behind, the next one repairs:
it shows all offsets again, and deletes the subscriptions of its mark that have none.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, Protocol

from bridge import log
from bridge.config import Settings
from bridge.errors import BridgeError, KafkaError
from bridge.groups.store.records import Key, StoredOffset
from bridge.metrics import GroupMetrics
from bridge.pulsar.admin import Admin
from bridge.pulsar.client import PulsarClient
from bridge.pulsar.connection import Backoff
from bridge.pulsar.types import EARLIEST, Position
from bridge.storage.names import Names
from bridge.storage.partition import PartitionLog
from bridge.storage.topics.topics import Topics

_log = log.get("groups.mirror")

_INTERVAL_SECONDS: Final = 2.0
_MAX_CONCURRENT: Final = 4
_MAX_TRIES: Final = 30
_MARK: Final = {"kafka.group": "mirror"}
"""The property of our subscriptions, that others of a group's name are left alone."""

GroupTopicPartition = tuple[str, str, int]  # group, topic, partition


class StoredOffsets(Protocol):
    """What is asked of the store."""

    on_stored: list[Callable[[Key, StoredOffset | None], None]]
    on_owned: list[Callable[[list[str]], None]]
    on_lost: list[Callable[[Callable[[str], bool]], None]]

    def coordinates(self, group_id: str) -> bool:
        """Whether this node coordinates the group."""

    async def ready(self) -> None:
        """Wait until `groups` is complete; raises KafkaError where that takes long."""

    def groups(self) -> Iterable[str]:
        """Every group that has anything stored."""

    def stored(self, group_id: str) -> Mapping[tuple[str, int], StoredOffset]:
        """The committed offsets of a group."""


class Mirror:
    """The mirrored groups of this node."""

    def __init__(
        self,
        store: StoredOffsets,
        topics: Topics,
        client: PulsarClient,
        admin: Admin,
        settings: Settings,
        metrics: GroupMetrics,
    ) -> None:
        self._store = store
        self._topics = topics
        self._client = client
        self._admin = admin
        self._names = Names(settings.pulsar.full_namespace)
        self._metrics = metrics
        pattern = settings.groups.mirror_pattern
        self._pattern = re.compile(pattern) if pattern else None
        self._wanted: dict[GroupTopicPartition, int | None] = {}  # the offset to show; None: no subscription
        self._shown: dict[GroupTopicPartition, int] = {}
        self._failures: dict[GroupTopicPartition, int] = {}
        self._limit = asyncio.Semaphore(_MAX_CONCURRENT)
        self._task: asyncio.Task[None] | None = None
        if self._pattern is not None:
            store.on_stored.append(self._stored)
            store.on_owned.append(self._owned)
            store.on_lost.append(self._lost)

    async def start(self) -> None:
        """Mirror from now on."""
        if self._pattern is not None:
            self._task = asyncio.get_running_loop().create_task(self._keep_mirroring(), name="group mirror")

    async def close(self) -> None:
        """Mirror what is known, if that is quick, and no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            try:
                async with asyncio.timeout(_INTERVAL_SECONDS):
                    await self.flush()
            except TimeoutError:
                _log.warning("! mirror left behind", extra={"partitions": len(self._wanted)})

    async def flush(self) -> None:
        """Bring every subscription up to date."""
        wanted, self._wanted = self._wanted, {}
        await asyncio.gather(*(self._bring(where, offset) for where, offset in wanted.items()))

    async def take_up(self) -> None:
        """Have all stored offsets shown, whatever was shown before; KafkaError where they are not known."""
        await self._store.ready()
        self._owned(list(self._store.groups()))

    async def take_away(self) -> None:
        """Have subscriptions of ours taken away whose offsets are gone; KafkaError where topics cannot be listed."""
        for topic in await self._topics.all():
            for partition in range(topic.partitions):
                full = self._names.partition(topic.name, partition, partitioned=topic.partitioned)
                try:
                    found = await self._admin.subscriptions(full)
                except BridgeError as error:  # gone meanwhile, or forbidden
                    _log.warning("! subscriptions not seen", extra={"topic": full, "reason": str(error)})
                    continue
                for group in (name for name, marks in found.items() if marks == _MARK and self._mirrors(name)):
                    if self._store.coordinates(group) and (topic.name, partition) not in self._store.stored(group):
                        self._wanted.setdefault((group, topic.name, partition), None)

    def _mirrors(self, group: str) -> bool:
        return self._pattern is not None and bool(group) and self._pattern.fullmatch(group) is not None

    def _stored(self, key: Key, offset: StoredOffset | None) -> None:
        if key[0] == "offset" and self._mirrors(key[1]):
            self._wanted[key[1:]] = None if offset is None else offset.offset

    def _owned(self, groups: list[str]) -> None:
        """This node shows these groups' offsets now."""
        for group in filter(self._mirrors, groups):
            for place, offset in self._store.stored(group).items():
                self._wanted.setdefault((group, *place), offset.offset)

    def _lost(self, lost: Callable[[str], bool]) -> None:
        """Another node shows these groups' offsets now."""
        for where in [one for one in (*self._shown, *self._wanted) if lost(one[0])]:
            self._shown.pop(where, None)
            self._wanted.pop(where, None)

    async def _keep_mirroring(self) -> None:
        await _until_done(self.take_up)
        await asyncio.gather(self._keep_flushing(), _until_done(self.take_away))

    async def _keep_flushing(self) -> None:
        while True:
            await asyncio.sleep(_INTERVAL_SECONDS)
            await self.flush()

    async def _bring(self, where: GroupTopicPartition, offset: int | None) -> None:
        if not self._store.coordinates(where[0]) or (offset is not None and self._shown.get(where) == offset):
            return
        try:
            async with self._limit:
                await (self._remove(where) if offset is None else self._show(where, offset))
            self._failures.pop(where, None)
        except (BridgeError, OSError) as error:
            self._failed(where, offset, error)

    def _failed(self, where: GroupTopicPartition, offset: int | None, error: Exception) -> None:
        self._metrics.mirror_errors.inc()
        group, topic, partition = where
        fields = {"group": group, "topic": topic, "partition": partition, "reason": str(error)}
        _log.warning("! offset not mirrored", extra=fields)
        self._failures[where] = self._failures.get(where, 0) + 1
        if self._failures[where] < _MAX_TRIES:
            self._wanted.setdefault(where, offset)
        else:
            del self._failures[where]  # the next commit tries again

    async def _log(self, where: GroupTopicPartition) -> PartitionLog | None:
        """The partition; None if it is gone, and its subscriptions with it."""
        topic = await self._topics.get(where[1])
        if topic is None or where[2] >= topic.partitions:
            return None
        return self._topics.log(topic, where[2])

    async def _show(self, where: GroupTopicPartition, offset: int) -> None:
        partition = await self._log(where)
        if partition is None:
            return
        position = await partition.consumed_before(offset)
        consumer = await self._client.consumer(partition.topic, where[0], permits=1, properties=_MARK)
        try:
            if await self._is_beyond(partition.topic, where, offset, position):  # acknowledgements only go forward
                await consumer.seek(EARLIEST if position is None else position.after)
            elif position is not None:
                await consumer.ack_cumulative(position)
            if self._store.coordinates(where[0]):  # else another node may show a newer one by now
                self._shown[where] = offset
            self._metrics.mirrored.inc()
        finally:
            await consumer.close()

    async def _is_beyond(self, topic: str, where: GroupTopicPartition, offset: int, position: Position | None) -> bool:
        """Whether the subscription is to go back: an operator has reset the group."""
        before = self._shown.get(where)
        if before is not None:
            return offset < before
        acknowledged = await self._admin.acknowledged(topic, where[0])  # wherever another process has left it
        return acknowledged is not None and (position is None or acknowledged > position)

    async def _remove(self, where: GroupTopicPartition) -> None:
        self._shown.pop(where, None)
        partition = await self._log(where)
        if partition is not None:
            consumer = await self._client.consumer(partition.topic, where[0], permits=1)
            await consumer.unsubscribe()


async def _until_done(what: Callable[[], Awaitable[None]]) -> None:
    """Try until Pulsar is there."""
    backoff = Backoff()
    while True:
        try:
            return await what()
        except KafkaError as error:
            _log.info("= mirror waits", extra={"reason": str(error)})
            await asyncio.sleep(backoff.next())
