"""Mirrors committed offsets to Pulsar subscriptions, so that Pulsar's own tools show the backlog of Kafka's groups.

Every partition that a group whose id matches the setting `groups.mirror_pattern` has committed gets a durable
subscription named after the group, acknowledged cumulatively up to the last entry that lies wholly before the committed
offset. It goes when the offset is deleted or expires, hence with its group.

A subscription holds what it has not acknowledged, beyond all retention: a group that stops committing holds data until
it expires. And nothing else may use a subscription of that name: a Pulsar consumer there takes the place of the mirror.

The mirror lags: each partition is brought up to date at most every few seconds, with the latest offset. What Pulsar
refuses, or leaves waiting, is tried again later and later, and holds up no other position; a mirror that fails delays
no commit. What a killed process leaves behind, the next one repairs: it shows all offsets again, and deletes the
subscriptions of its mark that have none.

Groups whose names Pulsar takes for subscriptions of its own are not mirrored (`storage.names.is_own_subscription`).
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from logging import DEBUG, WARNING
from typing import Any, Final, NamedTuple, Protocol

from bridge.config import Settings
from bridge.errors import BridgeError, KafkaError
from bridge.groups.store.records import Key, StoredOffset
from bridge.pulsar.admin import Admin
from bridge.pulsar.client import PulsarClient
from bridge.pulsar.connection import Backoff
from bridge.pulsar.types import EARLIEST, Position
from bridge.runtime.fairness import Place, Places
from bridge.runtime.futures import gathered, loop_time
from bridge.storage.names import Names, is_own_subscription
from bridge.storage.partition import PartitionLog
from bridge.storage.topics.topics import Topics
from bridge.telemetry import log
from bridge.telemetry.metrics import GroupMetrics

_log = log.get("groups.mirror")

_INTERVAL_SECONDS: Final = 2.0
_MAX_CONCURRENT: Final = 4
_MAX_CONCURRENT_RETRIES: Final = 2
_PLACE_SECONDS: Final = 0.1
_TRY_SECONDS: Final = 30.0
_MAX_SLOW: Final = 64
_MAX_RETRY_SECONDS: Final = 60.0
_MAX_TOLD: Final = 100
_MARK: Final = {"kafka.group": "mirror"}
"""The property of our subscriptions, that others of a group's name are left alone."""

GroupTopicPartition = tuple[str, str, int]  # group, topic, partition


class _Failure(NamedTuple):
    """How often in a row a position could not be shown, and until when it is left alone."""

    tries: int
    until: float


