"""How far groups are behind, for the metrics and the status page, on whichever node the partitions are; and how the
groups that are shown stand: their members, and their state.

Where a partition ends is known from memory while a reader of this node is at its tail. Of all others Pulsar is asked
in the background, once for all groups. What the groups had committed when it was asked is kept with the answer: a lag
is of one moment, never the difference between an old end and a new commit. What is not known is None, never 0.

The numbers are made on the event loop every few seconds, for a bounded number of groups; a scrape shows the latest.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from bridge.groups.store.records import Key, StoredOffset
from bridge.groups.store.store import GroupStore
from bridge.groups.store.visible import TopicPartition
from bridge.groups.summary import OFFSETS, GroupSummary, LoadedGroups
from bridge.runtime.futures import in_turns, loop_time, yield_turn
from bridge.storage.topics.closed_logs import AskedEnd, ClosedLogs, Published
from bridge.storage.topics.topics import Topics
from bridge.telemetry.metrics import GroupMetrics, GroupRow, Lag, Lags

_REFRESH_SECONDS: Final = 5.0
MAX_PARTITIONS: Final = 4_000
"""Of all groups together, however many they read: four series each, of some 90 bytes."""
_END_LASTS: Final = 150.0
"""An end that was asked longer ago is not known any more."""
_BEFORE_LASTS: Final = 75.0
"""And what was known before it is not shown for longer than this, while the times of records are asked."""
_RECORD_LASTS: Final = 600.0
"""After this long a record is looked for again: Pulsar may have deleted it."""
_LEAST_AGE: Final = 0.001
"""Of a record that is there. Clocks differ, and Pulsar's times are in ms."""


@dataclass(slots=True)
class _End:
    """Where a partition ended at a moment, and what groups had committed then."""

    end: int | None
    """None: there is no such partition."""
    at: float
    """Loop time."""
    wall: float
    committed: dict[str, int] = field(default_factory=dict)
    asked: AskedEnd | None = None
    before: "_End | None" = None
    """The one before it: shown until the times of this one's records are known."""


class _Record(NamedTuple):
    """When a record was published, and when (Unix time) that was asked."""

    published: Published | None
    wall: float


_Unread: TypeAlias = tuple[str, int, int]
"""The first offset of a topic's partition that a group has not read."""


@dataclass(slots=True)
class _Wanted:
    """What one look at all groups needs to know."""

    readers: dict[TopicPartition, list[str]] = field(default_factory=dict)
    """The groups of each partition."""
    ends: dict[TopicPartition, None] = field(default_factory=dict)
    """Those that are not known from memory."""
    records: dict[_Unread, bool] = field(default_factory=dict)
    """Those whose times are shown, and whether they must be asked."""


