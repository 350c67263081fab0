"""Nodes are killed and restarted in the middle of rebalances and commits: offsets never go back, and groups resume."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.faults.figures import report
from tests.faults.group_scene import Scene, scene
from tests.faults.nodes.answers import coordinator_at
from tests.support.nodes import Node, Nodes

PROTOCOLS = ("classic", "consumer")


def coordinator(nodes: Nodes, running: Scene) -> Node:
    """The node that coordinates one of the groups."""
    group = nodes.random.choice(running.groups).name
    address = ""
    while not address:
        address = coordinator_at(nodes.any().kafka, group)
    return nodes.at(address)


def kills(nodes: Nodes, topic: str, protocol: str, times: int) -> None:
    """Kill the coordinator of a random group, again and again."""
    took = []
    with scene(nodes.bootstrap(dead=1), topic, protocol) as running:
        for _ in range(times):
            running.busy()
            victim = coordinator(nodes, running)
            victim.kill()
            took.append(round(running.resumed(), 2))
            victim.start()
        running.busy()
    running.check()
    report(protocol=protocol, resumed=took)


def rolls(nodes: Nodes, topic: str, protocol: str, times: int) -> None:
    """Restart every node, one after the other."""
    pauses = []
    with scene(nodes.bootstrap(dead=1), topic, protocol) as running:
        for _ in range(times):
            running.busy()
            since = time.monotonic()
            for node in nodes.all:
                node.stop()
                node.start()
                running.resumed()
            pauses.append(max(round(group.longest_pause(since), 2) for group in running.groups))
        running.busy()
    running.check()
    report(protocol=protocol, pauses=pauses)


@pytest.mark.soak
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_offset_is_lost_when_coordinators_are_killed(
    start_nodes: Callable[..., Nodes], topic: str, protocol: str
) -> None:
    kills(start_nodes(3), topic, protocol, 2)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_twenty_kills_of_coordinators(start_nodes: Callable[..., Nodes], topic: str, protocol: str) -> None:
    kills(start_nodes(3), topic, protocol, 20)


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_groups_go_on_through_rolling_restarts(start_nodes: Callable[..., Nodes], topic: str, protocol: str) -> None:
    rolls(start_nodes(3), topic, protocol, 5)
