"""The bridge and Pulsar are killed in the middle of rebalances and commits: no committed offset is lost or moves back,
and all groups resume. `--group-kills 20` for the long run."""

from __future__ import annotations

import pytest

from tests.faults.group_scene import scene
from tests.support.bridges import BridgeChild
from tests.support.pulsar import PrivatePulsar


@pytest.fixture
def kills(request: pytest.FixtureRequest) -> int:
    """How many kills in all."""
    return int(request.config.getoption("--group-kills", default=2))


@pytest.mark.timeout(1800)
def test_no_committed_offset_is_lost_when_the_bridge_or_pulsar_is_killed(
    broker: PrivatePulsar, bridge_child: BridgeChild, topic: str, kills: int
) -> None:
    recoveries = {"bridge": list[float](), "pulsar": list[float]()}
    with scene(bridge_child.kafka, topic) as running:
        for kill in range(kills):
            running.busy()
            victim: BridgeChild | PrivatePulsar = broker if kill % 2 else bridge_child
            victim.kill()
            victim.start()
            recoveries["pulsar" if kill % 2 else "bridge"].append(round(running.resumed(), 2))
        running.busy()
        progress = running.progress()
    running.check()
    print("figures: seconds until all groups committed again", recoveries, "commits, rebalances", progress)
