"""Nodes are frozen, or cut off from Pulsar or from their clients, and come back; Pulsar is killed under all of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.faults.figures import report
from tests.faults.ledgers import ledger_starts
from tests.faults.nodes.load import PARTITIONS, NodesLoad, members_named, nodes_load
from tests.faults.processes import let_pass
from tests.support.nodes import Node, Nodes
from tests.support.pulsar import PrivatePulsar

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]

_CLIENTS_GIVE_UP_SECONDS = 120.0
"""Requests under way at a node that is silent wait for their clients' own time-outs, 30 s to 60 s."""


def through(running: NodesLoad, victim: Node, fault: AbstractContextManager[None], seconds: float) -> None:
    """Do something to a node for a time; then all clients go on, and every node lists all again."""
    led = running.led_by(victim)
    began = time.monotonic()
    with fault:
        let_pass(seconds)
    elsewhere = set(range(running.partitions)) - led
    took = running.first_acks(began, led, _CLIENTS_GIVE_UP_SECONDS)
    others = running.first_acks(began, elsewhere, _CLIENTS_GIVE_UP_SECONDS)
    running.more(60, _CLIENTS_GIVE_UP_SECONDS)
    whole = len(running.nodes.all)
    running.until_settled(lambda: set(members_named(running.nodes.all).values()) == {whole})
    verdict = running.judged()
    report(verdict=verdict, seconds=seconds, first_ack=round(took, 2), others=round(others, 2))


@pytest.mark.parametrize("seconds", [6, 40])
@pytest.mark.parametrize("who", ["controller", "other"])
def test_a_node_is_frozen(
    start_nodes: Callable[..., Nodes], topic: str, tmp_path: Path, go: bool, who: str, seconds: int
) -> None:
    with nodes_load(start_nodes(3), topic, tmp_path, go=go) as running:
        victim = running.pick(who)
        through(running, victim, victim.frozen(), seconds)


@pytest.mark.parametrize("half_open", [True, False])
@pytest.mark.parametrize("who", ["controller", "other"])
def test_a_node_is_cut_off_from_pulsar(
    start_nodes: Callable[..., Nodes], topic: str, tmp_path: Path, go: bool, who: str, half_open: bool
) -> None:
    with nodes_load(start_nodes(3, relayed=True), topic, tmp_path, go=go) as running:
        victim = running.pick(who)
        through(running, victim, victim.without_pulsar(half_open=half_open), 20)


@pytest.mark.parametrize("half_open", [True, False])
def test_a_node_is_cut_off_from_clients(
    start_nodes: Callable[..., Nodes], topic: str, tmp_path: Path, go: bool, half_open: bool
) -> None:
    with nodes_load(start_nodes(3, relayed=True), topic, tmp_path, go=go) as running:
        victim = running.pick("other")
        through(running, victim, victim.without_clients(half_open=half_open), 10)


@pytest.mark.parametrize("seconds", [0, 45])
def test_no_node_is_removed_when_pulsar_is_killed(
    start_nodes: Callable[..., Nodes],
    broker: PrivatePulsar,
    broker_namespace: str,
    topic: str,
    tmp_path: Path,
    go: bool,
    seconds: int,
) -> None:
    """`seconds`: that it is away at least. After 30 s aiokafka gives up what has no leader, and its sequences."""
    with nodes_load(start_nodes(3), topic, tmp_path, go=go) as running:
        removed = {node.name: len(node.logged('reason="dead')) for node in running.nodes.all}
        broker.kill()
        let_pass(seconds)
        broker.start()
        gap = running.recovery(_CLIENTS_GIVE_UP_SECONDS)
        running.more(60, _CLIENTS_GIVE_UP_SECONDS)
        running.until_settled(lambda: set(members_named(running.nodes.all).values()) == {3})
        starts = ledger_starts(broker, broker_namespace, topic, PARTITIONS)
        verdict = running.judged(gap_ends=starts)
        assert {node.name: len(node.logged('reason="dead')) for node in running.nodes.all} == removed
    report(verdict=verdict, recovery=round(gap, 2))
