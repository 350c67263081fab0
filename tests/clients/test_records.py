"""Every client reads every field of what every client wrote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

from tests.clients import drafts
from tests.clients.endpoint import FAMILIES, Clients, Written
from tests.clients.model import CODECS, Delivery, Draft, Record

# what a client has no way to write; everything else is asked of it
CANNOT_WRITE = {
    "kafka-python": {"value-null-key-null", "headers-null-value"},
    "kafka-python-2": {"value-null-key-null", "headers-null-value"},
    "confluent": {"time-zero"},
    "aiokafka": {"value-null-key-null"},
    "kcat": {
        "value-null-key-empty",
        "value-empty-key-null",
        "headers-zero-byte",
        "time-old",
        "time-zero",
        "time-older-than-the-one-before",
    },
    "java": set[str](),
    "java-3.9": set[str](),
}


@pytest.mark.parametrize("writer", FAMILIES)
def test_a_client_is_asked_to_write_all_it_can(clients: Clients, writer: str) -> None:
    written = {draft.name for draft in clients.all_fields(writer).drafts}
    assert {draft.name for draft in drafts.all_fields()} - written == CANNOT_WRITE[writer]


@pytest.mark.parametrize("writer", FAMILIES)
def test_deliveries_tell_partition_and_dense_offsets(clients: Clients, writer: str) -> None:
    assert_deliveries_dense(clients.all_fields(writer))


@pytest.mark.parametrize("reader", FAMILIES)
@pytest.mark.parametrize("writer", FAMILIES)
def test_all_fields(clients: Clients, writer: str, reader: str) -> None:
    written = clients.all_fields(writer)
    records = clients[reader].read(written.topic, dict.fromkeys(range(drafts.PARTITIONS), "beginning"))
    assert_read(written, records)


@pytest.mark.parametrize("reader", FAMILIES)
@pytest.mark.parametrize("writer", FAMILIES)
def test_compressed(clients: Clients, writer: str, reader: str) -> None:
    written = clients.compressed(writer)
    assert_deliveries_dense(written)
    records = clients[reader].read(written.topic, dict.fromkeys(range(len(CODECS)), "beginning"))
    assert_read(written, records)


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