class StoredOffsets(Protocol):
    """The committed offsets that are mirrored (`store.GroupStore`)."""

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
        self._failures: dict[GroupTopicPartition, _Failure] = {}
        self._running: dict[GroupTopicPartition, asyncio.Task[None]] = {}
        self._places = _places(_MAX_CONCURRENT)
        self._retry_places = _places(_MAX_CONCURRENT_RETRIES)
        self._told: set[str] = set()  # groups that are not mirrored, though the pattern is theirs
        self._tasks: list[asyncio.Task[None]] = []
        if self._pattern is not None:
            store.on_stored.append(self._stored)
            store.on_owned.append(self._owned)
            store.on_lost.append(self._lost)

    async def start(self) -> None:
        """Mirror from now on."""
        if self._pattern is not None:
            works = map(self._keep_mirroring, (self._mirror_new, self._retry))
            create_task = asyncio.get_running_loop().create_task
            self._tasks = [create_task(work, name="group mirror") for work in (*works, _until_done(self.take_away))]

    async def close(self) -> None:
        """Mirror what is known, if that is quick, and no more."""
        if not self._tasks:
            return
        await _cancelled(self._tasks)
        try:
            async with asyncio.timeout(_INTERVAL_SECONDS):
                await self.flush()
        except TimeoutError:
            _log.warning("! mirror left behind", extra={"partitions": len(self._wanted.keys() | self._running.keys())})
        await _cancelled(self._running.values())

    async def flush(self) -> None:
        """Bring every subscription up to date, but for those that have failed before."""
        await self._mirror_new()
        while self._running:
            await asyncio.wait(list(self._running.values()))

    async def take_away(self) -> None:
        """Have subscriptions of ours taken away whose offsets are gone; KafkaError where offsets or topics are not
        known."""
        await self._store.ready()
        await gathered(map(self._take_away, await self._topics.names()))

    async def _take_away(self, name: str) -> None:
        try:
            topic = await self._topics.get(name)
            if topic is None:
                return
            for partition in range(topic.partitions):
                full = self._names.partition(name, partition, partitioned=topic.partitioned)
                async with await self._retry_places.take():
                    found = await self._admin.subscriptions(full)
                for group in (group for group, marks in found.items() if marks == _MARK and self._mirrors(group)):
                    if self._store.coordinates(group) and (name, partition) not in self._store.stored(group):
                        self._wanted.setdefault((group, name, partition), None)
        except (BridgeError, OSError) as error:  # gone meanwhile, or forbidden
            _log.warning("! subscriptions not seen", extra={"topic": name, "reason": str(error)})

    def _mirrors(self, group: str) -> bool:
        if self._pattern is None or not group or self._pattern.fullmatch(group) is None:
            return False
        if not is_own_subscription(group):
            return True
        if group not in self._told and len(self._told) < _MAX_TOLD:
            self._told.add(group)
            _log.warning("! group not mirrored", extra={"group": group, "reason": "Pulsar keeps this name for itself"})
        return False

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
        known: tuple[dict[GroupTopicPartition, Any], ...] = self._shown, self._wanted, self._failures
        for one in known:
            for where in [where for where in one if lost(where[0])]:
                del one[where]

    async def _keep_mirroring(self, bring: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(_INTERVAL_SECONDS)
            await bring()

    async def _mirror_new(self) -> None:
        await self._begin([one for one in self._wanted if one not in self._failures], self._places)

    async def _retry(self) -> None:
        now = loop_time()
        await self._begin([one for one, failed in self._failures.items() if failed.until <= now], self._retry_places)

    async def _begin(self, due: list[GroupTopicPartition], places: Places) -> None:
        """Begin with each as soon as there is a place; what hangs is not waited for."""
        for where in due:
            place = await places.take()
            if where in self._running or where not in self._wanted:
                async with place:
                    continue
            work = self._bring(where, self._wanted.pop(where), place)
            self._running[where] = asyncio.get_running_loop().create_task(work, name="mirror a position")

    async def _bring(self, where: GroupTopicPartition, offset: int | None, place: Place) -> None:
        try:
            async with place:
                if self._store.coordinates(where[0]) and (offset is None or self._shown.get(where) != offset):
                    await (self._remove(where) if offset is None else self._show(where, offset))
            self._failures.pop(where, None)
        except (BridgeError, OSError) as error:
            self._failed(where, offset, error)
        finally:
            del self._running[where]

    def _failed(self, where: GroupTopicPartition, offset: int | None, error: Exception) -> None:
        self._metrics.mirror_errors.inc()
        if not self._store.coordinates(where[0]):  # its new coordinator shows it
            self._failures.pop(where, None)
            return
        tries = self._failures[where].tries + 1 if where in self._failures else 1
        self._failures[where] = _Failure(tries, loop_time() + min(_INTERVAL_SECONDS * 2**tries, _MAX_RETRY_SECONDS))
        self._wanted.setdefault(where, offset)
        group, topic, partition = where
        fields = {"group": group, "topic": topic, "partition": partition, "reason": str(error) or "no answer in time"}
        # rarer and rarer: it may be so for days
        _log.log(DEBUG if tries & (tries - 1) else WARNING, "! offset not mirrored", extra=fields)

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
        consumer = await self._client.consumer(partition.topic, where[0], permits=1, properties=_MARK, waits=False)
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
            consumer = await self._client.consumer(partition.topic, where[0], permits=1, waits=False)
            try:
                await consumer.unsubscribe()
            finally:
                await consumer.close()


def _places(count: int) -> Places:
    return Places(count, seconds=_PLACE_SECONDS, most_seconds=_TRY_SECONDS, most_slow=_MAX_SLOW)


async def _cancelled(tasks: Iterable["asyncio.Task[None]"]) -> None:
    ending = list(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)


async def _until_done(what: Callable[[], Awaitable[None]]) -> None:
    """Try until Pulsar is there."""
    backoff = Backoff()
    while True:
        try:
            return await what()
        except KafkaError as error:
            _log.info("= mirror waits", extra={"reason": str(error)})
            await asyncio.sleep(backoff.next())
