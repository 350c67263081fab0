"""Members of both protocols in one group, on a coordinator in memory; they behave as real clients do."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Any
from uuid import UUID

from bridge.config import GroupSettings
from bridge.errors import KafkaError
from bridge.groups.classic.events import Join, Joined, Leave, Sync, Synced
from bridge.groups.coordinator import GroupCoordinator
from bridge.groups.epochs.group import MemberHeartbeat
from bridge.kafka import consumer_protocol
from bridge.kafka.consumer_protocol import Partitions, Subscription
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import encode
from bridge.telemetry.metrics import GroupMetrics
from tests.groups.clock import FakeClock, settle
from tests.groups.fake_topics import FakeTopics
from tests.groups.store.fake_store import FakeStore

Owned = frozenset[tuple[str, int]]
SESSION_MS, REBALANCE_MS = 10_000, 20_000
_SUBSCRIPTION = 1


def by_topic(partitions: Owned) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        found.setdefault(topic, []).append(number)
    return found


class Group:
    """One group, its coordinator, and all members that were ever made."""

    def __init__(self, policy: str = "bidirectional", **partitions: int) -> None:
        self.policy = policy
        self.store = FakeStore()
        self.topics = FakeTopics(**(partitions or {"t": 6}))
        self.clock = FakeClock()
        self.members: list[ClassicClient | ConsumerClient] = []
        self.groups = self._started()

    def _started(self) -> GroupCoordinator:
        settings = GroupSettings(consumer_migration_policy=self.policy)
        return GroupCoordinator(self.store, settings, GroupMetrics(), self.topics, self.clock, wall=lambda: 77.0)

    async def restart(self) -> None:
        """The next process on the same store."""
        self.groups.stop()
        await settle()
        self.store.on_lost.clear()
        self.store.on_owned.clear()
        self.groups = self._started()
        self.groups.start()

    @property
    def names(self) -> dict[UUID, str]:
        return {topic.id: name for name, topic in self.topics.here.items()}

    @property
    def partitions(self) -> Owned:
        return frozenset((name, number) for name, one in self.topics.here.items() for number in range(one.partitions))

    @property
    def living(self) -> list[ClassicClient | ConsumerClient]:
        return [one for one in self.members if one.lives]

    def add(self, kind: str, **options: Any) -> ClassicClient | ConsumerClient:
        made = ConsumerClient(self, **options) if kind == "consumer" else ClassicClient(self, kind, **options)
        self.members.append(made)
        return made

    async def turn(self, seconds: float = 1.0) -> None:
        """Each member does what is next; then time passes. No partition is ever two members'."""
        for member in self.living:
            await member.step()
            self.check()
        await self.clock.advance(seconds)
        self.check()

    def check(self) -> None:
        owned = [one for member in self.living for one in member.owned]
        assert len(owned) == len(set(owned)), sorted((one.name, sorted(one.owned)) for one in self.living)

    async def rest(self, turns: int = 80) -> None:
        """Until all partitions are owned, and no member has anything to do."""
        calm = 0
        for _ in range(turns):
            await self.turn()
            content = all(one.is_content for one in self.living) and self.owned() == self.partitions
            calm = calm + 1 if content else 0
            if calm > 2:  # each has had the answer to a heartbeat since
                return
        raise AssertionError([(one.name, one.is_content, sorted(one.owned)) for one in self.living])

    def owned(self) -> Owned:
        return frozenset().union(*(one.owned for one in self.living))

    async def is_classic(self) -> bool:
        return await self.groups.classic_group("g") is not None


