"""Every client finds its way in a partition: by offset, by time, from the beginning, to the end."""

from __future__ import annotations

import pytest

from tests.clients import drafts
from tests.clients.endpoint import FAMILIES, Clients, unique
from tests.clients.model import At, Start

COUNT = 20
START = drafts.MORNING


@pytest.fixture(scope="module")
def timed_topic(clients: Clients) -> str:
    """A topic with records a second apart in partition 0 and nothing in partition 1."""
    topic = unique("offsets")
    clients["confluent"].create_topic(topic, 2)
    clients["confluent"].write(topic, drafts.timed(START, COUNT))
    return topic


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("start", "first"),
    [
        ("beginning", 0),
        ("end", COUNT),
        (0, 0),
        (7, 7),
        (COUNT - 1, COUNT - 1),
        (COUNT, COUNT),
        (At(START), 0),
        (At(START + 6001), 7),
        (At(0), 0),
    ],
)
def test_a_client_reads_from_where_it_seeks(
    clients: Clients, timed_topic: str, family: str, start: Start, first: int
) -> None:
    records = clients[family].read(timed_topic, {0: start})
    assert [record.offset for record in records] == list(range(first, COUNT))
    assert [record.timestamp for record in records] == [START + 1000 * n for n in range(first, COUNT)]


@pytest.mark.parametrize("family", FAMILIES)
def test_offsets_are_told(clients: Clients, timed_topic: str, family: str) -> None:
    client = clients[family]
    assert client.beginning_and_end(timed_topic, 0) == (0, COUNT)
    assert client.offset_for_time(timed_topic, 0, START + 3000) == 3
    assert client.offset_for_time(timed_topic, 0, START + 3001) == 4
    assert client.offset_for_time(timed_topic, 0, START + 1000 * COUNT) is None


@pytest.mark.parametrize("family", FAMILIES)
def test_an_empty_partition_has_an_end_too(clients: Clients, timed_topic: str, family: str) -> None:
    client = clients[family]
    assert client.read(timed_topic, {1: "beginning"}) == []
    assert client.beginning_and_end(timed_topic, 1) == (0, 0)
    assert client.offset_for_time(timed_topic, 1, START) is None


@pytest.mark.parametrize("family", FAMILIES)
def test_several_partitions_are_read_at_once(clients: Clients, timed_topic: str, family: str) -> None:
    records = clients[family].read(timed_topic, {0: 15, 1: "beginning"})
    assert [(record.partition, record.offset) for record in records] == [(0, n) for n in range(15, COUNT)]
