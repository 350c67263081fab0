"""Streams groups at their coordinator: topics, other types of groups, the store, memory, internal topics."""

import asyncio

import pytest

from bridge.errors import KafkaError
from bridge.groups.classic.events import Join
from bridge.groups.epochs.group import MemberHeartbeat
from bridge.groups.retention import UNKNOWN_GROUP
from bridge.groups.store.records import StoredOffset, encode_offset, offset_key
from bridge.groups.streams.model import Endpoint, TopicInfo
from bridge.groups.streams.snapshot import StreamsGroupState
from bridge.groups.streams.topology import StatusCode
from bridge.kafka.error_codes import ErrorCode
from tests.groups.clock import settle
from tests.groups.consumer.bench import error_code
from tests.groups.fake_topics import FakeTopic
from tests.groups.streams.bench import StreamsBench
from tests.groups.streams.group_machine import COUNT, SESSION, codes, tasks

UNAVAILABLE = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)


async def test_an_answer_comes_when_it_is_stored() -> None:
    bench = StreamsBench()
    bench.store.held_back = []
    joining = asyncio.ensure_future(bench.join())
    await settle()
    assert not joining.done()
    bench.store.release()
    assert (await joining).tasks == tasks("0_0", "0_1")


async def test_a_group_that_could_not_be_stored_is_as_it_was() -> None:
    bench = StreamsBench()
    bench.store.fails = UNAVAILABLE
    assert await error_code(bench.join()) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (bench.store.held, bench.metrics.loaded.value, bench.metrics.metadata_bytes.value) == ({}, 0, 0)
    bench.store.fails = None
    await bench.join()
    bench.store.fails = UNAVAILABLE
    await bench.clock.advance(1)
    assert await error_code(bench.join("n")) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert list((await bench.groups.streams_snapshot("g")).members) == ["m"]
    bench.store.fails = None
    assert (await bench.beat("m", 2)).epoch == 2


async def test_members_tasks_and_topology_are_there_after_a_restart() -> None:
    bench = StreamsBench()
    joined = await bench.join()
    bench = bench.restarted()
    assert (await bench.beat("m", 2)).tasks is None
    assert (await bench.join()).tasks == joined.tasks
    assert await bench.groups.streams_groups() == [("g", StreamsGroupState.STABLE)]
    await bench.clock.advance(SESSION + 1)
    assert (await bench.groups.streams_snapshot("g")).state is StreamsGroupState.EMPTY
    assert await error_code(bench.send("m", 2)) == ErrorCode.UNKNOWN_MEMBER_ID
    bench = bench.restarted()
    assert await error_code(bench.join(topology=COUNT)) == ErrorCode.INVALID_REQUEST


async def test_topics_are_looked_at_again_soon_while_they_are_missing_and_seldom_later() -> None:
    bench = StreamsBench()
    here = bench.topics.here.pop("in")
    assert codes(await bench.join()) == [StatusCode.MISSING_SOURCE_TOPICS]
    bench.topics.here["in"] = here
    await bench.beat("m", 2)
    await bench.clock.advance(1.5)
    assert (await bench.beat("m", 2)).tasks == tasks("0_0", "0_1")
    asked = bench.topics.asked
    here.partitions = 3
    await bench.clock.advance(2)
    assert (await bench.beat("m", 3)).tasks is None
    assert bench.topics.asked == asked
    await bench.clock.advance(4)
    assert (await bench.beat("m", 3)).tasks == tasks("0_0", "0_1", "0_2")


async def test_who_joins_waits_for_topics_that_cannot_be_looked_at_and_others_go_on() -> None:
    bench = StreamsBench()
    bench.topics.refuses = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
    assert await error_code(bench.join()) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.topics.refuses = None
    await bench.join()
    bench.topics.refuses = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
    await bench.clock.advance(6)
    assert (await bench.beat("m", 2)).epoch == 2


async def test_a_group_has_one_type_and_an_empty_classic_one_becomes_a_streams_group_with_its_offsets() -> None:
    bench = StreamsBench()
    await bench.store.write("g", {offset_key("g", "in", 0): encode_offset(StoredOffset(7))})
    assert [one.id for one in await bench.groups.classic_groups()] == ["g"]
    await bench.join()
    assert bench.store.held["g"].offsets["in", 0].offset == 7
    assert await bench.groups.classic_groups() == []
    with_topics = MemberHeartbeat("x", 0, topics=frozenset({"in"}), rebalance_timeout_ms=1)
    assert await error_code(bench.groups.consumer_heartbeat("g", with_topics)) == ErrorCode.GROUP_ID_NOT_FOUND
    assert await error_code(bench.groups.share_heartbeat("g", with_topics)) == ErrorCode.GROUP_ID_NOT_FOUND
    join = Join("", "c1", None, "c", "/h", 10_000, 10_000, "consumer", (("range", b""),), False)
    assert await error_code(bench.groups.join("g", join)) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    await bench.beat("m", -1)
    assert await error_code(bench.groups.consumer_heartbeat("g", with_topics)) == ErrorCode.GROUP_ID_NOT_FOUND
    bench = bench.restarted()
    joining = await bench.groups.join("g", join)
    await settle()
    assert not joining.cancelled()
    assert [one.id for one in await bench.groups.classic_groups()] == ["g"]
    assert await error_code(bench.groups.streams_snapshot("g")) == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("kind", ["consumer", "share"])
