"""Slots: who owns which."""

import random
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.cluster.membership.slots import UNOWNED, needed_moves, rebalance, slot_of
from bridge.cluster.membership.view import NodeRegistration
from tests.cluster.simulation.checks import least_moves

SLOTS = 4096
weights = st.dictionaries(st.integers(0, 30), st.integers(0, 5), max_size=12)
owners = st.lists(st.integers(-1, 30), min_size=1, max_size=200)


def _members(weight_of: dict[int, int]) -> dict[int, NodeRegistration]:
    return {id_: NodeRegistration(str(id_), 1, id_, weight=weight) for id_, weight in weight_of.items()}


def _grown(nodes: int) -> tuple[int, ...]:
    owned: tuple[int, ...] = (UNOWNED,) * SLOTS
    for count in range(1, nodes + 1):
        owned = rebalance(owned, dict.fromkeys(range(count), 1))
    return owned


def _busiest(owned: tuple[int, ...], partitions: int, nodes: int) -> float:
    """A topic's partitions on the busiest node, by their share, on average over many topics."""
    chance = random.Random(1)
    found = []
    for _ in range(200):
        first = chance.randrange(SLOTS)
        counts = Counter(owned[(first + partition) % SLOTS] for partition in range(partitions))
        found.append(max(counts.values()) * nodes / partitions)
    return sum(found) / len(found)


def test_partitions_of_a_topic_stand_in_neighbouring_slots() -> None:
    first = slot_of("orders", 0, SLOTS)
    assert [slot_of("orders", partition, SLOTS) for partition in range(3)] == [(first + n) % SLOTS for n in range(3)]
    assert first == 3566  # forever: other versions have to find the same
    assert slot_of("größe", 0, SLOTS) == 2441


@given(owners, weights)
def test_every_node_has_its_share_after_the_fewest_moves(before: list[int], weight_of: dict[int, int]) -> None:
    after = rebalance(before, weight_of)
    moves = sum(old != new for old, new in zip(before, after, strict=True))
    assert moves == needed_moves(before, weight_of) == least_moves(tuple(before), _members(weight_of))
    assert needed_moves(after, weight_of) == 0
    total = sum(weight_of.values())
    counts = Counter(after)
    for node, weight in weight_of.items():
        if total:
            assert abs(counts[node] - len(before) * weight / total) < 1


@given(owners, weights, st.integers(1, 20))
def test_steps_move_no_more_than_one_move_would(before: list[int], weight_of: dict[int, int], most: int) -> None:
    needed, moved, now = needed_moves(before, weight_of), 0, tuple(before)
    while needed_moves(now, weight_of):
        then = rebalance(now, weight_of, most)
        changed = [old for old, new in zip(now, then, strict=True) if old != new]
        assert sum(old in weight_of for old in changed) <= most
        moved, now = moved + len(changed), then
    assert moved == needed


@given(owners, weights)
def test_the_same_goes_in_and_comes_out(before: list[int], weight_of: dict[int, int]) -> None:
    assert rebalance(before, weight_of, 3) == rebalance(tuple(before), dict(reversed(weight_of.items())), 3)


def test_slots_of_nodes_that_are_gone_move_at_once() -> None:
    before = _grown(4)
    after = rebalance(before, {0: 1, 1: 1, 2: 1}, most=0)
    assert 3 not in after
    assert all(new == old for old, new in zip(before, after, strict=True) if old != 3)


def test_a_node_of_weight_zero_gives_its_slots_away_in_steps() -> None:
    before = _grown(2)
    after = rebalance(before, {0: 1, 1: 0}, most=100)
    assert after.count(1) == before.count(1) - 100


def test_without_any_node_nothing_changes() -> None:
    assert rebalance((0, 1, 1), {}) == (0, 1, 1)
    assert rebalance((0, 1, 1), {0: 0}) == (0, 1, 1)
    assert needed_moves((0, 1, 1), {0: 0}) == 0


@pytest.mark.parametrize("nodes", [2, 3, 5, 10, 50, 100])
def test_neighbours_are_on_different_nodes(nodes: int) -> None:
    owned = _grown(nodes)
    same = sum(one == other for one, other in pairwise(owned))
    assert same < SLOTS / 30


@pytest.mark.parametrize(
    ("nodes", "partitions", "most"),
    [(2, 6, 1.1), (3, 12, 1.3), (3, 100, 1.1), (10, 12, 2.0), (10, 100, 1.3), (100, 100, 3.5), (100, 1000, 1.6)],
)
def test_a_topic_is_spread_over_the_nodes(nodes: int, partitions: int, most: float) -> None:
    assert _busiest(_grown(nodes), partitions, nodes) < most


def test_a_topic_stays_spread_while_nodes_come_and_go() -> None:
    chance, owned, members = random.Random(5), _grown(10), set(range(10))
    for number in range(10, 40):
        members = (members - {chance.choice(sorted(members))}) | {number}
        owned = rebalance(owned, dict.fromkeys(members, 1))
    assert _busiest(owned, 12, 10) < 2.1
    assert _busiest(owned, 100, 10) < 1.4
