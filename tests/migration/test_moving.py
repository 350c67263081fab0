"""Clients under load go from a Kafka to the bridge and home, by each program and the steps of the page.

`pytest -s tests/migration` prints the pauses.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bridge.node.orphans import Guard
from tests.migration import by_copy, by_mirror
from tests.migration.work import LIBRARIES, Work
from tests.support.kafka_broker import KafkaBroker

Walk = Callable[[Work, str, str, int, Guard, Path], None]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("walk", "work", "records"),
    [
        pytest.param(by_mirror.walk, (30, LIBRARIES), 30, id="30-30-mirror"),
        # what a client does when it moves is the same, and tests/pipeline has the copy
        pytest.param(by_copy.walk, (100, ("confluent",)), 100, id="100-100-copy", marks=pytest.mark.soak),
        pytest.param(by_mirror.walk, (500, LIBRARIES), 30_000, id="500-30000-mirror", marks=pytest.mark.soak),
        pytest.param(by_copy.walk, (500, LIBRARIES), 30_000, id="500-30000-copy", marks=pytest.mark.soak),
    ],
    indirect=["work"],
)
def test_clients_move_to_the_bridge_and_home(
    walk: Walk, work: Work, records: int, real_kafka: KafkaBroker, at_bridge: str, guard: Guard, tmp_path: Path
) -> None:
    walk(work, real_kafka.kafka, at_bridge, records, guard, tmp_path)