async def test_groups_of_other_types_do_not_become_streams_groups(kind: str) -> None:
    bench = StreamsBench()
    heartbeat = bench.groups.consumer_heartbeat if kind == "consumer" else bench.groups.share_heartbeat
    await (await heartbeat("g", MemberHeartbeat("x", 0, topics=frozenset({"in"}), rebalance_timeout_ms=1)))
    for work in (bench.join(), bench.send("m", 2), bench.groups.streams_snapshot("g")):
        assert await error_code(work) == ErrorCode.GROUP_ID_NOT_FOUND
    assert await bench.groups.streams_groups() == []


async def test_a_group_is_deleted_when_it_has_no_members_with_its_offsets() -> None:
    bench = StreamsBench()
    await bench.join()
    await bench.store.write("g", {offset_key("g", "in", 0): encode_offset(StoredOffset(7))})
    assert await error_code(bench.groups.delete("g")) == ErrorCode.NON_EMPTY_GROUP
    await bench.beat("m", -1)
    await bench.groups.delete("g")
    assert (bench.store.held, bench.metrics.loaded.value, bench.metrics.metadata_bytes.value) == ({}, 0, 0)
    for work in (bench.groups.delete("g"), bench.groups.streams_snapshot("g"), bench.send("m", 2)):
        assert await error_code(work) == ErrorCode.GROUP_ID_NOT_FOUND
    assert (await bench.join(topology=COUNT)).epoch == 2


