"""Bad requests get Kafka's errors and texts, which tools look for: pinned in tables, proved on a real Kafka."""

from __future__ import annotations

from itertools import chain

import pytest

from tests.clients.endpoint import Endpoint
from tests.clients.refusals import (
    cluster,
    configs,
    consumer_groups,
    edges,
    groups,
    offsets,
    records,
    security,
    topics,
    transactions,
)
from tests.clients.refusals.case import Case, World
from tests.clients.refusals.world import world

TABLES = (topics, configs, records, groups, offsets, consumer_groups, cluster, security, transactions, edges)
CASES = list(chain.from_iterable(table.CASES for table in TABLES))


@pytest.fixture(scope="module")
def there(endpoint: Endpoint) -> World:
    """Return what the requests are about."""
    return world(endpoint.kafka)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_bad_request_is_told_what_kafka_tells(endpoint: Endpoint, there: World, case: Case) -> None:
    pinned = case.ours if case.ours and endpoint.name == "bridge" else case.kafka
    assert case.told(there) == there.fill(pinned)


def test_what_differs_from_kafka_says_why() -> None:
    assert all(bool(case.ours) == bool(case.why) and case.ours != case.kafka for case in CASES)
