"""Groups that change their protocol with members in them, both ways."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from bridge.errors import KafkaError
from bridge.groups.classic.events import Join, Leave, Sync
from bridge.groups.classic.records import GroupRecord, MemberRecord
from bridge.groups.classic.records import encode as encode_classic
from bridge.groups.consumer.model import ClassicTerms, ConsumerMember, GroupSnapshot
from bridge.groups.epochs.group import MemberHeartbeat
from bridge.groups.epochs.records import CONSUMER
from bridge.groups.store.records import group_key
from bridge.kafka import consumer_protocol
from bridge.kafka.consumer_protocol import Assignment, Subscription
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import encode
from tests.groups.clock import settle
from tests.groups.consumer.mixed import ClassicClient, ConsumerClient, Group
from tests.support.effort import examples

KINDS = ("eager", "cooperative")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_group_is_replaced_member_by_member_and_back(kind: str) -> None:
    group = Group()
    for _ in range(3):
        group.add(kind)
    await group.rest()
    assert await group.is_classic()
    for to in ("consumer", kind):
        for old in [one for one in group.living if (one.name.split("-")[0] == "consumer") != (to == "consumer")]:
            group.add(to)
            await group.rest()
            assert not await group.is_classic()
            await old.leave()
            await group.rest()
        assert await group.is_classic() == (to != "consumer")


class History:
    """What happens to a group, at random."""

    def __init__(self, seed: int) -> None:
        self._choose = random.Random(seed)
        self.group = Group(t=self._choose.randint(1, 7), u=self._choose.randint(1, 3))
        self._kinds = self._choose.choice((("consumer", "eager"), ("consumer", "cooperative"), ("consumer", *KINDS)))
        self._steps = (
            self.join, self.join, self.join, self.leave, self.die, self.come_back,
            self.turn, self.turn, self.turn, self.restart, self.fail, self.take_long,
        )  # fmt: skip

    async def step(self) -> None:
        self.group.store.slow = self._choose.random() < 0.5
        await self._choose.choice(self._steps)()
        self.group.check()

    async def join(self) -> None:
        if len(self.group.living) < 5:
            instance = f"i{len(self.group.members)}" if self._choose.random() < 0.3 else None
            self.group.add(self._choose.choice(self._kinds), instance=instance)

    async def leave(self) -> None:
        if self.group.living:
            await self._choose.choice(self.group.living).leave()

    async def die(self) -> None:
        if self.group.living:
            self._choose.choice(self.group.living).die()

    async def come_back(self) -> None:
        """The process of a static member is restarted, perhaps with the other protocol."""
        static = [one for one in self.group.living if one.instance is not None]
        if static:
            one = self._choose.choice(static)
            one.die()
            self.group.add(self._choose.choice(self._kinds), instance=one.instance)

    async def turn(self) -> None:
        await self.group.turn(self._choose.choice((0.1, 1.0, 3.0)))

    async def restart(self) -> None:
        await self.group.restart()

    async def fail(self) -> None:
        self.group.store.fails = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        await self.group.turn()
        self.group.store.fails = None

    async def take_long(self) -> None:
        """Writes take a while, and all members send what is next meanwhile."""
        store = self.group.store
        steps = [asyncio.ensure_future(one.step()) for one in self.group.living]
        while not all(one.done() for one in steps):
            store.held_back = []
            await settle()
            store.release()
        await asyncio.gather(*steps)
        await settle()


@pytest.mark.parametrize("seed", range(examples(400)))
async def test_no_partition_is_two_members_and_all_are_somebody_s_at_rest(seed: int) -> None:
    history = History(seed)
    group = history.group
    for _ in range(random.Random(seed).randint(10, 40)):
        await history.step()
    group.store.slow = False
    while not group.living:
        await history.join()
    await group.rest()
    assert not (await group.is_classic() and any(isinstance(one, ConsumerClient) for one in group.living))
    await group.groups.close()


# ---- one rule each ---------------------------------------------------------------------------------------------------

WANTS_T = b"\0\0" + bytes(encode(Subscription(topics=["t"]), 0, flexible=False))


TERMS = ClassicTerms(10_000, (("range", WANTS_T),))


def join(member: str, **options: Any) -> Join:
    values = {"instance_id": None, "protocol_type": "consumer", "protocols": (("range", WANTS_T),), **options}
    return Join(
        member, "new", client_id="c", client_host="/h", session_timeout_ms=10_000, rebalance_timeout_ms=20_000, **values
    )


async def heartbeat(group: Group, member: str, epoch: int, **options: Any) -> int:
    """The error of a ConsumerGroupHeartbeat."""
    try:
        await (await group.groups.consumer_heartbeat("g", MemberHeartbeat(member, epoch, **options)))
    except KafkaError as error:
        return error.code
    return 0


async def joining(group: Group, member: str = "m") -> int:
    return await heartbeat(group, member, 0, topics=frozenset("t"), owned={}, rebalance_timeout_ms=20_000)


async def mixed(partitions: int = 6) -> Group:
    """A consumer group of one topic with a member of each protocol that are content, the classic one first."""
    group = Group(t=partitions)
    group.add("eager")
    await group.rest()
    group.add("consumer")
    await group.rest()
    return group


async def test_without_the_policy_groups_stay_what_they_are() -> None:
    group = Group("disabled")
    group.add("eager")
    await group.rest()
    assert await joining(group) == ErrorCode.GROUP_ID_NOT_FOUND
    assert await group.is_classic()
    await group.living[0].leave()
    await group.turn(25)
    news = group.add("consumer")
    await group.rest()
    group.add("eager")  # as on Kafka, it joins whatever the policy is
    await group.rest()
    await news.leave()
    await group.rest()
    assert not await group.is_classic()


async def test_an_upgrade_is_not_followed_by_a_downgrade_that_is_off() -> None:
    group = Group("upgrade")
    group.add("eager")
    await group.rest()
    news = group.add("consumer")
    await group.rest()
    await news.leave()
    await group.rest()
    assert not await group.is_classic()


@pytest.mark.parametrize(
    ("protocol", "subscription", "assignment"),
    [
        ("connect", WANTS_T, b""),
        ("consumer", b"?", b""),
        ("consumer", WANTS_T, b"?"),
        ("consumer", WANTS_T, consumer_protocol.write_assignment({"t": [0]}, 0)),
        ("consumer", WANTS_T, b"\0\0" + bytes(encode(Assignment(assigned_partitions=[], user_data=b"!"), 0, False))),
    ],
)
async def test_what_is_no_group_of_consumers_stays_a_classic_one(
    protocol: str, subscription: bytes, assignment: bytes
) -> None:
    """The last ones: two members have the same partition; an assignor, as that of Kafka Streams, says more."""
    group = Group()
    members = tuple(
        MemberRecord(name, None, "c", "/h", 10_000, 20_000, subscription, assignment) for name in ("a", "b")
    )
    record = GroupRecord(3, protocol, "range", "a", 77, members)
    await group.store.write("g", {group_key("g"): encode_classic(record)})
    assert await joining(group) == ErrorCode.GROUP_ID_NOT_FOUND
    assert await group.is_classic()
    assert await group.groups.heartbeat("g", "a", None, 3) is ErrorCode.NONE


async def test_members_that_wait_for_a_rebalance_are_told_to_join_again() -> None:
    group = Group()
    waits = await group.groups.join("g", join("", id_required=False))
    news = join("", id_required=False, instance_id="i")
    assert not waits.done()
    assert await joining(group) == 0
    assert waits.result().error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    joined = (await group.groups.join("g", news)).result()
    assert (joined.error, joined.member_id, joined.leader) == (ErrorCode.NONE, "new", "")


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (join(""), ErrorCode.MEMBER_ID_REQUIRED),
        (join("x", protocol_type="connect"), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (join("x", protocols=(("other", WANTS_T),)), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (join("x", protocols=(("first", b"?"),)), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (join("x", protocols=()), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (join("x", instance_id="i", protocols=(("first", WANTS_T),)), ErrorCode.UNKNOWN_MEMBER_ID),
        (join("x", protocols=(("first", WANTS_T),)), ErrorCode.NONE),
    ],
)
async def test_who_joins_a_group_with_members_of_the_new_protocol(request_: Join, code: ErrorCode) -> None:
    group = await mixed()
    try:
        found = (await group.groups.join("g", request_)).result().error
    except KafkaError as error:
        found = ErrorCode(error.code)
    assert found is code


async def test_what_a_classic_member_is_refused() -> None:
    group = await mixed()
    classic, news = group.living
    assert isinstance(classic, ClassicClient)
    assert isinstance(news, ConsumerClient)

    async def errors(member: str, generation: int, protocol: str = "first") -> tuple[int, int]:
        found = []
        sync = Sync(member, None, generation, "consumer", protocol, {})
        for work in (group.groups.heartbeat("g", member, None, generation), group.groups.sync("g", sync)):
            try:
                answer: Any = await work
                found.append(answer if isinstance(answer, ErrorCode) else answer.result().error)
            except KafkaError as error:
                found.append(ErrorCode(error.code))
        return found[0], found[1]

    now = classic.generation
    inconsistent, none = ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.NONE
    assert await errors(classic.id, now) == (none, none)
    assert await errors(classic.id, now, "second") == (none, none)
    assert await errors(classic.id, now, "third") == (none, inconsistent)
    assert await errors(classic.id, now - 1) == (ErrorCode.ILLEGAL_GENERATION,) * 2
    assert await errors("x", now) == (ErrorCode.UNKNOWN_MEMBER_ID,) * 2
    assert await errors(news.id, news.epoch) == (ErrorCode.UNKNOWN_MEMBER_ID,) * 2
    await joining(group, "another")
    assert await errors(classic.id, now) == (ErrorCode.REBALANCE_IN_PROGRESS,) * 2


async def test_who_may_commit() -> None:
    group = await mixed()
    classic, news = group.living
    assert isinstance(classic, ClassicClient)
    assert isinstance(news, ConsumerClient)

    async def code(member: str, epoch: int, version: int) -> int:
        try:
            await group.groups.check_commit("g", member, None, epoch, version)
        except KafkaError as error:
            return error.code
        return 0

    assert await code(classic.id, classic.generation, 5) == 0
    assert await code(classic.id, classic.generation - 1, 9) == ErrorCode.ILLEGAL_GENERATION
    assert await code(news.id, news.epoch, 8) == ErrorCode.UNSUPPORTED_VERSION
    assert await code(news.id, news.epoch - 1, 9) == ErrorCode.STALE_MEMBER_EPOCH
    assert await code("x", 1, 9) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("syncs", [False, True])
async def test_a_classic_member_that_does_not_go_on_is_removed(syncs: bool) -> None:
    """It sends heartbeats, but does not join again; or joins, and does not sync."""
    group = await mixed()
    classic, news = group.living
    assert isinstance(classic, ClassicClient)
    classic.lives = False  # it does what the test says
    await joining(group, "another")
    if not syncs:
        await group.groups.join("g", join(classic.id, protocols=(("first", WANTS_T),)))
    for _ in range(25):
        await news.step()
        await heartbeat(group, "another", 0, topics=frozenset("t"), owned={}, rebalance_timeout_ms=20_000)
        if syncs:
            await group.groups.heartbeat("g", classic.id, None, classic.generation)
        await group.clock.advance(1)
        snapshot = await group.groups.consumer_snapshot("g")
        if snapshot is None or classic.id not in snapshot.members:
            return
    raise AssertionError("it is still there")


async def test_a_member_of_the_new_protocol_takes_the_place_of_a_classic_instance_and_the_reverse() -> None:
    group = Group()
    old = group.add("eager", instance="i")
    await group.rest()
    owned = old.owned
    old.die()  # a static member does not say that it goes
    news = group.add("consumer", instance="i")
    await group.rest()
    assert news.owned == owned
    assert not await group.is_classic()
    news.die()
    group.add("eager", instance="i")
    await group.rest()
    assert await group.is_classic()


async def test_a_classic_instance_that_is_restarted_gets_what_came_free_while_it_was_away() -> None:
    group = Group()
    first = group.add("eager", instance="i")
    await group.rest()
    for _ in range(2):
        group.add("consumer")
    await group.rest()
    first.die()
    await group.living[1].leave()  # nobody has made new targets yet
    group.add("eager", instance="i")
    await group.rest()


async def test_what_a_member_had_that_is_gone_is_given_out_by_an_upgrade_that_changes_no_subscription() -> None:
    group = Group()
    members = [group.add("eager", instance=name) for name in "abc"]
    await group.rest()
    members[2].die()
    await group.clock.advance(7)  # the others' sessions go on
    for one in (*members[:2], *members[:2]):
        await one.step()
    await group.clock.advance(4)  # and that of the third is over
    members[0].die()
    group.add("consumer", instance="a")
    await group.rest()


async def test_what_cooperative_members_read_while_their_rebalance_is_broken_off_is_not_given_away() -> None:
    group = Group()
    for _ in range(2):
        group.add("cooperative")
    await group.rest()
    group.add("cooperative")
    group.store.held_back = []
    while not group.store.held_back:  # until all have joined, and the leader's assignment is on its way
        for member in group.living:
            await member.step()
        await group.clock.advance(0.1)
    group.store.fails = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    group.store.release()
    await settle()
    group.store.fails = None
    group.add("consumer")
    await group.rest()  # it looks at each step that no partition is two members'


async def test_a_request_that_is_being_loaded_as_the_group_changes_finds_it_changed() -> None:
    group = await mixed()
    classic, news = group.living
    assert isinstance(classic, ClassicClient)
    assert isinstance(news, ConsumerClient)
    group.groups.unload(lambda _: True)
    group.store.holds_load = asyncio.Event()
    beats = asyncio.ensure_future(group.groups.heartbeat("g", classic.id, None, classic.generation))
    await settle()
    assert not beats.done()
    loading, group.store.holds_load = group.store.holds_load, None
    await heartbeat(group, news.id, news.epoch)
    group.store.held_back = []
    leaves = asyncio.ensure_future(news.leave())
    await settle()
    loading.set()
    await settle()
    group.store.release()
    await leaves
    assert await beats is ErrorCode.REBALANCE_IN_PROGRESS
    assert "g" not in group.groups._consumer.loaded
    await group.rest()
    assert await group.is_classic()


async def test_an_upgrade_that_is_stored_late_leaves_no_member_behind() -> None:
    group = Group()
    members = [group.add("eager") for _ in range(2)]
    await group.rest()
    group.store.held_back = []
    joins = asyncio.ensure_future(joining(group))
    await settle()
    ((records, done),) = group.store.held_back
    done.set_exception(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    assert await joins == ErrorCode.COORDINATOR_NOT_AVAILABLE
    group.store.held_back = None
    await members[1].leave()
    for key, value in records.items():  # it comes before what is written next
        group.store._put(key, value)
    await group.rest()
    group.add("consumer")
    await group.rest()
    assert len(group.store.held["g"].members) == 2


async def test_a_downgrade_that_is_stored_late_is_written_over() -> None:
    group = await mixed(partitions=1)
    classic, news = group.living
    group.store.held_back = []
    leaves = asyncio.ensure_future(news.leave())
    await settle()
    ((records, done),) = group.store.held_back
    done.set_exception(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    await leaves
    group.store.held_back = None
    assert not await group.is_classic()
    for key, value in records.items():
        group.store._put(key, value)
    another = group.add("consumer")
    await another.step()
    found = group.store.held["g"].members
    assert {classic.id, another.id} <= found.keys()
    await group.restart()
    await group.rest()


async def test_nobody_is_awaited_for_a_join_that_could_not_be_stored() -> None:
    group = await mixed()
    classic, news = group.living
    assert isinstance(classic, ClassicClient)
    group.store.held_back = []
    joins = asyncio.ensure_future(joining(group, "another"))
    await settle()
    beats = asyncio.ensure_future(group.groups.heartbeat("g", classic.id, None, classic.generation))
    await settle()
    group.store.fails = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    group.store.release()
    assert await joins == ErrorCode.COORDINATOR_NOT_AVAILABLE
    await asyncio.wait([beats])
    group.store.fails = None
    for _ in range(30):  # longer than the rebalance timeout
        await group.turn()
    snapshot = await group.groups.consumer_snapshot("g")
    assert snapshot is not None
    assert snapshot.members.keys() == {classic.id, news.id}


async def test_new_partitions_are_noticed_with_classic_members_alone() -> None:
    group = Group("upgrade")
    group.add("eager")
    await group.rest()
    news = group.add("consumer")
    await group.rest()
    await news.leave()
    await group.rest()
    group.topics.here["t"].partitions += 2
    await group.rest()


async def test_a_downgrade_that_is_not_stored_leaves_the_group_as_it_was() -> None:
    group = await mixed()
    _, news = group.living
    group.store.fails = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    await news.leave()
    group.store.fails = None
    assert not await group.is_classic()
    await group.rest()
    assert await group.is_classic()  # the session of the one that could not leave is over


async def test_a_downgrade_that_a_crash_follows_is_rebalanced_all_the_same() -> None:
    group = await mixed()
    await group.living[1].leave()
    await group.restart()
    await group.rest()
    assert await group.is_classic()


async def test_nobody_finds_the_group_while_it_changes() -> None:
    group = Group()
    classic = group.add("eager")
    assert isinstance(classic, ClassicClient)
    await group.rest()
    group.store.held_back = []
    joins = asyncio.ensure_future(joining(group))
    await settle()
    beats = asyncio.ensure_future(group.groups.heartbeat("g", classic.id, None, classic.generation))
    await settle()
    assert not beats.done()
    while not joins.done():
        group.store.release()
        await settle()
    assert await beats is ErrorCode.REBALANCE_IN_PROGRESS
    assert await group.groups.leave("g", [Leave(classic.id)]) == [ErrorCode.NONE]


def test_a_classic_member_is_stored_as_such() -> None:
    found = {}
    for version, member in ((1, ConsumerMember("m")), (2, ConsumerMember("m", classic=TERMS))):
        records = CONSUMER.changes("g", GroupSnapshot(), GroupSnapshot(epoch=1, members={"m": member}), 0)
        found[version] = records["member", "g", "m"]
    assert b'"v":1' in (found[1] or b"")
    assert b'"classic":{"session":10000,"protocols":[["range","AAAAAAABAAF0/////w=="]]}' in (found[2] or b"")
    assert b'"v":2' in (found[2] or b"")
