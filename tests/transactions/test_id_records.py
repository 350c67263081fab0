"""The newest record of each id, packed where it names nothing."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given

from bridge.transactions import records
from bridge.transactions.id_records import IdRecords
from bridge.transactions.outcomes import SlotOutcomes
from bridge.transactions.state import Ended, Status, TransactionRecord
from tests.transactions.examples import transaction_records


@given(record=transaction_records())
def test_what_is_kept_comes_back(record: TransactionRecord) -> None:
    kept = IdRecords()
    kept.put("x", record)
    assert kept["x"] == record
    assert kept.standing("x") == (record.identity, record.status)
    assert (list(kept), len(kept)) == (["x"], 1)
    kept.remove("x")
    assert kept.get("x") is None
    with pytest.raises(KeyError):
        kept.standing("x")


def test_an_id_without_an_open_transaction_takes_little_memory() -> None:
    """The text of the id and two dictionaries are most of it: 285 bytes with ids of 29 characters."""
    count = 20_000
    names = [f"payments-service-{number:06}-0_{number % 8}" for number in range(count)]
    values = [(records.id_key(name), records.encode(_idle(number))) for number, name in enumerate(names)]
    tracemalloc.start()
    try:
        slot = SlotOutcomes()
        for key, value in values:
            slot.apply(key, value)
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used / count <= 320
    assert len(slot.records) == count


def _idle(number: int) -> TransactionRecord:
    producer_id = (1 << 40) + number * 1_000_003
    ended = Ended(producer_id, 299, "i")
    return TransactionRecord(
        number % 1000 + 300, producer_id, 300, 7000 + number, Status.COMMITTED, 1, 60_000, 1_764_000_000_000 + number,
        1_764_000_060_000 + number, ended, {}, {}, frozenset(),
    )  # fmt: skip
