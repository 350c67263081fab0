"""All nodes as one broker: what every node answers is the same, whatever the view gives to it."""

from __future__ import annotations

import asyncio

import pytest

from bridge.cluster import NO_EPOCH, Cluster, ClusterSnapshot
from bridge.cluster.membership.effects import Serving
from bridge.cluster.membership.view import ClusterView, Endpoint, NodeRegistration
from bridge.cluster.one_broker import BROKER_ID, OneBroker
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode

ADDRESS = Endpoint("PLAINTEXT", "kafka.example", 9092)


def made() -> tuple[Cluster, OneBroker]:
    nodes = Cluster("id")
    return nodes, OneBroker(nodes, ADDRESS)


def view(version: int, *members: int) -> ClusterView:
    registered = {one: NodeRegistration(f"n{one}", 1, one, (Endpoint("PLAINTEXT", "x", one),)) for one in members}
    ids = {f"n{one}": one for one in members}
    owners = tuple(members[slot % len(members)] for slot in range(8))
    return ClusterView(version, members[0], registered, ids, owners, (version,) * 8, owners)


def test_there_is_one_broker_and_it_leads_everything() -> None:
    nodes, one = made()
    nodes.update(view(7, 3, 4, 5), 4, Serving.SERVE)
    assert [(node.id, node.host, node.port) for node in one.snapshot.nodes] == [(BROKER_ID, "kafka.example", 9092)]
    assert one.node.id == BROKER_ID
    assert one.snapshot.controller == one.node
    for partition in range(20):
        leader = one.snapshot.leader("t", partition)
        assert (leader.node, leader.epoch, leader.replicas) == (one.node, NO_EPOCH, [BROKER_ID])
        one.check_leader("t", partition)
    assert {one.snapshot.coordinator(slot) for slot in range(8)} == {one.node}


def test_epochs_that_clients_have_known_elsewhere_do_not_matter() -> None:
    nodes, one = made()
    nodes.update(view(7, 3), 3, Serving.SERVE)
    for epoch in (NO_EPOCH, 0, 217_000_000):
        one.check_leader("t", 0, epoch)


def test_nothing_is_lost_when_the_nodes_change() -> None:
    async def change() -> tuple[OneBroker, ClusterSnapshot]:
        nodes, one = made()
        nodes.update(view(7, 3, 4), 3, Serving.SERVE)
        before = one.snapshot
        nodes.update(view(8, 3), 3, Serving.SERVE)
        return one, before

    one, before = asyncio.run(change())
    assert one.snapshot.version == 8
    assert one.snapshot.has_servers_of(before)
    assert not before.is_anything_lost(BROKER_ID, one.snapshot)


def test_a_node_that_is_cut_off_or_no_member_serves_nothing() -> None:
    nodes, one = made()
    with pytest.raises(KafkaError):
        one.check_leader("t", 0)
    nodes.update(view(7, 3, 4), 3, Serving.SERVE)
    nodes.update(nodes.view, 3, Serving.REFUSE)
    with pytest.raises(KafkaError) as raised:
        one.check_leader("t", 0)
    assert raised.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
