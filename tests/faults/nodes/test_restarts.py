"""Nodes are restarted one after the other under clients of every family: none of them meets an error."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.figures import report
from tests.faults.nodes.load import NodesLoad, nodes_load
from tests.support.nodes import Nodes


def roll(running: NodesLoad) -> float:
    """Restart every node; the longest time that any client got nothing from one partition meanwhile."""
    since = time.monotonic()
    for node in running.nodes.all:
        node.stop()
        node.start()
        running.more(10)
    return round(running.longest_pause(since), 2)


def rolls(running: NodesLoad, times: int) -> None:
    pauses = [roll(running) for _ in range(times)]
    verdict = running.judged(pauses_only=True)
    report(verdict=verdict, rolling_restarts=times, longest=max(pauses), all=pauses, answers=running.watch.answers)


def test_no_client_notices_a_rolling_restart(start_nodes: Callable[..., Nodes], topic: str) -> None:
    with nodes_load(start_nodes(3), topic) as running:
        rolls(running, 1)


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_no_client_notices_five_rolling_restarts(
    start_nodes: Callable[..., Nodes], topic: str, tmp_path: Path, go: bool
) -> None:
    with nodes_load(start_nodes(3), topic, tmp_path, go=go) as running:
        rolls(running, 5)
