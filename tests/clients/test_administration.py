"""Every client's configs, partitions and deleted records, as far as it can."""

from __future__ import annotations

import pytest

from tests.clients.endpoint import Clients, able, unique
from tests.clients.model import Draft, Refused, UnknownTopic

OFFSET_OUT_OF_RANGE = 1
INVALID_PARTITIONS = 37
INVALID_CONFIG = 40
HIGH_WATERMARK = -1
RECORDS = 10


@pytest.fixture
def topic(clients: Clients) -> str:
    name = unique("administered")
    clients["confluent"].create_topic(name, 1)
    return name


@pytest.mark.parametrize("family", able("configs"))
def test_configs_are_described(clients: Clients, topic: str, family: str) -> None:
    client = clients.admin(family)
    configs = client.topic_configs(topic)
    assert configs["cleanup.policy"] == "delete"
    assert configs["message.timestamp.type"] == "CreateTime"
    assert {"retention.ms", "retention.bytes", "max.message.bytes", "compression.type"} <= configs.keys()
    assert len(client.broker_configs()) > 10


@pytest.mark.parametrize("family", able("set-config"))
def test_a_config_is_set_and_put_back(clients: Clients, topic: str, family: str) -> None:
    client = clients.admin(family)
    before = client.topic_configs(topic)
    client.set_config(topic, "retention.ms", "3600000")
    assert client.topic_configs(topic) == {**before, "retention.ms": "3600000"}
    client.set_config(topic, "retention.ms", None)
    assert client.topic_configs(topic) == before


@pytest.mark.parametrize("family", able("replace-configs"))
def test_configs_are_replaced(clients: Clients, topic: str, family: str) -> None:
    client = clients.admin(family)
    before = client.topic_configs(topic)
    client.replace_configs(topic, {"retention.ms": "3600000"})
    assert client.topic_configs(topic) == {**before, "retention.ms": "3600000"}


@pytest.mark.parametrize("family", able("set-config"))
@pytest.mark.parametrize(("name", "value"), [("no.such.config", "1"), ("retention.ms", "nonsense")])
def test_what_is_no_config_is_refused(clients: Clients, topic: str, family: str, name: str, value: str) -> None:
    with pytest.raises(Refused) as refused:
        clients.admin(family).set_config(topic, name, value)
    assert refused.value.code == INVALID_CONFIG


@pytest.mark.parametrize("family", able("replace-configs"))
def test_what_is_no_config_does_not_replace(clients: Clients, topic: str, family: str) -> None:
    before = clients.admin(family).topic_configs(topic)
    with pytest.raises(Refused) as refused:
        clients.admin(family).replace_configs(topic, {"retention.ms": "3600000", "no.such.config": "1"})
    assert refused.value.code == INVALID_CONFIG
    assert clients.admin(family).topic_configs(topic) == before


@pytest.mark.parametrize("family", able("set-config"))
def test_an_unknown_topic_has_no_configs_to_set(clients: Clients, family: str) -> None:
    with pytest.raises(UnknownTopic):
        clients.admin(family).set_config(unique("unknown"), "retention.ms", "3600000")


@pytest.mark.parametrize("family", able("add-partitions"))
def test_partitions_are_added(clients: Clients, topic: str, family: str) -> None:
    client, admin = clients[family], clients.admin(family)
    client.write(topic, [Draft("old", b"old")])
    admin.add_partitions(topic, 3)
    assert client.partitions(topic) == 3
    client.write(topic, [Draft("new", b"new", partition=2)])
    records = client.read(topic, {0: "beginning", 2: "beginning"})
    assert sorted((record.partition, record.value) for record in records) == [(0, b"old"), (2, b"new")]
    with pytest.raises(Refused) as refused:
        admin.add_partitions(topic, 2)
    assert refused.value.code == INVALID_PARTITIONS
    with pytest.raises(UnknownTopic):
        admin.add_partitions(unique("unknown"), 2)


@pytest.mark.parametrize("family", able("delete-records"))
def test_records_are_deleted_up_to_an_offset(clients: Clients, topic: str, family: str) -> None:
    client, admin = clients[family], clients.admin(family)
    client.write(topic, [Draft("", b"%d" % n) for n in range(RECORDS)])
    assert admin.delete_records(topic, {0: 4}) == {0: 4}
    assert client.beginning_and_end(topic, 0) == (4, RECORDS)
    assert [record.offset for record in client.read(topic, {0: "beginning"})] == list(range(4, RECORDS))
    with pytest.raises(Refused) as refused:
        admin.delete_records(topic, {0: RECORDS + 1})
    assert refused.value.code == OFFSET_OUT_OF_RANGE
    assert admin.delete_records(topic, {0: HIGH_WATERMARK}) == {0: RECORDS}
    assert client.beginning_and_end(topic, 0) == (RECORDS, RECORDS)