class LagTable:
    """The lag of the groups that committed last."""

    def __init__(
        self,
        store: GroupStore,
        topics: Topics,
        logs: ClosedLogs,
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
        self._logs = logs
        self._metrics = metrics
        self._max_groups = max_groups
        self._wall = wall
        self._in_memory = LoadedGroups({}, {})
        self._recent: dict[str, None] = {}  # the group that committed last stands last
        self._readers: dict[TopicPartition, list[str]] = {}
        self._ends: dict[TopicPartition, _End] = {}
        self._records: dict[_Unread, _Record] = {}
        self._task: asyncio.Task[None] | None = None
        if max_groups:
            store.on_stored.append(self._stored)

    async def start(self, in_memory: LoadedGroups) -> None:
        """Make the numbers from now on. `in_memory`: the groups with their members."""
        self._in_memory = in_memory
        self._task = asyncio.get_running_loop().create_task(self._keep_refreshing(), name="group lag")

    async def close(self) -> None:
        """Make no more, and ask nothing."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._logs.end_polls.stop(self._ask_end)
        await self._logs.time_polls.stop(self._ask_time)

    async def refresh(self) -> None:
        """Make the numbers now, in turns of the event loop, and have asked what is not known."""
        self._fill_up()
        lags: list[Lag] = []
        wanted = _Wanted()
        taken = left_out = 0
        for group_id in reversed(list(self._recent)):
            offsets = list(self._store.stored(group_id).items()) if self._store.coordinates(group_id) else []
            if not offsets:
                self._recent.pop(group_id, None)
            shown = offsets[: MAX_PARTITIONS - taken]
            taken += len(shown)
            left_out += len(offsets) - len(shown)
            async for where, stored in in_turns(shown):
                wanted.readers.setdefault(where, []).append(group_id)
                lag = self.lag(group_id, where, stored.offset, wanted)
                if lag is not None:
                    lags.append(lag)
            await yield_turn()
        self._ask(wanted)
        groups = self._store.group_count()
        rows, states, members = await self._standing()
        self._metrics.show_lags(
            self._namespace,
            Lags(lags, groups, max(0, groups - len(rows)), left_out, rows, states, members),
            MAX_PARTITIONS,
        )

    async def _standing(self) -> tuple[list[GroupRow], dict[tuple[str, str], int], int]:
        """The groups that are shown, and of all in memory how many are in each state, and have how many members.

        Shown are those with a lag. Where they leave room, others with members are: share groups, for example.
        """
        rows = [self._row(self._in_memory.summary(group_id)) for group_id in self._recent]
        shown = set(self._recent)
        states: dict[tuple[str, str], int] = {}
        members = 0
        async for group_id in in_turns(list(self._in_memory.names())):
            group = self._in_memory.summary(group_id)
            if group.protocol == OFFSETS:  # it has gone meanwhile
                continue
            states[group.protocol, group.state] = states.get((group.protocol, group.state), 0) + 1
            members += group.members
            if group.members and group_id not in shown and len(rows) < self._max_groups:
                rows.append(self._row(group))
        return rows, states, members

    def _row(self, group: GroupSummary) -> GroupRow:
        return GroupRow(group.id, group.protocol, group.state, group.members, self._namespace)

    def lag(self, group_id: str, where: TopicPartition, offset: int, wanted: _Wanted | None = None) -> Lag | None:
        """How far a group is behind that has committed this offset, by what is known; None: there is no such partition.

        What memory does not have is put into `wanted`.
        """
        known = self._followed(group_id, where, offset)
        if known is None:
            known = self._ends.get(where)
            if wanted is not None:
                wanted.ends[where] = None
        lag = Lag(group_id, self._prefix + where[0], where[1], offset, None, None, None, self._namespace)
        if known is None or loop_time() - known.at > _END_LASTS:
            return lag
        if known.end is None:
            return None
        newest, record = self._at_its_time(lag, where, known, known.end)
        if wanted is not None and record is not None:
            wanted.records[record] = wanted.records.get(record, False) or self._must_ask(record, newest)
        before = known.before
        if newest.seconds is None and before is not None and before.end is not None:
            older, record = self._at_its_time(lag, where, before, before.end)
            if older.seconds is not None and loop_time() - before.at <= _BEFORE_LASTS:
                if wanted is not None and record is not None:
                    wanted.records.setdefault(record, False)
                return older
        return newest

    def _at_its_time(self, lag: Lag, where: TopicPartition, known: _End, end: int) -> tuple[Lag, _Unread | None]:
        """How far the group was behind when the end was asked, and the record whose age says so."""
        committed = known.committed.get(lag.group)
        if committed is None:  # the end was not asked for this group
            if lag.committed > end:
                return lag._replace(end=end), None
            committed = lag.committed
        lag = lag._replace(end=end, records=end - committed)
        if committed >= end:  # as Kafka's tool has it: less than none, where more is committed than there is
            return lag._replace(seconds=0.0), None
        record = (*where, committed)
        published = self._published(record, known)
        if published is None:
            return lag, record
        now = self._wall() if committed == lag.committed else known.wall
        return lag._replace(seconds=max(_LEAST_AGE, now - published / 1000)), record

    # ---- what is known -----------------------------------------------------------------------------------------------

    def _followed(self, group_id: str, where: TopicPartition, offset: int) -> _End | None:
        """The end, where a reader of this node is at the tail: it gets all that is written, by other programs, too.

        It may be a moment late: what lies behind it must be asked.
        """
        opened = self._topics.opened(*where)
        if opened is None or not opened.is_current or opened.known_end is None or offset > opened.known_end:
            return None
        known = self._ends.setdefault(where, _End(None, 0, 0))
        known.end, known.at, known.wall = opened.known_end, loop_time(), self._wall()
        known.before = None
        known.committed[group_id] = offset  # it stays until Pulsar is asked, where the reader is closed
        return known

    def _published(self, record: _Unread, known: _End) -> int | None:
        """When a record was published (ms)."""
        topic, partition, offset = record
        opened = self._topics.opened(topic, partition)
        published = None if opened is None else opened.published_at(offset)
        if published is not None:
            return published
        if known.asked is not None and known.asked.last is not None and known.asked.last.holds(offset):
            return known.asked.last.at
        found = self._records.get(record)
        return None if found is None or found.published is None else found.published.at

    def _must_ask(self, record: _Unread, lag: Lag) -> bool:
        found = self._records.get(record)
        return lag.seconds is None if found is None else self._wall() - found.wall > _RECORD_LASTS

    def _stored(self, key: Key, offset: StoredOffset | None) -> None:
        if key[0] == "offset" and offset is not None:
            self._recent.pop(key[1], None)
            self._recent[key[1]] = None
            if len(self._recent) > self._max_groups:
                self._recent.pop(next(iter(self._recent)))

    def _fill_up(self) -> None:
        """Show those, too, that committed before this node had them: one that is stuck commits nothing any more."""
        room = min(self._max_groups, self._store.group_count()) - len(self._recent)
        if room > 0:
            older = [group_id for group_id in self._store.groups() if group_id not in self._recent][:room]
            self._recent = dict.fromkeys(older) | self._recent

    # ---- what is asked -----------------------------------------------------------------------------------------------

    def _ask(self, wanted: _Wanted) -> None:
        """Have asked what is not known, and forget what is not shown."""
        self._readers = wanted.readers
        self._ends = {where: end for where, end in self._ends.items() if where in wanted.readers}
        self._records = {record: found for record, found in self._records.items() if record in wanted.records}
        self._logs.end_polls.want(self._ask_end, wanted.ends)
        self._logs.time_polls.want(self._ask_time, [record for record, must_ask in wanted.records.items() if must_ask])

    async def _ask_end(self, where: TopicPartition) -> None:
        stored, before = self._store.stored, self._ends.get(where)
        committed = {
            group: stored(group)[where].offset for group in self._readers.get(where, ()) if where in stored(group)
        }
        at, wall = loop_time(), self._wall()
        asked = await self._logs.end(*where, None if before is None else before.asked)
        if where in self._readers:
            self._ends[where] = end = _End(None if asked is None else asked.offset, at, wall, committed, asked)
            if before is not None and before.end is not None and end.end is not None and end.end >= before.end:
                before.before, end.before = None, before

    async def _ask_time(self, record: _Unread) -> None:
        self._records[record] = _Record(await self._logs.published(*record), self._wall())

    async def _keep_refreshing(self) -> None:
        while True:
            await asyncio.sleep(_REFRESH_SECONDS)
            await self.refresh()
