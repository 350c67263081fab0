"""Topics that clients only ask for: those who ask for many wait, and survive it; Pulsar is not filled."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import kafka
import pytest
from confluent_kafka import Producer

from bridge.apis import alter_client_quotas, describe_client_quotas, metadata
from bridge.kafka.error_codes import ErrorCode
from tests.apis.wire import ask, unique
from tests.support.bridges import BridgeThread, settings_for
from tests.support.pulsar import PulsarAddress

MOST = 20


@pytest.fixture
def bridge(pulsar: PulsarAddress) -> Iterator[BridgeThread]:
    limits = {"kafka": {"auto_create_topics_per_minute": MOST, "max_partitions": 60}}
    made = BridgeThread(settings_for(pulsar, pulsar.create_namespace(), limits))
    made.start()
    try:
        yield made
    finally:
        made.stop()


def found(bridge: BridgeThread, *names: str) -> list[int]:
    """The error of each topic that a client asks for."""
    topics = [metadata.RequestTopic(name=name) for name in names]
    return [topic.error_code for topic in ask(bridge, metadata.API, metadata.Request(topics=topics)).topics]


def test_who_asks_for_many_names_gets_some_and_has_to_ask_again(
    bridge: BridgeThread, caplog: pytest.LogCaptureFixture
) -> None:
    names = [unique("random") for _ in range(3 * MOST)]
    with caplog.at_level(logging.WARNING, "bridge.requests.topic_creation"):
        codes = found(bridge, *names)
    assert set(codes) == {0, ErrorCode.LEADER_NOT_AVAILABLE}
    there = [name for name, code in zip(names, codes, strict=True) if not code]
    assert MOST <= len(there) < len(names)
    assert found(bridge, *there) == [0] * len(there)
    refused = bridge.server.metrics.quotas.throttled["topic_creation"].value
    assert refused == len(names) - len(there)
    told = [vars(one)["fields"] for one in caplog.records if one.message == "! topic not created"]
    assert 1 <= len(told) < refused
    assert told[0]["reason"] == "too many topics in a minute"


def test_clients_that_have_to_wait_for_a_topic_get_it(bridge: BridgeThread) -> None:
    found(bridge, *(unique("random") for _ in range(MOST)))
    confluent = Producer({"bootstrap.servers": bridge.kafka})
    sender = kafka.KafkaProducer(bootstrap_servers=bridge.kafka)
    errors: list[object] = []
    confluent.produce(unique("waited"), b"1", on_delivery=lambda error, _: errors.append(error))
    sender.send(unique("waited"), b"1").get(timeout=60)
    assert confluent.flush(60) == 0 and errors == [None]
    sender.close()


def test_the_quota_of_changes_counts_for_them_too(bridge: BridgeThread) -> None:
    operations = [alter_client_quotas.Operation(key="controller_mutation_rate", value=0.01, remove=False)]
    entity = [describe_client_quotas.Entity(entity_type="user", entity_name=None)]
    entries = [alter_client_quotas.RequestEntry(entity=entity, ops=operations)]
    request = alter_client_quotas.Request(entries=entries, validate_only=False)
    assert ask(bridge, alter_client_quotas.API, request).entries[0].error_code == 0
    assert found(bridge, unique("a")) == [0]
    assert found(bridge, unique("b")) == [ErrorCode.LEADER_NOT_AVAILABLE]
