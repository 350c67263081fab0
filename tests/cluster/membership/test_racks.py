"""Which node of each rack serves what another one leads, in any view."""

from dataclasses import replace
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from bridge.cluster import Cluster, ClusterSnapshot
from bridge.cluster.membership.effects import Serving
from bridge.cluster.membership.racks import Racks, racks_of
from bridge.cluster.membership.view import ClusterView, Endpoint, NodeRegistration, NodeState
from bridge.cluster.shared_settings import fingerprint
from bridge.config import Settings
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from tests.cluster.strategies import members

ON: Final = fingerprint(Settings().with_values(cluster={"rack_aware_fetch": True}))
OFF: Final = fingerprint(Settings())
SLOTS = 64


def node(id_: int, rack: str, **fields: object) -> NodeRegistration:
    base = NodeRegistration(f"n{id_}", 1, id_, (Endpoint("PLAINTEXT", f"h{id_}", 1),), rack=rack, settings=ON)
    return replace(base, **fields)  # type: ignore[arg-type]


def view(*nodes: NodeRegistration, drained: frozenset[str] = frozenset(), version: int = 7) -> ClusterView:
    owners = tuple(nodes[slot % len(nodes)].id for slot in range(SLOTS))
    by_id = {one.id: one for one in nodes}
    return ClusterView(version, nodes[0].id, by_id, {}, owners, (version,) * SLOTS, owners, drained=drained)


THREE = (node(1, "a"), node(2, "b"), node(3, "c"))


def followers(*nodes: NodeRegistration, owner: int = 1, drained: frozenset[str] = frozenset()) -> set[int]:
    return set(racks_of(view(*nodes, drained=drained)).followers(5, owner))


def test_one_node_in_each_rack_but_the_leader_s() -> None:
    assert followers(*THREE) == {2, 3}
    assert followers(*THREE, owner=2) == {1, 3}
    assert followers(*THREE, node(4, "a")) == {2, 3}
    assert len(followers(*THREE, node(4, "b"))) == 2
    racks = racks_of(view(*THREE))
    assert [racks.reader(rack, 5, 1) for rack in ("a", "b", "c", "", "x")] == [None, 2, 3, None, None]
    assert racks.reader("b", 5, 99) is None, "the leader is not there"


def test_a_leader_without_a_rack_has_followers_and_follows_nothing() -> None:
    assert followers(node(1, ""), *THREE[1:]) == {2, 3}
    assert followers(node(1, ""), *THREE[1:], owner=2) == {3}


def test_only_nodes_that_go_by_racks_and_may_lead_something_serve_others_partitions() -> None:
    assert followers(*THREE[:2], node(3, "c", settings=OFF)) == {2}
    assert followers(*THREE[:2], node(3, "c", settings="")) == {2}
    assert followers(*THREE[:2], node(3, "c", state=NodeState.LEAVING)) == {2}
    assert followers(*THREE[:2], node(3, "c", weight=0)) == {2}
    assert followers(*THREE, drained=frozenset({"n3"})) == {2}
    assert followers(node(1, "a", settings=OFF), *THREE[1:]) == set(), "this leader sends no client away"
    assert not racks_of(view(node(1, "a", settings=OFF), node(2, "b", settings=OFF)))


def test_when_a_node_goes_only_what_it_served_changes() -> None:
    many = tuple(node(id_, "b") for id_ in range(2, 8))
    before, after = (racks_of(view(node(1, "a"), *some)) for some in (many, many[:-1]))
    chosen = [(before.reader("b", slot, 1), after.reader("b", slot, 1)) for slot in range(4096)]
    assert all(old == new for old, new in chosen if old != 7)
    for id_ in range(2, 8):
        assert 4096 / 6 * 0.8 < sum(old == id_ for old, _ in chosen) < 4096 / 6 * 1.2


