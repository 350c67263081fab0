"""Every client reads every field of what every client wrote."""

from __future__ import annotations

import pytest

from tests.clients import drafts
from tests.clients.assertions import assert_deliveries_dense, assert_read
from tests.clients.endpoint import FAMILIES, Clients
from tests.clients.model import CODECS

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
