"""Transactions request by request: what each is told in each state, and step by step, proved on a real Kafka."""

from __future__ import annotations

import pytest

from tests.clients.endpoint import Endpoint
from tests.clients.refusals import transaction_scripts, transaction_states
from tests.clients.refusals.case import World
from tests.clients.refusals.transaction_scripts import Script
from tests.clients.refusals.transaction_states import Cell
from tests.clients.refusals.world import world

CELLS, SCRIPTS = transaction_states.CASES, transaction_scripts.CASES


@pytest.fixture(scope="module")
def there(endpoint: Endpoint) -> World:
    """Return what the requests are about."""
    return world(endpoint.kafka)


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.id)
def test_a_request_is_told_what_kafka_tells_in_its_state(endpoint: Endpoint, there: World, cell: Cell) -> None:
    pinned = cell.ours if cell.ours and endpoint.name == "bridge" else cell.kafka
    assert cell.told(there) == pinned


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.id)
def test_requests_are_told_what_kafka_tells(endpoint: Endpoint, there: World, script: Script) -> None:
    pinned = script.ours if script.ours and endpoint.name == "bridge" else script.kafka
    assert script.told(there) == pinned


def test_every_state_is_asked_everything() -> None:
    asked = {(cell.request, cell.by, cell.state) for cell in CELLS}
    assert len(asked) == len(CELLS)
    for request in transaction_states.REQUESTS:
        # who has no transactional id may write what others may; an InitProducerId without a name is nobody's
        states = set(transaction_states.STATES) - ({"none"} if request == "write plainly" else set())
        askers = ["current"] if request == "init" else list(transaction_states.ASKERS)
        assert {(by, state) for of, by, state in asked if of == request} == {(b, s) for b in askers for s in states}


def test_what_differs_from_kafka_says_why() -> None:
    pinned = [*((one.kafka, one.ours, one.why) for one in CELLS), *((one.kafka, one.ours, one.why) for one in SCRIPTS)]
    assert all(bool(ours) == bool(why) and ours != kafka for kafka, ours, why in pinned)
