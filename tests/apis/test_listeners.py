"""What names addresses to clients names those of the listener that they came in by."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from bridge.apis import describe_cluster, describe_topic_partitions, find_coordinator, metadata
from bridge.cluster import Cluster
from bridge.cluster.membership.effects import Serving
from bridge.cluster.membership.view import ClusterView, Endpoint, NodeRegistration
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import ZERO_UUID
from bridge.requests.leadership import LeaderHints
from bridge.requests.session import Session
from bridge.storage.topics.topic import Topic

HERE, OTHER = 1, 2
A, B = "A", "B"


class _Topics:
    async def get(self, name: str) -> Topic:
        return Topic(name, 8, True, ZERO_UUID, 0.0)


def broker() -> Any:
    """Of two nodes, of which only this one has listener B."""
    endpoints = {
        HERE: (Endpoint(A, "a1", 1), Endpoint(B, "b1", 2)),
        OTHER: (Endpoint(A, "a2", 1),),
    }
    nodes = {id_: NodeRegistration(f"n{id_}", 1, id_, endpoints[id_], since=1) for id_ in endpoints}
    owners = (HERE, OTHER) * 4
    view = ClusterView(1, OTHER, nodes, {"n1": HERE, "n2": OTHER}, owners, (1,) * 8, owners)
    cluster = Cluster("cluster")
    cluster.update(view, HERE, Serving.SERVE)
    groups = SimpleNamespace(slot_of=lambda group: 0 if group == "here" else 1)
    return SimpleNamespace(cluster=cluster, topics=_Topics(), groups=groups, settings=None)


def asked(api: Any, request: Any, listener: str, version: int = 12) -> Any:
    return asyncio.run(api.handle(request, broker(), Session(1, "10.0.0.1:1", listener, api_version=version)))


@pytest.mark.parametrize(("listener", "addresses"), [(A, ["a1:1", "a2:1"]), (B, ["b1:2"]), ("NONE", [])])
def test_brokers_are_those_that_have_the_listener(listener: str, addresses: list[str]) -> None:
    told = asked(describe_cluster, describe_cluster.Request(include_cluster_authorized_operations=False), listener)
    assert [f"{one.host}:{one.port}" for one in told.brokers] == addresses
    assert told.controller_id == {A: OTHER, B: HERE, "NONE": -1}[listener]


@pytest.mark.parametrize("version", [1, 5, 6, 12])
def test_a_leader_without_the_listener_is_not_available_there(version: int) -> None:
    request = metadata.Request(topics=[metadata.RequestTopic(name="t")], allow_auto_topic_creation=False)
    with_both, with_one = (asked(metadata, request, listener, version) for listener in (A, B))
    assert [node.host for node in with_both.brokers] == ["a1", "a2"]
    assert {one.leader_id for one in with_both.topics[0].partitions} == {HERE, OTHER}
    assert [node.host for node in with_one.brokers] == ["b1"]
    assert with_one.controller_id == HERE
    unavailable = ErrorCode.LISTENER_NOT_FOUND if version >= 6 else ErrorCode.LEADER_NOT_AVAILABLE
    assert {(one.leader_id, one.error_code, *one.offline_replicas) for one in with_one.topics[0].partitions} == {
        (HERE, ErrorCode.NONE),
        (-1, unavailable, OTHER),
    }


def test_described_partitions_say_so_too() -> None:
    wanted = [describe_topic_partitions.RequestTopic(name="t")]
    request = describe_topic_partitions.Request(topics=wanted, response_partition_limit=100, cursor=None)
    partitions = asked(describe_topic_partitions, request, B).topics[0].partitions
    assert {(one.leader_id, one.error_code) for one in partitions} == {
        (HERE, ErrorCode.NONE),
        (-1, ErrorCode.LISTENER_NOT_FOUND),
    }


def test_a_coordinator_without_the_listener_is_not_available() -> None:
    request = find_coordinator.Request(coordinator_keys=["here", "there"])
    assert [one.host for one in asked(find_coordinator, request, A).coordinators] == ["a1", "a2"]
    found = asked(find_coordinator, request, B).coordinators
    assert [(one.host, one.error_code) for one in found] == [
        ("b1", ErrorCode.NONE),
        ("", ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ]


def test_hints_name_no_leader_that_the_client_cannot_reach() -> None:
    cluster = broker().cluster
    there = next(index for index in range(8) if cluster.snapshot.leader("t", index).owner == OTHER)
    told = LeaderHints(cluster, A)
    assert told.leader("t", there, ErrorCode.NOT_LEADER_OR_FOLLOWER) is not None
    assert [one.host for one in told.endpoints] == ["a2"]
    assert LeaderHints(cluster, B).leader("t", there, ErrorCode.NOT_LEADER_OR_FOLLOWER) is None
