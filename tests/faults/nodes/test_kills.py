"""Nodes are killed while clients of every family work: nothing is lost, nothing of idempotent ones is double."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest
from confluent_kafka.admin import AdminClient

from tests.faults.figures import report
from tests.faults.nodes.load import NodesLoad, nodes_load
from tests.support.nodes import Node, Nodes


def kill(running: NodesLoad, victim: Node) -> float:
    """Kill a node; seconds until every writer has a first acknowledgement of each partition that it led."""
    led = running.led_by(victim)
    victim.kill()
    took = running.first_acks(time.monotonic(), led)
    assert victim.kafka in brokers_of_librdkafka(running), "librdkafka's consumers may stop for good"
    victim.start()
    running.more(30)
    return round(took, 2)


def brokers_of_librdkafka(running: NodesLoad) -> set[str]:
    """The addresses that librdkafka is told, by a node that lives."""
    live = ",".join(node.kafka for node in running.nodes.all if node.is_running)
    told = AdminClient({"bootstrap.servers": live, "log_level": 0}).list_topics(running.topic, timeout=30)
    return {f"{one.host}:{one.port}" for one in told.brokers.values()}


def kills(running: NodesLoad, times: int) -> None:
    """Kill the controller and another node in turns."""
    took: dict[str, list[float]] = {"controller": [], "other": []}
    for _ in range(times):
        took["controller"].append(kill(running, running.controller()))
        others = running.nodes.others(running.controller())
        took["other"].append(kill(running, running.nodes.random.choice(others)))
    verdict = running.judged()
    for kind, seconds in took.items():
        report(killed=kind, times=times, p50=median(seconds), longest=max(seconds), all=seconds)
    report(verdict=verdict, answers=running.watch.answers, ends=running.watch.ends)


def test_nothing_is_lost_when_nodes_are_killed(start_nodes: Callable[..., Nodes], topic: str) -> None:
    with nodes_load(start_nodes(3), topic) as running:
        kills(running, 1)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_twenty_kills_of_each_kind(start_nodes: Callable[..., Nodes], topic: str, tmp_path: Path, go: bool) -> None:
    with nodes_load(start_nodes(3), topic, tmp_path, go=go) as running:
        kills(running, 20)


@pytest.mark.soak
def test_a_third_of_six_nodes_is_killed_at_once(
    start_nodes: Callable[..., Nodes], topic: str, tmp_path: Path, go: bool
) -> None:
    with nodes_load(start_nodes(6), topic, tmp_path, go=go, partitions=12) as running:
        victims = [running.controller()]
        victims.append(running.nodes.random.choice(running.nodes.others(*victims)))
        led = set[int]().union(*(running.led_by(node) for node in victims))
        for node in victims:
            node.kill()
        took = running.first_acks(time.monotonic(), led)
        running.more(30)
        for node in victims:
            node.start()
        running.more(30)
        verdict = running.judged()
    report(verdict=verdict, took=round(took, 2))
