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


@pytest.mark.timeout(900)
@pytest.mark.parametrize("walk", [pytest.param(by_mirror.walk, id="mirror"), pytest.param(by_copy.walk, id="copy")])
@pytest.mark.parametrize(
    ("work", "records"), [(100, 100), pytest.param(500, 30_000, marks=pytest.mark.soak)], indirect=["work"]
)
def test_clients_move_to_the_bridge_and_home(
    walk: Walk, work: Work, records: int, real_kafka: KafkaBroker, at_bridge: str, guard: Guard, tmp_path: Path
) -> None:
    walk(work, real_kafka.kafka, at_bridge, records, guard, tmp_path)
