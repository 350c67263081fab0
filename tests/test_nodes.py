"""What operators are shown of a cluster: `bridge nodes`, and the page /cluster."""

import io
import json
import urllib.request

from bridge.cluster.description import describe
from bridge.nodes import read_view, show
from tests.cluster.nodes import GROUPS, SLOTS, members
from tests.support.bridges import BridgeThread, settings_for
from tests.support.pulsar import PulsarAddress


async def test_nodes_are_shown_as_the_view_log_has_them(pulsar: PulsarAddress) -> None:
    async with members(pulsar) as cluster:
        settings = settings_for(pulsar, cluster.namespace)
        out = io.StringIO()
        one, two = await cluster.start("a"), await cluster.start("b")
        await cluster.agree(one, two)
        assert await show(settings, out) == 0
        lines = out.getvalue().splitlines()
        assert lines[0].startswith(f"{cluster.namespace}, version ")
        assert [line.split()[:7] for line in lines[2:]] == [
            ["0", "a", "a:9092", "up", "1", str(SLOTS // 2), str(GROUPS // 2)],
            ["1", "b", "b:9092", "up", "1", str(SLOTS // 2), str(GROUPS // 2)],
        ]
        assert [line.split()[-1] == "controller" for line in lines[2:]] == [True, False]
        assert await read_view(settings) == one.cluster.view


def test_the_page_of_a_node_is_its_view(bridge: BridgeThread) -> None:
    with urllib.request.urlopen(f"{bridge.http}/cluster", timeout=10) as answer:  # noqa: S310 - the tests' own server
        found = json.load(answer)
    assert bridge.server.cluster is not None
    assert found == json.loads(json.dumps(describe(bridge.server.cluster.view)))
    (node,) = found["members"]
    assert (node["endpoints"], node["slots_led"]) == ([f"PLAINTEXT://{bridge.kafka}"], found["slots"])
