"""The APIs of groups, from decoded request to answer, on a coordinator with a store in memory."""

from dataclasses import replace
from typing import Any

import pytest

from bridge.apis import (
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    heartbeat,
    leave_group,
    list_groups,
    sync_group,
)
from bridge.errors import KafkaError
from bridge.groups.store.records import StoredOffset, encode_offset, offset_key
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import ZERO_UUID
from tests.apis.group_bench import Bench
from tests.groups.clock import settle


@pytest.mark.parametrize("version", range(10))
async def test_join_in_every_version(version: int) -> None:
    bench = Bench()
    first = await bench.join(version)
    if version >= 4:
        assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert first.member_id.startswith("client-")
        first = await bench.join(version, first.member_id)
    await bench.clock.advance(1)
    joined = await first
    assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 1, "range")
    assert joined.leader == joined.member_id
    assert [(one.member_id, one.metadata) for one in joined.members] == [(joined.member_id, b"topics")]


@pytest.mark.parametrize("version", [0, 5, 9])
@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_timeout_ms": 5999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocols": []}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
    ids=str,
)
async def test_a_refused_join_names_the_member_and_can_be_written(version: int, changes: Any, code: ErrorCode) -> None:
    answer = await Bench().join(version, **changes)
    assert answer.error_code == code
    assert answer.member_id == changes.get("member_id", "")
    assert answer.generation_id == -1


async def test_version_0_has_no_rebalance_timeout() -> None:
    bench = Bench()
    waiting = await bench.join(0, rebalance_timeout_ms=-1)
    await bench.clock.advance(1)
    await waiting
    group = await bench.groups.classic_group("g")
    assert group is not None
    assert group.members.rebalance_timeout_ms() == 10_000


async def test_a_static_member_is_named_after_its_instance() -> None:
    bench = Bench()
    assert (await bench.formed(group_instance_id="i")).startswith("i-")


