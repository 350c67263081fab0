"""What handlers are told of leadership, whatever the view."""

import asyncio
from dataclasses import replace

import pytest

from bridge.cluster import Cluster, ClusterSnapshot, Node, single_node
from bridge.cluster.membership.effects import Serving
from bridge.cluster.membership.slots import slot_of
from bridge.cluster.membership.view import ClusterView, Endpoint, NodeRegistration, NodeState
from bridge.config import INTERNAL
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode

SLOTS = 16


def member(id_: int, state: NodeState = NodeState.UP) -> NodeRegistration:
    return NodeRegistration(f"n{id_}", 1, id_, (Endpoint("PLAINTEXT", "host", 9000 + id_),), state=state, since=1)


def view(version: int, owners: tuple[int, ...], *members: NodeRegistration, epoch: int = 0) -> ClusterView:
    return ClusterView(
        version, members[0].id, {one.id: one for one in members}, {}, owners, (epoch or version,) * SLOTS, owners
    )


def halves(version: int, *members: NodeRegistration, epoch: int = 0) -> ClusterView:
    return view(version, tuple(members[slot % len(members)].id for slot in range(SLOTS)), *members, epoch=epoch)


def cluster_with(newest: ClusterView, serving: Serving = Serving.SERVE, node_id: int = 1) -> Cluster:
    cluster = Cluster("c")
    cluster.update(newest, node_id, serving)
    return cluster


def error_of(cluster: Cluster, partition: int, epoch: int = -1) -> int | None:
    try:
        cluster.check_leader("t", partition, epoch)
    except KafkaError as error:
        return error.code
    return None


def partition_of(node_id: int, newest: ClusterView) -> int:
    return next(index for index in range(SLOTS) if newest.owners[slot_of("t", index, SLOTS)] == node_id)


def test_every_partition_has_the_leader_of_its_slot() -> None:
    newest = halves(7, member(1), member(2))
    snapshot = ClusterSnapshot(newest, 1)
    for index in range(40):
        leader = snapshot.leader("t", index)
        assert leader.node is not None
        assert leader.node.id == newest.owners[slot_of("t", index, SLOTS)]
        assert leader.epoch == 7
        assert snapshot.leads(1, "t", index) == (leader.node.id == 1)


def test_nodes_can_ask_each_other_where_each_has_an_internal_listener() -> None:
    def linked(one: NodeRegistration) -> NodeRegistration:
        return replace(one, endpoints=(*one.endpoints, Endpoint(INTERNAL, "host", 9100 + one.id)))

    def can_ask(ids: int, *members: NodeRegistration) -> bool:
        known = replace(halves(7, *members), ids={f"n{id_}": id_ for id_ in range(1, ids + 1)})
        return ClusterSnapshot(known, 1).can_ask_each_other

    one, two = member(1), member(2)
    assert can_ask(1, one)  # there is nobody to ask
    assert not can_ask(2, one, two)
    assert not can_ask(2, linked(one), two)
    assert not can_ask(2, one)  # the other one comes back
    assert can_ask(2, linked(one))
    assert can_ask(2, linked(one), linked(two))


def test_nodes_that_have_gone_are_neither_brokers_nor_leaders() -> None:
    newest = halves(7, member(1), member(2, NodeState.GONE), member(3, NodeState.LEAVING))
    snapshot = ClusterSnapshot(newest, 1)
    assert [node.id for node in snapshot.nodes] == [1, 3]
    assert snapshot.leader("t", partition_of(2, newest)).node is None
    assert snapshot.named_leader("t", partition_of(2, newest)).node is None
    assert snapshot.coordinator(1) is None
    assert snapshot.coordinator(2) == Node(3, "host", 9003)
    assert snapshot.coordinator(SLOTS) is None


def test_another_nodes_partition_is_refused() -> None:
    newest = halves(7, member(1), member(2))
    cluster = cluster_with(newest)
    assert error_of(cluster, partition_of(1, newest)) is None
    assert error_of(cluster, partition_of(2, newest)) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert error_of(cluster, partition_of(2, newest), 7) == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(
    ("epoch", "error"), [(6, ErrorCode.FENCED_LEADER_EPOCH), (7, None), (8, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_a_clients_epoch_is_compared(epoch: int, error: ErrorCode | None) -> None:
    newest = halves(9, member(1), member(2), epoch=7)
    assert error_of(cluster_with(newest), partition_of(1, newest), epoch) == error


def test_a_node_that_is_cut_off_is_still_named_as_leader_but_leads_nothing() -> None:
    newest = halves(7, member(1), member(2))
    cluster = cluster_with(newest, Serving.REFUSE)
    assert [node.id for node in cluster.snapshot.nodes] == [1, 2]
    assert error_of(cluster, partition_of(1, newest)) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert cluster.snapshot.leader("t", partition_of(1, newest)).node is None
    assert cluster.snapshot.leader("t", partition_of(2, newest)).node == Node(2, "host", 9002)
    for node_id in (1, 2):
        named = cluster.snapshot.named_leader("t", partition_of(node_id, newest))
        assert (named.node, named.epoch) == (Node(node_id, "host", 9000 + node_id), 7)


def test_before_it_is_a_member_a_node_serves_nothing() -> None:
    cluster = Cluster("c")
    assert error_of(cluster, 0) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert cluster.snapshot.nodes == []
    with pytest.raises(KafkaError, match="not a member"):
        _ = cluster.node


async def test_a_view_older_than_the_clients_is_waited_for() -> None:
    older, newer = halves(7, member(1), member(2)), halves(8, member(1), member(2))
    cluster = cluster_with(older)
    waiting = asyncio.ensure_future(cluster.caught_up("t", 0, 8, timeout=60))
    for _ in range(3):
        await asyncio.sleep(0)
    cluster.update(older, 1, Serving.SERVE)  # a change that brings nothing
    for _ in range(3):
        await asyncio.sleep(0)
    assert not waiting.done()
    cluster.update(newer, 1, Serving.SERVE)
    await asyncio.wait_for(waiting, 10)
    await cluster.caught_up("t", 0, 9, timeout=0)  # it ends without an error


async def test_appends_wait_while_the_node_does_not_know_what_it_has_missed() -> None:
    newest = halves(7, member(1))
    cluster = cluster_with(newest)
    await cluster.may_append()
    cluster.update(newest, 1, Serving.HOLD)
    waiting = asyncio.ensure_future(cluster.may_append(60))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not waiting.done()
    cluster.update(newest, 1, Serving.SERVE)
    await asyncio.wait_for(waiting, 10)
    cluster.update(newest, 1, Serving.REFUSE)
    with pytest.raises(KafkaError, match="cut off"):
        await cluster.may_append()


def test_changes_are_told_with_the_former_snapshot() -> None:
    older, newer = halves(7, member(1)), halves(8, member(1), member(2))
    cluster = cluster_with(older)
    told: list[tuple[int, int]] = []
    cluster.on_change.append(lambda before, after: told.append((before.version, after.version)))
    cluster.update(newer, 1, Serving.SERVE)
    assert told == [(7, 8)]


def test_a_single_node_leads_everything() -> None:
    cluster = single_node(Node(4, "host", 9092), "c")
    assert cluster.node == Node(4, "host", 9092) == cluster.snapshot.controller
    cluster.check_leader("any", 123)
    assert cluster.snapshot.coordinator(63) == cluster.node
