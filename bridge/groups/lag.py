"""How far groups are behind, for the metrics: from memory alone, for a bounded number of groups.

Shown are the groups that committed last, and of each the partitions that clients of this node use: of the others Pulsar
would have to be asked. The numbers are made on the event loop every few seconds; a scrape shows the latest.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from bridge.futures import in_turns, yield_turn
from bridge.groups.offsets import TopicPartition
from bridge.groups.store.records import Key, StoredOffset
from bridge.metrics import GroupMetrics, Lag, Lags
from bridge.storage.topics.topics import Topics

_REFRESH_SECONDS: Final = 5.0
MAX_PARTITIONS: Final = 4_000
"""Of all groups together, however many they read: three series each, of some 90 bytes."""


class CommittedOffsets(Protocol):
    """What is asked of the store."""

    on_stored: list[Callable[[Key, StoredOffset | None], None]]
    on_owned: list[Callable[[list[str]], None]]

    def coordinates(self, group_id: str) -> bool:
        """Whether this node has the group."""

    def group_count(self) -> int:
        """The groups that this node coordinates."""

    def stored(self, group_id: str) -> Mapping[TopicPartition, StoredOffset]:
        """The committed offsets of a group in memory."""


class LagTable:
    """The lag of the groups that committed last."""

    def __init__(
        self,
        store: CommittedOffsets,
        topics: Topics,
        metrics: GroupMetrics,
        max_groups: int,
        wall: Callable[[], float] = time.time,
        namespace: str = "",
    ) -> None:
        """`namespace`: shown before the topics' names, where those of others are shown, too."""
        self._store = store
        self._namespace = namespace
        self._prefix = namespace and namespace + "/"
        self._topics = topics
        self._metrics = metrics
        self._max_groups = max_groups
        self._wall = wall
        self._recent: dict[str, None] = {}  # the group that committed last stands last
        self._task: asyncio.Task[None] | None = None
        if max_groups:
            store.on_stored.append(self._stored)
            store.on_owned.append(self._owned)

    async def start(self) -> None:
        """Make the numbers from now on."""
        self._task = asyncio.get_running_loop().create_task(self._keep_refreshing(), name="group lag")

    async def close(self) -> None:
        """Make no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def refresh(self) -> None:
        """Make the numbers now, in turns of the event loop."""
        lags: list[Lag] = []
        now, left_out = self._wall(), 0
        for group_id in reversed(list(self._recent)):
            offsets = list(self._store.stored(group_id).items()) if self._store.coordinates(group_id) else []
            if not offsets:
                self._recent.pop(group_id, None)
            shown = offsets[: MAX_PARTITIONS - len(lags)]
            left_out += len(offsets) - len(shown)
            async for (topic, partition), stored in in_turns(shown):
                lags.append(self._lag(group_id, topic, partition, stored.offset, now))
            await yield_turn()
        groups = self._store.group_count()
        self._metrics.show_lags(
            self._namespace, Lags(lags, groups, max(0, groups - len(self._recent)), left_out), MAX_PARTITIONS
        )

    def _lag(self, group_id: str, topic: str, partition: int, offset: int, now: float) -> Lag:
        log = self._topics.opened(topic, partition)
        topic = self._prefix + topic
        end = None if log is None else log.known_end
        if log is None or end is None:
            return Lag(group_id, topic, partition, offset, None, None)
        records = max(0, end - offset)
        seconds = 0.0
        if records:
            published = log.published_at(offset)
            if published is None:
                return Lag(group_id, topic, partition, offset, records, None)
            seconds = max(0.0, now - published / 1000)
        return Lag(group_id, topic, partition, offset, records, seconds)

    def _stored(self, key: Key, offset: StoredOffset | None) -> None:
        if key[0] == "offset" and offset is not None:
            self._recent.pop(key[1], None)
            self._recent[key[1]] = None
            if len(self._recent) > self._max_groups:
                self._recent.pop(next(iter(self._recent)))

    def _owned(self, group_ids: list[str]) -> None:
        """What was committed before this node had these groups: one that is stuck commits nothing any more."""
        room = self._max_groups - len(self._recent)
        older = [group_id for group_id in group_ids if group_id not in self._recent][: max(room, 0)]
        self._recent = dict.fromkeys(older) | self._recent

    async def _keep_refreshing(self) -> None:
        while True:
            await asyncio.sleep(_REFRESH_SECONDS)
            await self.refresh()
