"""Every client creates, lists, describes and deletes topics as far as it can, and chooses partitions by key."""

from __future__ import annotations

import pytest
from kafka.partitioner.default import murmur2

from tests.clients import drafts
from tests.clients.endpoint import FAMILIES, Clients, unique
from tests.clients.model import Draft, UnknownTopic

CREATORS = [family for family in FAMILIES if family != "kcat"]


@pytest.mark.parametrize("family", CREATORS)
def test_a_topic_is_created_listed_described_and_deleted(clients: Clients, family: str) -> None:
    client, topic = clients[family], unique("created")
    client.create_topic(topic, 3)
    client.write(topic, [Draft("one", b"1", partition=2)])
    assert topic in client.topics()
    assert client.partitions(topic) == 3
    client.delete_topic(topic)
    assert topic not in client.topics()


@pytest.mark.parametrize("family", CREATORS)
def test_deleting_an_unknown_topic_is_an_error(clients: Clients, family: str) -> None:
    with pytest.raises(UnknownTopic):
        clients[family].delete_topic(unique("unknown"))


@pytest.mark.parametrize("family", ["java", "java-3.9", "kafka-python", "kafka-python-2"])
def test_describing_an_unknown_topic_is_an_error(clients: Clients, family: str) -> None:
    topic = unique("unknown")
    with pytest.raises(UnknownTopic):
        clients[family].partitions(topic)
    assert topic not in clients[family].topics()


def test_kcat_does_not_read_an_unknown_topic(clients: Clients) -> None:
    with pytest.raises(UnknownTopic):
        clients["kcat"].read(unique("unknown"), {0: "beginning"})


def test_kcat_asks_for_a_topic_and_gets_it(clients: Clients) -> None:
    client, topic = clients["kcat"], unique("asked")
    client.create_topic(topic, 1)
    client.write(topic, [Draft("one", b"1")])
    assert topic in client.topics()
    assert client.partitions(topic) == 1


@pytest.mark.parametrize("family", FAMILIES)
def test_producing_creates_the_topic(clients: Clients, family: str) -> None:
    client, topic = clients[family], unique("auto")
    (delivery,) = client.write(topic, [Draft("first", b"1", b"k")])
    assert (delivery.partition, delivery.offset) == (0, 0)
    assert [record.value for record in client.read(topic, {0: "beginning"})] == [b"1"]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_key_chooses_the_partition(clients: Clients, family: str) -> None:
    topic, partitions, batch = unique("keyed"), 5, drafts.keyed()
    clients.creator(family).create_topic(topic, partitions)
    deliveries = clients[family].write(topic, batch)
    for draft, delivery in zip(batch, deliveries, strict=True):
        assert draft.key is not None
        # all clients hash as the Java client does: murmur2, made positive, modulo the number of partitions
        assert delivery.partition == (murmur2(draft.key) & 0x7FFFFFFF) % partitions, draft.name
    records = clients[family].read(topic, dict.fromkeys(range(partitions), "beginning"))
    read = {(record.partition, record.offset): (record.key, record.value) for record in records}
    told = {(delivery.partition, delivery.offset) for delivery in deliveries}
    assert read.keys() == told
    for draft, delivery in zip(batch, deliveries, strict=True):
        assert read[delivery.partition, delivery.offset] == (draft.key, draft.value)
