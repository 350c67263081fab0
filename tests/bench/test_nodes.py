"""The benchmark of many nodes: when it takes a change for done."""

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from bench.nodes import Nodes
from bench.stack import Stack
from bridge.config import Settings
from bridge.node.orphans import Guard
from bridge.standalone.bridge_process import BridgeProcess
from tests.support.pulsar import PulsarAddress


class Views(Nodes):
    """Nodes whose views are given."""

    def __init__(self, *views: tuple[int, Sequence[tuple[str, int]]]) -> None:
        self._views = iter(views)

    def view(self, node: BridgeProcess) -> dict[str, object]:
        version, members = next(self._views)
        return {"version": version, "members": [{"name": name, "slots_led": led} for name, led in members]}


class Node:
    def __init__(self, name: str) -> None:
        self.settings = Settings().with_values(cluster={"name": name})


TWO = [cast(BridgeProcess, Node(name)) for name in ("a", "b")]
EQUAL = [("a", 2048), ("b", 2048)]


@pytest.mark.parametrize(
    ("views", "agreed"),
    [
        ([(7, EQUAL), (7, EQUAL)], True),
        ([(7, EQUAL), (8, EQUAL)], False),
        ([(7, [("a", 4096)])] * 2, False),
        ([(7, [("a", 3000), ("b", 1096)])] * 2, False),
        ([(7, [*EQUAL, ("c", 2048)])] * 2, False),
    ],
)
def test_a_change_is_done_when_all_have_one_view_of_the_right_members_with_their_shares(
    views: list[tuple[int, Sequence[tuple[str, int]]]], agreed: bool
) -> None:
    assert Views(*views).agreed(TWO) is agreed


def test_real_nodes_are_asked(pulsar: PulsarAddress, tmp_path: Path) -> None:
    class Running:
        settings = Settings().with_values(
            pulsar={"service_url": pulsar.service_url, "admin_url": pulsar.admin_url}, kafka={"listen": "127.0.0.1:1"}
        )

    class OneBridge:
        bridge = Running()

    with Guard() as guard:
        nodes = Nodes(cast(Stack, OneBridge()), tmp_path, guard)
        one = nodes.all[0]
        one.start()
        try:
            assert nodes.agreed([one])
            assert nodes.view(one)["slots"] == 4096
        finally:
            one.stop()