def test_the_order_of_nodes_is_the_same_in_all_versions() -> None:
    racks = Racks({1: "a"}, {"b": (2, 3, 4)})
    assert [racks.reader("b", slot, 1) for slot in range(12)] == FIRST_CHOICES


FIRST_CHOICES: Final = [2, 4, 2, 2, 3, 3, 3, 3, 3, 2, 3, 2]


@given(members, st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=8), st.booleans())
def test_followers_are_brokers_of_the_same_view(
    found: dict[int, NodeRegistration], some: list[int], is_cut_off: bool
) -> None:
    aware = {id_: replace(one, settings=ON if id_ % 3 else OFF) for id_, one in found.items()}
    owners = tuple([*aware, *some][:SLOTS])
    newest = ClusterView(7, -1, aware, {}, owners, (7,) * len(owners), ())
    snapshot = ClusterSnapshot(newest, some[0], is_cut_off=is_cut_off)
    brokers = {one.id: one for one in snapshot.nodes}
    for partition in range(len(owners)):
        leader = snapshot.leader("t", partition)
        others = snapshot.followers("t", partition)
        assert set(others) <= set(brokers)
        assert leader.owner not in others and len(set(others)) == len(others)
        told = [brokers[id_].rack for id_ in others]
        assert None not in told and len(set(told)) == len(told)
        if leader.node is not None:
            assert leader.node.rack not in told
        for rack in {one.rack for one in aware.values()}:
            reader = snapshot.reader_in(rack, "t", partition)
            assert reader is None or (reader in others and brokers[reader].rack == rack)
        assert snapshot.followers("t", partition) == ClusterSnapshot(newest, -5).followers("t", partition)


def error_of(cluster: Cluster, partition: int, epoch: int = -1) -> int:
    try:
        cluster.check_leader("t", partition, epoch, or_follower=True)
    except KafkaError as error:
        return error.code
    return 0


def test_a_follower_may_serve_and_checks_the_epoch_as_the_leader_does() -> None:
    cluster = Cluster("c")
    spare = node(4, "b", weight=0)
    cluster.update(view(*THREE, spare), 2, Serving.SERVE)
    snapshot = cluster.snapshot
    for partition in range(SLOTS):
        leads = snapshot.leads(2, "t", partition)
        serves = leads or snapshot.follows(2, "t", partition)
        assert error_of(cluster, partition) == (0 if serves else ErrorCode.NOT_LEADER_OR_FOLLOWER)
        assert error_of(cluster, partition, 8) == ErrorCode.UNKNOWN_LEADER_EPOCH
        assert error_of(cluster, partition, 6) == (
            ErrorCode.FENCED_LEADER_EPOCH if serves else ErrorCode.NOT_LEADER_OR_FOLLOWER
        )
        if not leads:
            try:
                cluster.check_leader("t", partition)
            except KafkaError as error:
                assert error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            else:
                raise AssertionError("only a Fetch may be served by a follower")
    cluster.update(view(*THREE, spare), 2, Serving.REFUSE)
    assert {error_of(cluster, partition) for partition in range(SLOTS)} == {ErrorCode.NOT_LEADER_OR_FOLLOWER}


def test_who_waits_at_a_follower_looks_again_when_racks_or_leaders_change() -> None:
    first = ClusterSnapshot(view(*THREE), 3)
    assert not first.is_anything_lost(3, ClusterSnapshot(view(*THREE), 3))
    assert first.is_anything_lost(3, ClusterSnapshot(view(*THREE, node(4, "c")), 3))
    assert first.is_anything_lost(3, ClusterSnapshot(view(*THREE, version=8), 3))
    plain = [ClusterSnapshot(view(*(replace(one, settings=OFF) for one in some)), 3) for some in (THREE, THREE)]
    assert not plain[0].is_anything_lost(3, plain[1])
    assert first.has_servers_of(ClusterSnapshot(view(*THREE, version=8), 3))
    assert not first.has_servers_of(plain[0])
