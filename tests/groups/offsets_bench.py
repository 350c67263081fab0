"""Committed offsets and lag on a store and a coordinator that are stand-ins."""

import asyncio
import uuid
from collections.abc import Awaitable, Collection, Iterable, Mapping
from types import SimpleNamespace
from typing import Any, cast

from bridge.config import GroupSettings
from bridge.errors import KafkaError
from bridge.groups.coordinator import GroupCoordinator
from bridge.groups.lag import LagTable
from bridge.groups.offsets import Committer, Offsets
from bridge.groups.retention import OffsetRetention
from bridge.groups.store.records import Key, StoredGroup, StoredOffset, decode_offset, decode_pending
from bridge.groups.store.store import GroupStore
from bridge.groups.store.stored_groups import put_offset, put_pending
from bridge.groups.store.under_way import WritesUnderWay
from bridge.groups.store.visible import TopicPartition, visible_offsets
from bridge.kafka.error_codes import ErrorCode
from bridge.runtime.polling import Ask, Poller
from bridge.runtime.polling import Key as Question
from bridge.storage.topics.closed_logs import AskedEnd, ClosedLogs, Published
from bridge.storage.topics.topic import NO_ID
from bridge.storage.visibility import Transaction
from bridge.telemetry.metrics import GroupMetrics
from tests.groups.fake_outcomes import FakeOutcomes

MINUTE = 60.0
WEEK = 10_080 * MINUTE
NO_CLIENT = OffsetRetention(exists=False, members=0, consumer=False, subscribed=None, empty_since_ms=0)


class MemoryStore(GroupStore):
    """Stores in memory; `gate` holds writes back."""

    outcomes: FakeOutcomes

    def __init__(self) -> None:
        self.held: dict[str, StoredGroup] = {}
        self.outcomes = FakeOutcomes()
        self.under_way = WritesUnderWay()
        self.gate: asyncio.Future[None] | None = None
        self.refused: set[str] = set()
        """Groups of which nothing is stored."""
        self.hanging: set[str] = set()
        """Groups of whose writes nothing is heard."""
        self.elsewhere: set[str] = set()
        """Groups whose slot is not owned."""
        self.on_stored, self.on_owned, self.on_pending = [], [], []
        self.writes: list[list[Key]] = []

    async def load(self, group_id: str, *, confirmed: bool = True) -> StoredGroup:
        if group_id in self.elsewhere:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return self.held.get(group_id) or StoredGroup()

    def groups(self) -> list[str]:
        return list(self.held)

    def group_count(self) -> int:
        return len(self.held)

    def coordinates(self, group_id: str) -> bool:
        return group_id in self.held and group_id not in self.elsewhere

    def stored(self, group_id: str) -> Mapping[tuple[str, int], StoredOffset]:
        return visible_offsets(self.known(group_id), self.outcomes.outcome)

    def known(self, group_id: str) -> StoredGroup:
        return self.held.get(group_id) or StoredGroup()

    def slot_of(self, group_id: str) -> int:
        return 0

    def submit(self, group_id: str, records: Mapping[Key, bytes | None]) -> Awaitable[None]:
        self.writes.append(list(records))
        writing = asyncio.ensure_future(self._submit(group_id, records))
        self.under_way.add(records, writing)
        return writing

    async def _submit(self, group_id: str, records: Mapping[Key, bytes | None]) -> None:
        if group_id in self.refused | self.elsewhere:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if group_id in self.hanging:
            await asyncio.get_running_loop().create_future()
        if self.gate is not None:
            await self.gate
        for key, value in records.items():
            group = self.held.setdefault(key[1], StoredGroup())
            offset = None
            if key[0] == "pending":
                put_pending(group, key, None if value is None else decode_pending(value, key[4]))
            else:
                assert key[0] == "offset"
                offset = None if value is None else decode_offset(value)
                if offset is None:
                    group.offsets.pop(key[2:], None)
                else:
                    put_offset(group, key[2:], offset)
            for pending in self.on_pending if key[2:4] in group.pendings else ():
                pending(key[1], key[2:4])
            for callback in self.on_stored:
                callback(key, offset)
            if not group:
                del self.held[key[1]]


