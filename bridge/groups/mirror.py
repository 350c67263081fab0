"""Mirrors committed offsets to Pulsar subscriptions, so that Pulsar's own tools show the backlog of Kafka's groups.

Every partition that a group whose id matches the setting `groups.mirror_pattern` has committed gets a durable
subscription named after the group, acknowledged cumulatively up to the last entry that lies wholly before the committed
offset. It goes when the offset is deleted or expires, hence with its group.

Of a share group it is the start offset, and what is done beyond it is acknowledged entry by entry: the backlog is what
is not done. The subscription goes with the group's state of the partition.

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
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from logging import DEBUG, WARNING
from typing import Any, Final, NamedTuple
from uuid import UUID

from bridge.config import Settings
from bridge.errors import BridgeError, KafkaError
from bridge.groups.share.state_records import UNINITIALIZED, decode
from bridge.groups.store.records import Key, StoredOffset
from bridge.groups.store.store import GroupStore
from bridge.pulsar.admin import Admin
from bridge.pulsar.client import PulsarClient
from bridge.pulsar.connection import Backoff
from bridge.pulsar.types import EARLIEST, Position
from bridge.runtime.fairness import Place, Places
from bridge.runtime.futures import gathered, loop_time
from bridge.storage.names import Names, is_own_subscription
from bridge.storage.partition import PartitionLog
from bridge.storage.topics.topic import Topic
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

_MOST_SPANS: Final = 100
"""So many stretches of a partition that a share group has done beyond its start are shown: each costs two look-ups."""


class GroupTopicPartition(NamedTuple):
    """What a subscription is for."""

    group: str
    topic: str | UUID
    """Its name; its id for a share group."""
    partition: int

    @property
    def fields(self) -> dict[str, object]:
        """For the log."""
        return {"group": self.group, "topic": str(self.topic), "partition": self.partition}


class Progress(NamedTuple):
    """What a group has done of a partition."""

    offset: int
    """All before it."""
    beyond: tuple[tuple[int, int], ...] = ()
    """What of the rest: offsets, both within, in order."""

    def takes_back(self, before: "Progress") -> bool:
        """Whether something is not done any more that was."""
        left = [(max(first, self.offset), last) for first, last in before.beyond if last >= self.offset]
        return self.offset < before.offset or not all(
            any(begin <= first and last <= end for begin, end in self.beyond) for first, last in left
        )


class _Failure(NamedTuple):
    """How often in a row a position could not be shown, and until when it is left alone."""

    tries: int
    until: float


class Mirror:
    """The mirrored groups of this node."""

    def __init__(
        self,
        store: GroupStore,
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
        self._wanted: dict[GroupTopicPartition, Progress | bytes | None] = {}
        """What to show, or the record of a share group's state; None: no subscription."""
        self._shown: dict[GroupTopicPartition, Progress] = {}
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
                    if self._store.coordinates(group) and not self._has_any(group, topic, partition):
                        self._wanted.setdefault(GroupTopicPartition(group, name, partition), None)
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

    def _has_any(self, group: str, topic: Topic, partition: int) -> bool:
        shares = self._store.known(group).shares
        return (topic.name, partition) in self._store.stored(group) or (topic.id.hex, partition) in shares

    def _stored(self, key: Key, offset: StoredOffset | None) -> None:
        if key[0] == "offset" and self._mirrors(key[1]):
            self._wanted[GroupTopicPartition(*key[1:])] = None if offset is None else Progress(offset.offset)
        elif key[0] == "share" and self._mirrors(key[1]):
            self._want_share(key[1], key[2], key[3])

    def _want_share(self, group: str, topic_id: str, partition: int) -> None:
        """Show a share partition as it is stored; it is read when it is shown, which is less often than it changes."""
        with suppress(ValueError):
            where = GroupTopicPartition(group, UUID(topic_id), partition)
            self._wanted[where] = self._store.known(group).shares.get((topic_id, partition))

    def _owned(self, groups: list[str]) -> None:
        """This node shows these groups' offsets now."""
        for group in filter(self._mirrors, groups):
            for place, offset in self._store.stored(group).items():
                self._wanted.setdefault(GroupTopicPartition(group, *place), Progress(offset.offset))
            for topic_id, partition in self._store.known(group).shares:
                self._want_share(group, topic_id, partition)

    def _lost(self, lost: Callable[[str], bool]) -> None:
        """Another node shows these groups' offsets now."""
        known: tuple[dict[GroupTopicPartition, Any], ...] = self._shown, self._wanted, self._failures
        for one in known:
            for where in [where for where in one if lost(where.group)]:
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

    async def _bring(self, where: GroupTopicPartition, wanted: Progress | bytes | None, place: Place) -> None:
        try:
            async with place:
                if self._store.coordinates(where.group):
                    await self._bring_to(where, wanted)
            self._failures.pop(where, None)
        except (BridgeError, OSError) as error:
            self._failed(where, wanted, error)
        finally:
            del self._running[where]

    async def _bring_to(self, where: GroupTopicPartition, wanted: Progress | bytes | None) -> None:
        if wanted is None:
            return await self._remove(where)
        done = _progress(wanted) if isinstance(wanted, bytes) else wanted
        if done is not None and self._shown.get(where) != done:
            await self._show(where, done)

    def _failed(self, where: GroupTopicPartition, wanted: Progress | bytes | None, error: Exception) -> None:
        self._metrics.mirror_errors.inc()
        if not self._store.coordinates(where.group):  # its new coordinator shows it
            self._failures.pop(where, None)
            return
        tries = self._failures[where].tries + 1 if where in self._failures else 1
        self._failures[where] = _Failure(tries, loop_time() + min(_INTERVAL_SECONDS * 2**tries, _MAX_RETRY_SECONDS))
        self._wanted.setdefault(where, wanted)
        fields = {**where.fields, "reason": str(error) or "no answer in time"}
        # rarer and rarer: it may be so for days
        _log.log(DEBUG if tries & (tries - 1) else WARNING, "! offset not mirrored", extra=fields)

    async def _log(self, where: GroupTopicPartition) -> PartitionLog | None:
        """The partition; None if it is gone, and its subscriptions with it."""
        known = where.topic
        topic = await (self._topics.by_id(known) if isinstance(known, UUID) else self._topics.get(known))
        if topic is None or where.partition >= topic.partitions:
            return None
        return self._topics.log(topic, where.partition)

    async def _show(self, where: GroupTopicPartition, done: Progress) -> None:
        partition = await self._log(where)
        if partition is None:
            return
        position = await partition.consumed_before(done.offset)
        shown = self._shown.get(where)
        consumer = await self._client.consumer(partition.topic, where.group, permits=1, properties=_MARK, waits=False)
        try:
            if await self._is_beyond(partition.topic, where, done, position):  # acknowledgements only go forward
                await consumer.seek(EARLIEST if position is None else position.after)
                shown = None
            elif position is not None:
                await consumer.ack_cumulative(position)
            before = () if shown is None else shown.beyond[:_MOST_SPANS]
            for span in done.beyond[:_MOST_SPANS]:
                entries = () if span in before else await partition.entries_within(*span)
                if entries:
                    await consumer.ack(*entries)
            if self._store.coordinates(where.group):  # else another node may show a newer one by now
                self._shown[where] = done
            self._metrics.mirrored.inc()
        finally:
            await consumer.close()

    async def _is_beyond(self, topic: str, where: GroupTopicPartition, done: Progress, position: Position | None
                         ) -> bool:  # fmt: skip
        """Whether the subscription is to go back: an operator has reset the group."""
        before = self._shown.get(where)
        if before is not None:
            return done.takes_back(before)
        acknowledged = await self._admin.acknowledged(topic, where.group)  # wherever another process has left it
        if acknowledged is None:
            return False
        # which entries of a share group were acknowledged beyond that, is not asked
        return isinstance(where.topic, UUID) or position is None or acknowledged > position

    async def _remove(self, where: GroupTopicPartition) -> None:
        self._shown.pop(where, None)
        partition = await self._log(where)
        if partition is not None:
            consumer = await self._client.consumer(partition.topic, where.group, permits=1, waits=False)
            try:
                await consumer.unsubscribe()
            finally:
                await consumer.close()


def _progress(stored: bytes) -> Progress | None:
    """What a share group has done by the record of its state; None: its leader has not said yet where it begins."""
    state = decode(stored)
    return None if state.start == UNINITIALIZED else Progress(state.start, state.done_spans)


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