class ClassicClient:
    """A member of the classic protocol, eager or cooperative; as the leader it deals partitions out in turn."""

    def __init__(self, group: Group, kind: str, instance: str | None = None) -> None:
        self.group, self.kind, self.instance = group, kind, instance
        self.name = f"{kind}-{len(group.members)}"
        self.lives, self.id, self.generation = True, "", -1
        self.owned: Owned = frozenset()
        self._joins, self._synced = True, False
        self._asked: asyncio.Task[Any] | None = None

    @property
    def is_content(self) -> bool:
        return self._synced and not self._joins

    async def step(self) -> None:
        """Take an answer that has come; else ask what is next."""
        if self._asked is None:
            await self._ask(self._join() if self._joins else self._beat())
        elif self._asked.done():
            asked, self._asked = self._asked, None
            await self._take(asked)

    async def leave(self) -> None:
        self.lives, self.owned = False, frozenset()
        if self._asked is not None:
            self._asked.cancel()
        if self.id and self.instance is None:
            await self.group.groups.leave("g", [Leave(self.id)])

    def die(self) -> None:
        self.lives, self.owned = False, frozenset()
        if self._asked is not None:
            self._asked.cancel()

    async def _ask(self, work: Coroutine[Any, Any, Any]) -> None:
        self._asked = asyncio.ensure_future(work)
        await settle()

    async def _join(self) -> Joined:
        self._synced = False
        if self.kind == "eager":
            self.owned = frozenset()
        owned = [Partitions(topic=topic, partitions=numbers) for topic, numbers in by_topic(self.owned).items()]
        said = Subscription(topics=sorted(self.group.topics.here), owned_partitions=owned)
        metadata = _SUBSCRIPTION.to_bytes(2, "big") + bytes(encode(said, _SUBSCRIPTION, False))
        protocols = (("first", metadata), ("second", metadata))
        new_id = f"{self.name}-{random.getrandbits(32):08x}"
        join = Join(
            self.id, new_id, self.instance, "c", "/h", SESSION_MS, REBALANCE_MS, consumer_protocol.TYPE, protocols
        )
        return await (await self.group.groups.join("g", join))

    async def _sync(self, joined: Joined) -> Synced:
        assignments: dict[str, bytes] = {}
        if joined.leader == self.id and joined.members:
            assignments = _dealt({one: metadata for one, _, metadata in joined.members}, self.group.partitions)
        sync = Sync(self.id, self.instance, self.generation, joined.protocol_type, joined.protocol_name, assignments)
        return await (await self.group.groups.sync("g", sync))

    async def _beat(self) -> ErrorCode:
        return await self.group.groups.heartbeat("g", self.id, self.instance, self.generation)

    async def _take(self, asked: asyncio.Task[Any]) -> None:
        try:
            answer = asked.result()
        except KafkaError as error:
            answer = ErrorCode(error.code)
        except asyncio.CancelledError:
            answer = ErrorCode.COORDINATOR_NOT_AVAILABLE
        code = answer if isinstance(answer, ErrorCode) else answer.error
        if code:
            self._refused(code, answer)
        elif isinstance(answer, Joined):
            self.id, self.generation = answer.member_id, answer.generation
            self._joins = False
            await self._ask(self._sync(answer))
        elif isinstance(answer, Synced):
            assigned = consumer_protocol.read_assignment(answer.assignment).assigned_partitions
            before, self.owned = self.owned, frozenset(consumer_protocol.flat(assigned))
            self._joins, self._synced = self.kind == "cooperative" and not before <= self.owned, True

    def _refused(self, error: ErrorCode, answer: object) -> None:
        match error:
            case ErrorCode.MEMBER_ID_REQUIRED:
                assert isinstance(answer, Joined)
                self.id, self._joins = answer.member_id, True
            case ErrorCode.REBALANCE_IN_PROGRESS:
                self._joins = True
            case ErrorCode.UNKNOWN_MEMBER_ID:
                self.id, self.generation, self.owned, self._joins = "", -1, frozenset(), True
            case ErrorCode.ILLEGAL_GENERATION:
                self.generation, self.owned, self._joins = -1, frozenset(), True
            case ErrorCode.FENCED_INSTANCE_ID:
                self.die()
            case ErrorCode.NOT_COORDINATOR | ErrorCode.COORDINATOR_NOT_AVAILABLE:
                self._joins = self._joins or answer is not error or self.generation < 0
            case _:
                assert error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, error
                self._joins = True  # as a JoinGroup; SyncGroup and Heartbeat are told otherwise


def _dealt(members: dict[str, bytes], partitions: Owned) -> dict[str, bytes]:
    """In turn; what a member says that it has, it keeps, or nobody has it in this generation."""
    claims: dict[tuple[str, int], str] = {}
    for name, metadata in members.items():
        for place in consumer_protocol.flat(consumer_protocol.read_subscription(metadata).owned_partitions):
            claims[place] = name
    names, dealt = sorted(members), {name: set[tuple[str, int]]() for name in members}
    for at, place in enumerate(sorted(partitions)):
        name = names[at % len(names)]
        if claims.get(place, name) == name:
            dealt[name].add(place)
    return {
        name: consumer_protocol.write_assignment(by_topic(frozenset(places)), _SUBSCRIPTION)
        for name, places in dealt.items()
    }


class ConsumerClient:
    """A member of the new protocol."""

    def __init__(self, group: Group, instance: str | None = None) -> None:
        self.group, self.instance = group, instance
        self.name = self.id = f"consumer-{len(group.members)}"
        self.lives, self.epoch = True, 0
        self.owned: Owned = frozenset()
        self._told: Owned = frozenset()  # that it has, to the coordinator
        self._calm = 0

    @property
    def is_content(self) -> bool:
        return self._calm > 1 and self.epoch > 0

    async def step(self) -> None:
        """One heartbeat."""
        whole: dict[str, Any] = {}
        if self.epoch == 0:
            self.owned = frozenset()
            whole = {"topics": frozenset(self.group.topics.here), "rebalance_timeout_ms": REBALANCE_MS}
        ids = {name: id_ for id_, name in self.group.names.items()}
        owned = {ids[topic]: frozenset(numbers) for topic, numbers in by_topic(self.owned).items()}
        beat = MemberHeartbeat(self.id, self.epoch, self.instance, owned=owned, **whole)
        try:
            answer = await asyncio.wait_for(await self.group.groups.consumer_heartbeat("g", beat), 1)
        except KafkaError as error:
            self._calm = 0
            if error.code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
                self.epoch, self.owned = 0, frozenset()
            elif error.code == ErrorCode.FENCED_INSTANCE_ID:
                self.die()
            else:
                assert error.code in _AGAIN, error
            return
        before = self.epoch, self.owned
        self.epoch = answer.epoch
        if answer.assignment is not None:
            names = self.group.names
            self.owned = frozenset((names[topic], one) for topic, all_ in answer.assignment.items() for one in all_)
        self._calm = self._calm + 1 if (self.epoch, self.owned) == before else 0

    async def leave(self) -> None:
        self.lives, self.owned = False, frozenset()
        epoch = -1 if self.instance is None else -2
        try:
            await (await self.group.groups.consumer_heartbeat("g", MemberHeartbeat(self.id, epoch, self.instance)))
        except KafkaError as error:
            assert error.code in (*_AGAIN, *_NOT_THERE), error

    def die(self) -> None:
        self.lives, self.owned = False, frozenset()


_AGAIN = (
    ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNRELEASED_INSTANCE_ID,
)  # fmt: skip
_NOT_THERE = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.FENCED_INSTANCE_ID)