async def test_offsets_are_kept_for_what_members_read_and_committed_by_them_alone() -> None:
    bench = StreamsBench()
    await bench.join()
    retention = await bench.groups.retention("g")
    assert (retention.exists, retention.members, retention.consumer) == (True, 1, True)
    assert retention.subscribed == frozenset({"in"})
    where = [("in", 0)]
    await bench.groups.check_commit("g", "m", None, 2, 9, where)
    for member, epoch, code in (
        ("m", 3, ErrorCode.STALE_MEMBER_EPOCH),
        ("x", 2, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        assert await error_code(bench.groups.check_commit("g", member, None, epoch, 9, where)) == code
    in_transaction = bench.groups.check_commit_in_transaction
    await in_transaction("g", "m", None, 2, where)
    assert await error_code(in_transaction("g", "m", None, 3, where)) == ErrorCode.ILLEGAL_GENERATION
    await bench.groups.check_fetch("g", "m", 2)
    assert await error_code(bench.groups.check_fetch("g", "m", 1)) == ErrorCode.STALE_MEMBER_EPOCH
    await bench.beat("m", -1)
    await bench.groups.check_commit("g", "", None, -1, 9, where)
    assert (await bench.groups.retention("g")).subscribed == frozenset()
    await bench.groups.forget("g")
    assert (await bench.groups.retention("g")) == UNKNOWN_GROUP


async def test_it_is_seen_among_the_groups_in_memory() -> None:
    bench = StreamsBench()
    await bench.join(client_id="c", client_host="/h")
    assert bench.groups.in_memory.summary("g")[1:] == ("streams", "Stable", 1, 2)
    assert bench.groups.in_memory.members("g") == [("m", None, "c", "/h")]


async def test_another_node_takes_the_group() -> None:
    bench = StreamsBench()
    await bench.join()
    bench.store.held_back = []
    writing, waiting = await bench.send("m", 2, rack_id="r"), await bench.send("m", -1)
    bench.store.lose()
    assert await error_code(waiting) == ErrorCode.NOT_COORDINATOR
    bench.store.fails = KafkaError(ErrorCode.NOT_COORDINATOR)
    bench.store.release()
    await settle()
    assert await error_code(writing) == ErrorCode.NOT_COORDINATOR
    assert bench.metrics.loaded.value == 0
    await bench.groups.close()


async def test_memory_of_topologies_and_members_is_bounded() -> None:
    bench = StreamsBench(max_member_metadata_bytes=1024)
    wide = COUNT._replace(subtopologies=COUNT.subtopologies[:1] * 9)  # also wrong: their ids are the same
    assert await error_code(bench.join(topology=wide)) == ErrorCode.INVALID_REQUEST
    unresolved = COUNT._replace(subtopologies=COUNT.subtopologies[1:])
    assert await error_code(bench.join(topology=unresolved)) == ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert await error_code(bench.join(tags={"k": "v" * 1000})) == ErrorCode.INVALID_REQUEST
    await bench.join()
    held = bench.metrics.metadata_bytes.value
    await bench.join("n", tags={"k": "v" * 100})
    assert bench.metrics.metadata_bytes.value >= held + 200
    for name in "mn":
        await bench.beat(name, -1)
    assert 0 < bench.metrics.metadata_bytes.value < held  # the topology
    bench.store.lose()
    assert bench.metrics.metadata_bytes.value == 0


async def test_heartbeats_that_say_nothing_new_are_taken_where_there_is_no_room() -> None:
    bench = StreamsBench(max_metadata_bytes=2048)
    await bench.join(tags={"k": "v" * 1000})
    assert bench.metrics.metadata_bytes.value > 2048 - 100
    assert await error_code(bench.join("n")) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (await bench.beat("m", 2)).epoch == 2
    await bench.clock.advance(6)  # the topics are looked at again
    assert (await bench.beat("m", 2)).epoch == 2
    assert await error_code(bench.beat("m", 2, rack_id="r")) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (await bench.beat("m", -1, process_id="p")).epoch == -1
    await bench.join("n")


@pytest.mark.parametrize("seconds", [0, 6], ids=["between looks", "with a look"])
async def test_what_members_say_counts_until_they_say_something_else(seconds: int) -> None:
    bench = StreamsBench()
    await bench.join()
    small = bench.metrics.metadata_bytes.value
    for said in ({"tags": {"k": "v" * 1000}}, {"rack_id": "r" * 1000}, {"endpoint": Endpoint("h" * 1000, 1)}):
        before = bench.metrics.metadata_bytes.value
        await bench.clock.advance(seconds)
        epoch = (await bench.beat("m", (await bench.groups.streams_snapshot("g")).members["m"].epoch, **said)).epoch
        grown = bench.metrics.metadata_bytes.value
        assert grown >= before + 1000
        await bench.clock.advance(seconds)
        epoch = (await bench.beat("m", epoch)).epoch
        assert bench.metrics.metadata_bytes.value == grown
    restarted = bench.restarted()
    await restarted.groups.streams_snapshot("g")
    assert restarted.metrics.metadata_bytes.value == grown
    await bench.beat("m", epoch, tags={}, rack_id="r", endpoint=Endpoint("h", 1))
    assert bench.metrics.metadata_bytes.value == small + 2


async def test_internal_topics_are_created_once_and_failures_are_told_for_a_while() -> None:
    bench = StreamsBench(topics=None)
    wanted = (TopicInfo("by-key", 2), TopicInfo("log", 2))
    made: list[str] = []
    gate = asyncio.Event()

    async def create(topic: TopicInfo) -> None:
        await gate.wait()
        if topic.name == "log":
            raise KafkaError(ErrorCode.POLICY_VIOLATION, "too many partitions")
        made.append(topic.name)
        bench.topics.here[topic.name] = FakeTopic(topic.partitions)

    assert bench.groups.create_internal_topics("g", wanted, create) == ""
    assert bench.groups.create_internal_topics("g", wanted, create) == ""
    gate.set()
    await settle()
    assert made == ["by-key"]
    left = wanted[1:]
    assert bench.groups.create_internal_topics("g", left, create) == "log (too many partitions)"
    await bench.clock.advance(11)
    assert bench.groups.create_internal_topics("g", left, create) == ""
    gate.clear()
    await bench.groups.close()


async def test_an_unexpected_error_with_one_topic_leaves_the_others_alone(caplog: pytest.LogCaptureFixture) -> None:
    bench = StreamsBench(topics=None)
    wanted = (TopicInfo("by-key", 2), TopicInfo("log", 2))
    begun: list[str] = []
    gate = asyncio.Event()

    async def create(topic: TopicInfo) -> None:
        begun.append(topic.name)
        if topic.name == "log":
            raise RuntimeError("a secret")
        await gate.wait()

    def failed(group_id: str) -> str:
        return bench.groups.create_internal_topics(group_id, wanted, create)

    assert failed("g") == ""
    await settle()
    assert failed("g") == "log (an error of the bridge)"
    await settle()
    assert begun == ["by-key", "log"]  # the first one is still under way
    (told,) = [one for one in caplog.records if one.message == "! internal topic of a streams group not created"]
    assert told.exc_info
    assert failed("other") == ""  # its members may have other rights
    await settle()
    assert begun == ["by-key", "log", "log"]
    gate.set()
    await bench.groups.close()


async def test_a_group_starts_when_its_internal_topics_have_come() -> None:
    bench = StreamsBench()
    answer = await bench.join(topology=COUNT)
    assert codes(answer) == [StatusCode.MISSING_INTERNAL_TOPICS]
    for one in answer.to_create:
        bench.topics.here[one.name] = FakeTopic(one.partitions)
    await bench.clock.advance(1)
    told = await bench.beat("m", 2)
    assert told.tasks == tasks("0_0", "0_1", "1_0", "1_1")
