"""Three clients under load go from a Kafka to the bridge and home, by each program and the steps of the page.

`pytest -s tests/migration` prints the pauses.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bridge.node.orphans import Guard
from tests.migration import by_copy, by_mirror
from tests.migration.work import Work
from tests.support.kafka_broker import KafkaBroker

Walk = Callable[[Work, str, str, int, Guard, Path], None]
WALKS = pytest.mark.parametrize(
    "walk", [pytest.param(by_mirror.walk, id="mirror"), pytest.param(by_copy.walk, id="copy")]
)


@WALKS
@pytest.mark.timeout(900)
@pytest.mark.parametrize("work", [100], indirect=True)
def test_clients_move_to_the_bridge_and_home(
    walk: Walk, work: Work, real_kafka: KafkaBroker, at_bridge: str, guard: Guard, tmp_path: Path
) -> None:
    walk(work, real_kafka.kafka, at_bridge, 100, guard, tmp_path)


@WALKS
@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("work", [500], indirect=True)
def test_the_same_with_more_of_everything(
    walk: Walk, work: Work, real_kafka: KafkaBroker, at_bridge: str, guard: Guard, tmp_path: Path
) -> None:
    walk(work, real_kafka.kafka, at_bridge, 30_000, guard, tmp_path)