async def test_heartbeats() -> None:
    bench = Bench()
    member = await bench.formed()
    fields = {"group_id": "g", "generation_id": 1, "member_id": member}
    for version in range(5):
        assert (await bench.call(heartbeat, version, **fields)).error_code == 0
    late = {**fields, "generation_id": 0}
    assert (await bench.call(heartbeat, 4, **late)).error_code == ErrorCode.ILLEGAL_GENERATION
    unknown = {**fields, "group_id": "other"}
    assert (await bench.call(heartbeat, 4, **unknown)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_heartbeat_is_believed_while_its_group_is_being_read() -> None:
    bench = Bench()
    bench.store.refuses = KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    fields = {"group_id": "g", "generation_id": 1, "member_id": "m"}
    assert (await bench.call(heartbeat, 4, **fields)).error_code == 0
    bench.store.refuses = KafkaError(ErrorCode.NOT_COORDINATOR)
    with pytest.raises(KafkaError):
        await bench.call(heartbeat, 4, **fields)


async def test_a_sync_of_an_unknown_member_is_refused() -> None:
    with pytest.raises(KafkaError) as raised:
        await Bench().call(sync_group, 4, group_id="g", generation_id=1, member_id="m", assignments=[])
    assert raised.value.code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_from_v5_on_a_sync_names_the_protocol() -> None:
    fields = {"group_id": "g", "generation_id": 1, "member_id": "m", "assignments": []}
    for version, names, code in (
        (5, {}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (5, {"protocol_type": "consumer"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (5, {"protocol_type": "consumer", "protocol_name": "range"}, ErrorCode.UNKNOWN_MEMBER_ID),
        (4, {}, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        with pytest.raises(KafkaError) as raised:
            await Bench().call(sync_group, version, **fields, **names)
        assert raised.value.code == code


async def test_leaving_alone_before_v3_and_together_after() -> None:
    bench = Bench()
    member = await bench.formed()
    assert (await bench.call(leave_group, 2, group_id="g", member_id="stranger")).error_code == 25
    assert (await bench.call(leave_group, 0, group_id="g", member_id=member)).error_code == 0
    member = await bench.formed(group_instance_id="i")
    leaving = [
        leave_group.MemberIdentity(member_id="stranger"),
        leave_group.MemberIdentity(member_id="", group_instance_id="i", reason="moved"),
    ]
    answer = await bench.call(leave_group, 5, group_id="g", members=leaving)
    assert answer.error_code == 0
    assert [(one.member_id, one.group_instance_id, one.error_code) for one in answer.members] == [
        ("stranger", None, 25),
        ("", "i", 0),
    ]
    answer = await bench.call(leave_group, 3, group_id="nothing", members=leaving)
    assert [one.error_code for one in answer.members] == [25, 25]
    assert (await bench.call(leave_group, 3, group_id="g", members=[])).members == []


async def test_groups_are_described() -> None:
    bench = Bench()
    member = await bench.formed(group_instance_id="i")
    await bench.store.write("simple", {offset_key("simple", "t", 0): encode_offset(StoredOffset(1))})
    for version in range(7):
        stable, simple, nothing = (await bench.call(describe_groups, version, groups=["g", "simple", "nothing"])).groups
        assert (stable.group_state, stable.protocol_type, stable.protocol_data) == ("Stable", "consumer", "range")
        (described,) = stable.members
        assert (described.member_id, described.group_instance_id) == (member, "i")
        assert (described.client_id, described.client_host) == ("client", "/10.0.0.1")
        assert (described.member_metadata, described.member_assignment) == (b"topics", b"mine")
        assert (simple.group_state, simple.protocol_type, simple.members) == ("Empty", "", [])
        assert nothing.group_state == "Dead"
        unknown = (ErrorCode.GROUP_ID_NOT_FOUND, "Group nothing not found.") if version == 6 else (0, None)
        assert (nothing.error_code, nothing.error_message) == unknown
    joining = await bench.join(3)
    (group,) = (await bench.call(describe_groups, 5, groups=["g"])).groups
    assert (group.group_state, group.protocol_data) == ("PreparingRebalance", "")
    assert [one.member_metadata for one in group.members] == [b"", b""]
    await settle()
    joining.cancel()
    bench.store.refuses = KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    (group,) = (await bench.call(describe_groups, 5, groups=["other"])).groups
    assert group.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_groups_are_listed() -> None:
    bench = Bench()
    await bench.formed()
    await bench.store.write("simple", {offset_key("simple", "t", 0): encode_offset(StoredOffset(1))})
    for version in range(5):
        listed = (await bench.call(list_groups, version)).groups
        assert sorted((one.group_id, one.protocol_type) for one in listed) == [("g", "consumer"), ("simple", "")]
    listed = (await bench.call(list_groups, 4, states_filter=["empty"])).groups
    assert [(one.group_id, one.group_state) for one in listed] == [("simple", "Empty")]
    assert (await bench.call(list_groups, 4, states_filter=["Stable", "Dead"])).groups[0].group_id == "g"
    assert (await bench.call(list_groups, 4, states_filter=["nonsense"])).groups == []


async def test_groups_without_members_are_deleted_with_their_offsets() -> None:
    bench = Bench()
    member = await bench.formed()
    await bench.store.write("g", {offset_key("g", "t", 0): encode_offset(StoredOffset(1))})
    results = (await bench.call(delete_groups, 2, groups_names=["g", "nothing", "g"])).results
    assert [(one.group_id, one.error_code) for one in results] == [("g", 68), ("nothing", 69)]
    await bench.call(leave_group, 1, group_id="g", member_id=member)
    await settle()
    assert (await bench.call(delete_groups, 0, groups_names=["g"])).results[0].error_code == 0
    assert bench.store.held == {}
    assert (await bench.call(describe_groups, 5, groups=["g"])).groups[0].group_state == "Dead"
    bench.store.refuses = KafkaError(ErrorCode.NOT_COORDINATOR)
    assert (await bench.call(delete_groups, 0, groups_names=["g"])).results[0].error_code == 16


async def test_groups_are_told_as_often_as_asked_for_up_to_so_many_members() -> None:
    group = describe_groups.Group(
        error_code=0, group_id="g", group_state="Stable", protocol_type="", protocol_data="", members=[_MEMBER] * 3
    )
    found = await describe_groups.descriptions_in_order(["g", "g", "g"], {"g": group}, 6)
    assert [(one.error_code, len(one.members)) for one in found] == [(0, 3), (0, 3), (ErrorCode.INVALID_REQUEST, 0)]
    assert len(group.members) == 3


@pytest.mark.parametrize("lists", [False, True])
async def test_groups_with_long_metadata_are_not_told_without_end(lists: bool) -> None:
    """100,000 times a group of one member, with a megabyte of metadata or of partitions, is more than all memory."""
    many: Any
    if lists:
        parts = consumer_group_heartbeat.TopicPartitions(topic_id=ZERO_UUID, partitions=[1] * 250_000)
        many = consumer_group_heartbeat.Assigned(topic_partitions=[parts])
    else:
        many = replace(_MEMBER, member_metadata=bytes(1_000_000))
    group = describe_groups.Group(
        error_code=0, group_id="g", group_state="Stable", protocol_type="", protocol_data="", members=[many]
    )
    found = await describe_groups.descriptions_in_order(["g"] * 1000, {"g": group}, 1000)
    assert 60 <= sum(bool(one.members) for one in found) <= 68
    assert (found[-1].error_code, group.error_code) == (ErrorCode.INVALID_REQUEST, 0)


_MEMBER = describe_groups.Member(
    member_id="m", client_id="c", client_host="/h", member_metadata=b"", member_assignment=b""
)
