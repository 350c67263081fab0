"""A real Pulsar's admin API."""

import secrets

import pytest

from bridge.pulsar import (
    Admin,
    PulsarClient,
)
from bridge.pulsar.admin import Conflict, NotFound, Retention
from tests.pulsar.real import eventually, fill, has_deduplication, has_retention


async def test_topics_are_created_listed_described_and_deleted(admin: Admin, namespace: str) -> None:
    name = f"persistent://{namespace}/a b%2F?#ü-{secrets.token_hex(4)}"
    await admin.create_partitioned(name, 2, {"id": "é 1"})
    assert name in await admin.partitioned_topics(namespace)
    metadata = await admin.partitioned_metadata(name)
    assert (metadata.partitions, metadata.properties) == (2, {"id": "é 1"})
    with pytest.raises(Conflict):
        await admin.create_partitioned(name, 2)
    await admin.update_topic_properties(name, {"more": "2"})
    assert await admin.topic_properties(name) == {"id": "é 1", "more": "2"}
    await admin.remove_topic_property(name, "id")
    await admin.remove_topic_property(name, "was never there")
    assert await admin.topic_properties(name) == {"more": "2"}
    await admin.delete_partitioned(name)
    assert name not in await admin.partitioned_topics(namespace)
    with pytest.raises(NotFound):
        await admin.partitioned_metadata(name)


async def test_ledgers_are_listed_with_the_open_ones_count(client: PulsarClient, admin: Admin, topic: str) -> None:
    receipts = await fill(client, topic, 3)
    await admin.unload(topic)
    receipts += await fill(client, topic, 2)
    found = await admin.ledgers(topic)
    assert [(one.ledger_id, one.entries) for one in found] == [
        (receipts[0].position.ledger, 3),
        (receipts[4].position.ledger, 2),
    ]
    assert (await admin.internal_stats(topic)).last_confirmed == receipts[4].position
    assert "ledgers" in await admin.internal_info(topic)


async def test_policies_are_read_and_set(admin: Admin, namespace: str, topic: str) -> None:
    await admin.set_namespace_retention(namespace, Retention(-1, -1))
    assert await admin.namespace_retention(namespace) == Retention(-1, -1)
    assert await admin.topic_retention(topic) is None
    await admin.set_topic_retention(topic, Retention(10, 20))
    await eventually(lambda: has_retention(admin, topic))
    await admin.set_namespace_deduplication(namespace, True)
    assert await admin.namespace_deduplication(namespace) is True
    await admin.keep_inactive_topics(namespace)
    assert (await admin.namespace_policies(namespace))["inactive_topic_policies"]["deleteWhileInactive"] is False
    await admin.set_topic_deduplication(topic, True)
    await eventually(lambda: has_deduplication(admin, topic))


async def test_the_broker_tells_of_itself(admin: Admin) -> None:
    await admin.brokers_health()
    assert await admin.clusters() == ["standalone"]
    assert await admin.broker_hosts() == ["127.0.0.1"]
    assert (await admin.runtime_config())["exposingBrokerEntryMetadataToClientEnabled"] == "true"