class Members(GroupCoordinator):
    """Says of each group what the test wants."""

    def __init__(self) -> None:
        self.holds: dict[str, OffsetRetention] = {}
        self.refusal: ErrorCode | None = None
        self.refusal_in_transaction: ErrorCode | None = None
        self.forgotten: list[str] = []
        self.looked_at: list[str] = []

    async def check_commit(
        self,
        group_id: str,
        member_id: str,
        group_instance_id: str | None,
        generation: int,
        version: int,
        partitions: Collection[TopicPartition] = (),
    ) -> None:
        if self.refusal is not None:
            raise KafkaError(self.refusal)

    async def check_commit_in_transaction(
        self,
        group_id: str,
        member_id: str,
        group_instance_id: str | None,
        generation: int,
        partitions: Collection[TopicPartition] = (),
    ) -> None:
        if self.refusal_in_transaction is not None:
            raise KafkaError(self.refusal_in_transaction)

    async def retention(self, group_id: str) -> OffsetRetention:
        return self.holds.get(group_id, NO_CLIENT)

    async def forget(self, group_id: str) -> None:
        self.forgotten.append(group_id)

    async def forget_deleted_topics(self, group_id: str) -> None:
        self.looked_at.append(group_id)


class FewTopics:
    """`t` and `u` with two partitions; of `t` 0 the end and a record's time are known."""

    def __init__(self) -> None:
        self.on_removed: list[Any] = []
        self.ids = {"t": uuid.UUID(int=7), "u": NO_ID}
        self.follows, self.end = True, 10
        """Whether a reader of this node is at the tail of `t` 0, and where that ends."""
        self.answers = asyncio.Event()
        """Set: Pulsar says what it knows of `down`."""
        self.answers.set()

    def cached(self, name: str) -> Any:
        return SimpleNamespace(partitions=2, id=self.ids[name]) if name in self.ids else None

    async def get(self, name: str) -> Any:
        if name == "down":
            await self.answers.wait()
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        if name == "/":
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        return self.cached(name)

    def opened(self, name: str, partition: int) -> Any:
        if (name, partition) != ("t", 0) or not self.follows:
            return None
        return SimpleNamespace(
            known_end=self.end, is_current=True, published_at=lambda offset: 1_000_000 if offset == 4 else None
        )


class Asked(ClosedLogs):
    """Pulsar, as far as lag asks it: what a test puts here it tells, when the test lets it."""

    end_polls: "Questions"
    time_polls: "Questions"

    def __init__(self) -> None:
        self.end_polls, self.time_polls = Questions(), Questions()
        self.ends: dict[tuple[str, int], AskedEnd | None] = {}
        self.times: dict[tuple[str, int, int], Published | None] = {}

    async def end(self, topic: str, partition: int, before: AskedEnd | None = None) -> AskedEnd | None:
        return self.ends[topic, partition]

    async def published(self, topic: str, partition: int, offset: int) -> Published | None:
        return self.times[topic, partition, offset]


class Questions(Poller):
    """Asks when the test says so."""

    def __init__(self) -> None:
        self.wanted: dict[Ask, list[Question]] = {}

    def want(self, ask: Ask, keys: Iterable[Question]) -> None:
        self.wanted[ask] = list(keys)

    async def stop(self, ask: Ask) -> None:
        self.wanted.pop(ask, None)

    def keys(self) -> list[Question]:
        return [key for keys in self.wanted.values() for key in keys]

    async def answer(self) -> None:
        """Ask all that is wanted."""
        for ask, keys in self.wanted.items():
            for key in keys:
                await ask(key)


class Bench:
    def __init__(self) -> None:
        self.store, self.members, self.metrics, self.now = MemoryStore(), Members(), GroupMetrics(), 1_000_000.0
        self.topics = FewTopics()
        topics = cast(Any, self.topics)
        self.offsets = Offsets(self.store, self.members, topics, GroupSettings(), self.metrics, wall=lambda: self.now)
        self.asked = Asked()
        self.lag = self.table()

    def table(self, namespace: str = "") -> LagTable:
        topics = cast(Any, self.topics)
        return LagTable(self.store, topics, self.asked, self.metrics, 2, wall=lambda: 1_004.0, namespace=namespace)

    async def commit(self, group: str, *where: tuple[str, int], **fields: Any) -> dict[tuple[str, int], ErrorCode]:
        return await (await self.offsets.commit(group, Committer(), {one: StoredOffset(7, **fields) for one in where}))

    async def commit_in(
        self,
        transaction: Transaction,
        group: str,
        *where: tuple[str, int],
        offset: int = 9,
        error: ErrorCode = ErrorCode.NONE,
    ) -> dict[tuple[str, int], ErrorCode]:
        """Commit in a transaction; `error`: what the transaction says to it."""
        wanted = {one: StoredOffset(offset) for one in where}
        return await (await self.offsets.commit_in_transaction(group, Committer(), transaction, wanted, lambda: error))

    async def seen(self, group: str, *, stable: bool = False) -> dict[tuple[str, int], int | None]:
        """None: it may change yet."""
        fetched = await self.offsets.fetch(group, require_stable=stable)
        return {where: None if stored is None else stored.offset for where, stored in fetched.items()}
