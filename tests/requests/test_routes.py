"""How requests are divided by owners, and how the answers are put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from bridge import apis
from bridge.apis import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    delete_groups,
    delete_records,
    describe_groups,
    describe_transactions,
    end_txn,
    heartbeat,
    init_producer_id,
    list_groups,
    list_transactions,
    offset_commit,
    offset_fetch,
    share_acknowledge,
    share_fetch,
    txn_offset_commit,
)
from bridge.kafka import message
from bridge.kafka.error_codes import ErrorCode
from bridge.requests.api import Api, ServedBy
from bridge.requests.responses import error_codes
from bridge.requests.routes import Route

APIS = apis.load()
GONE = ErrorCode.COORDINATOR_NOT_AVAILABLE


def route_of(api: Api) -> Route:
    assert api.route is not None
    return api.route


def unreachable(api: Api, request: Any, version: int) -> Any:
    """What `relay.relaying` answers for an owner that cannot be asked."""
    answer = api.failure(request, route_of(api).unreachable, "", version)
    assert answer is not None
    return answer


class Owners:
    """A group or id belongs to the node of its last character, a partition to that of its number."""

    def of_group(self, group_id: str) -> int:
        return int(group_id[-1])

    async def of_transaction(self, transactional_id: str) -> int:
        return int(transactional_id[-1])

    def of_partition(self, topic: str, partition: int) -> int:
        return partition % 3

    def all(self) -> Sequence[int]:
        return (0, 1, 2)


def test_all_that_a_coordinator_serves_is_passed_on() -> None:
    """What leaders serve is served by every node, but for the start of a log, and records of share groups."""
    coordinated = {api.key for api in APIS.values() if api.served_by is ServedBy.COORDINATOR}
    routed = {api.key for api in APIS.values() if api.route is not None}
    others = list_groups, list_transactions, delete_records, share_fetch, share_acknowledge
    assert routed == coordinated | {one.API.key for one in others}


async def test_a_request_about_one_group_goes_to_its_coordinator() -> None:
    request = heartbeat.Request(group_id="g2", generation_id=1, member_id="m")
    route = route_of(heartbeat.API)
    assert await route.divided(request, Owners()) == {2: request}
    assert unreachable(heartbeat.API, request, 4).error_code == GONE


@pytest.mark.parametrize(
    ("api", "named"),
    [
        (init_producer_id.API, "transactional_id"),
        (add_partitions_to_txn.API, "v3_and_below_transactional_id"),
        (add_offsets_to_txn.API, "transactional_id"),
        (end_txn.API, "transactional_id"),
    ],
    ids=lambda value: value.name if isinstance(value, Api) else "",
)
async def test_a_request_about_a_transactional_id_goes_to_its_coordinator_with_the_connection(
    api: Api, named: str
) -> None:
    route = route_of(api)
    for transactional_id, node in (("t2", 2), ("", 0)):
        request = message.with_defaults(api.request, **{named: transactional_id})
        assert await route.divided(request, Owners()) == {node: request}
    assert route.tells_connection


async def test_what_a_transaction_commits_goes_to_the_group_s_coordinator_with_the_connection() -> None:
    route = route_of(txn_offset_commit.API)
    request = message.with_defaults(txn_offset_commit.API.request, transactional_id="t2", group_id="g1")
    assert await route.divided(request, Owners()) == {1: request}
    assert route.tells_connection


async def test_transactional_ids_are_divided_and_come_back_in_their_order() -> None:
    route = route_of(describe_transactions.API)
    asked = ["t2", "t1", "", "u2"]
    request = describe_transactions.Request(transactional_ids=asked)
    parts = await route.divided(request, Owners())
    assert {owner: part.transactional_ids for owner, part in parts.items()} == {2: ["t2", "u2"], 1: ["t1"], 0: [""]}
    answers = [unreachable(describe_transactions.API, part, 0) for part in parts.values()]
    found = route.put_together(request, answers).transaction_states
    assert [(one.transactional_id, one.error_code) for one in found] == [(one, GONE) for one in asked]


async def test_groups_are_divided_and_come_back_in_their_order() -> None:
    route = route_of(describe_groups.API)
    asked = ["a1", "b2", "c1", "b2", "d0"]
    request = describe_groups.Request(groups=asked, include_authorized_operations=True)
    parts = await route.divided(request, Owners())
    assert {owner: part.groups for owner, part in parts.items()} == {1: ["a1", "c1"], 2: ["b2", "b2"], 0: ["d0"]}
    assert all(part.include_authorized_operations for part in parts.values())
    answers = [unreachable(describe_groups.API, part, 5) for part in parts.values()]
    assert [group.group_id for group in route.put_together(request, answers).groups] == asked


def test_a_coordinator_that_is_gone_is_an_error_of_its_groups_alone() -> None:
    route = route_of(delete_groups.API)
    request = delete_groups.Request(groups_names=["a1", "b2"])
    good = delete_groups.Response(results=[delete_groups.Result(group_id="a1", error_code=0)])
    bad = unreachable(delete_groups.API, delete_groups.Request(groups_names=["b2"]), 2)
    answer = route.put_together(request, [good, bad])
    assert [(one.group_id, one.error_code) for one in answer.results] == [("a1", 0), ("b2", GONE)]


async def test_offset_fetch_divides_groups_since_v8() -> None:
    route = route_of(offset_fetch.API)
    groups = [offset_fetch.RequestGroup(group_id=name) for name in ("x0", "y1", "z0")]
    several = offset_fetch.Request(groups=groups, require_stable=True)
    parts = await route.divided(several, Owners())
    assert {owner: [one.group_id for one in part.groups] for owner, part in parts.items()} == {
        0: ["x0", "z0"], 1: ["y1"],
    }  # fmt: skip
    answer = route.put_together(several, [unreachable(offset_fetch.API, part, 8) for part in parts.values()])
    told = ErrorCode.NOT_COORDINATOR
    assert [(one.group_id, one.error_code) for one in answer.groups] == [("x0", told), ("y1", told), ("z0", told)]
    topics = [offset_fetch.Topic(name="t", partition_indexes=[0, 3])]
    one = offset_fetch.Request(group_id="y1", topics=topics)
    assert await route.divided(one, Owners()) == {1: one}
    assert list(error_codes(unreachable(offset_fetch.API, one, 1))) == [told, told]
    assert unreachable(offset_fetch.API, one, 2).error_code == told


def test_a_commit_that_cannot_be_passed_on_fails_in_its_partitions() -> None:
    partitions = [offset_commit.RequestPartition(partition_index=index, committed_offset=1) for index in (0, 4)]
    topic = offset_commit.RequestTopic(name="t", partitions=partitions)
    request = offset_commit.Request(group_id="g1", topics=[topic])
    assert list(error_codes(unreachable(offset_commit.API, request, 8))) == [GONE, GONE]


def _share_fetch(group: str | None = "g2", max_wait_ms: int = 300) -> share_fetch.Request:
    return share_fetch.Request(
        group_id=group, member_id="m", share_session_epoch=1, topics=[], forgotten_topics_data=[],
        max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1000, max_records=1, batch_size=1,
    )  # fmt: skip


async def test_records_of_a_share_group_are_asked_of_its_coordinator() -> None:
    said = share_acknowledge.Request(group_id="g1", member_id="m", share_session_epoch=1, topics=[])
    for api, request, owner in ((share_fetch.API, _share_fetch(), 2), (share_acknowledge.API, said, 1)):
        route = route_of(api)
        assert await route.divided(request, Owners()) == {owner: request}
        assert route.tells_connection
        assert route.tells_loss
        assert unreachable(api, request, 1).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


async def test_a_share_request_without_a_group_goes_somewhere() -> None:
    class Anywhere(Owners):
        def of_group(self, group_id: str) -> int:
            return len(group_id)

    assert list(await route_of(share_fetch.API).divided(_share_fetch(None), Anywhere())) == [0]


def test_an_answer_of_another_node_is_no_longer_than_the_client_s_may_be() -> None:
    route, request = route_of(share_fetch.API), _share_fetch()
    assert route.limited(request, 1000) is request
    assert route.limited(request, 999).max_bytes == 999
    assert request.max_bytes == 1000
    said = share_acknowledge.Request(group_id="g", member_id="m", share_session_epoch=1, topics=[])
    assert route.limited(said, 1) is said


@pytest.mark.parametrize(("wait_ms", "seconds"), [(-1, 0), (0, 0), (300, 0.3), (60_000, 0.5)])
def test_who_would_ask_again_at_once_waits_a_moment(wait_ms: int, seconds: float) -> None:
    assert route_of(share_fetch.API).pause(_share_fetch(max_wait_ms=wait_ms)) == seconds
    assert route_of(heartbeat.API).pause(heartbeat.Request(group_id="g", generation_id=1, member_id="m")) == 0


async def test_deletions_go_to_the_leaders_of_their_partitions() -> None:
    route = route_of(delete_records.API)

    def topic(name: str, *partitions: int) -> delete_records.RequestTopic:
        wanted = [delete_records.RequestPartition(partition_index=one, offset=5) for one in partitions]
        return delete_records.RequestTopic(name=name, partitions=wanted)

    request = delete_records.Request(topics=[topic("a", 0, 1, 3), topic("b", 4)], timeout_ms=7)
    parts = await route.divided(request, Owners())
    assert parts == {
        0: delete_records.Request(topics=[topic("a", 0, 3)], timeout_ms=7),
        1: delete_records.Request(topics=[topic("a", 1), topic("b", 4)], timeout_ms=7),
    }
    answer = route.put_together(request, [unreachable(delete_records.API, part, 2) for part in parts.values()])
    found = [(one.name, [part.partition_index for part in one.partitions]) for one in answer.topics]
    assert found == [("a", [0, 1, 3]), ("b", [4])]
    assert set(error_codes(answer)) == {ErrorCode.NOT_LEADER_OR_FOLLOWER}


async def test_lists_of_groups_are_joined_and_say_if_one_is_missing() -> None:
    route = route_of(list_groups.API)
    request = list_groups.Request()
    assert await route.divided(request, Owners()) == {0: request, 1: request, 2: request}
    lists: list[Any] = [
        list_groups.Response(error_code=0, groups=[list_groups.Group(group_id=name, protocol_type="consumer")])
        for name in ("x", "y")
    ]
    whole = route.put_together(request, lists)
    assert (whole.error_code, [one.group_id for one in whole.groups]) == (0, ["x", "y"])
    assert route.put_together(request, [*lists, unreachable(list_groups.API, request, 4)]).error_code == GONE


@pytest.mark.parametrize("key", [describe_groups.API.key, delete_groups.API.key, delete_records.API.key])
async def test_a_request_about_nothing_is_answered_here(key: int) -> None:
    api = APIS[key]
    fields = {"topics": [], "timeout_ms": 1} if api is delete_records.API else {}
    fields |= {"groups": []} if api is describe_groups.API else {}
    fields |= {"groups_names": []} if api is delete_groups.API else {}
    request = api.request(**fields)
    assert await route_of(api).divided(request, Owners()) == {0: request}
