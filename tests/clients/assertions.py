"""What records must be when they are read again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tests.clients.endpoint import Written
from tests.clients.model import Delivery, Draft, Record


def assert_deliveries_dense(written: Written) -> None:
    """Every record went where it was sent, and each partition counts from 0 in the order of sending."""
    following: Counter[int] = Counter()
    for draft, delivery in zip(written.drafts, written.deliveries, strict=True):
        assert delivery.partition == draft.partition, draft.name
        assert delivery.offset == following[delivery.partition], draft.name
        following[delivery.partition] += 1


def assert_read(written: Written, records: Iterable[Record]) -> None:
    """What was read is what was written: each record once, at the offset of its delivery, each field equal."""
    found: dict[tuple[int, int], Record] = {}
    for record in records:
        assert found.setdefault((record.partition, record.offset), record) is record, f"read twice: {record.offset}"
    for draft, delivery in zip(written.drafts, written.deliveries, strict=True):
        assert_same(written, draft, delivery, found)
    assert not found, f"these were not written: {sorted(found)}"


def assert_same(written: Written, draft: Draft, delivery: Delivery, found: dict[tuple[int, int], Record]) -> None:
    """Take the record at the delivery's offset and compare it with the draft."""
    record = found.pop((delivery.partition, delivery.offset), None)
    assert record is not None, f"{draft.name}: nothing at {delivery}"
    assert record.topic == written.topic
    assert (draft.name, record.key) == (draft.name, draft.key)
    assert (draft.name, record.headers) == (draft.name, draft.headers)
    assert record.value == draft.value, draft.name
    if draft.timestamp is None:
        assert written.started <= record.timestamp <= written.ended, draft.name
    else:
        assert record.timestamp == draft.timestamp, draft.name
    if delivery.timestamp is not None:
        assert delivery.timestamp == record.timestamp, draft.name
