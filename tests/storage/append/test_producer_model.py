"""Which Pulsar producers may carry the batches of idempotent Kafka producers: all orders of a few events, by a model.

It is why each has one of its own. docs/decisions/023 says what one for several would need.
"""

import pytest

from tests.storage.append.producer_model import Design, Naming, State, explore

SAFE = [Design(Naming.OWN), Design(Naming.PARTITION), Design(Naming.PARTITION, scan=2)]
"""With one batch of another client in between, two entries are all that may have to be read."""


@pytest.mark.parametrize("design", SAFE, ids=str)
def test_no_order_of_events_loses_doubles_or_reorders_a_batch(design: Design) -> None:
    assert explore(design)[1] == []


@pytest.mark.parametrize(
    ("design", "fault"),
    [
        (Design(Naming.NODE), "a batch is stored twice"),
        (Design(Naming.PARTITION, scan=1), "a batch is stored twice"),
        (Design(Naming.PARTITION, compares=False), "an acknowledged batch is lost"),
    ],
    ids=str,
)
def test_the_model_finds_what_is_wrong_with_the_others(design: Design, fault: str) -> None:
    assert explore(design)[1][-1] == fault


@pytest.mark.parametrize("design", SAFE, ids=str)
def test_the_model_gets_through_all_its_faults(design: Design) -> None:
    def done(state: State) -> str | None:
        is_over = state.answered == 2 and not (state.timeouts or state.cuts) and state.nodes[1].is_open
        return "done" if is_over and not state.nodes[0].leads else None

    assert explore(design, done)[1][-1] == "done"
