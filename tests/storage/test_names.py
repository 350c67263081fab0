"""Topic names, in both directions, and those that lead nowhere."""

import pytest

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.storage import names
from bridge.storage.names import Names

NAMES = Names("public/default")


@pytest.mark.parametrize("name", ["orders", "a", "A.b_c-9", "x" * 249, "orders-partition-", "__own"])
def test_legal_names_go_there_and_back(name: str) -> None:
    names.check(name)
    assert NAMES.pulsar(name) == f"persistent://public/default/{name}"
    assert NAMES.kafka(NAMES.pulsar(name)) == name


@pytest.mark.parametrize(
    "name",
    [
        "", ".", "..", "x" * 250, "a/b", "persistent://other/ns/t", "a%2Fb", "a\0b", "a b", "a\nb", "ü", "a:b",
        "orders-partition-0", "__change_events", "__bridge_probe", "x__transaction_pending_ack",
    ],
)  # fmt: skip
def test_names_that_lead_elsewhere_are_refused(name: str) -> None:
    with pytest.raises(KafkaError) as raised:
        names.check(name)
    assert raised.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert NAMES.kafka(f"persistent://public/default/{name}") is None


@pytest.mark.parametrize(
    "name",
    [
        "__compaction", "pulsar.dedup", "pulsar.repl.east", "pulsar.replay", "transaction-buffer-sub",
        "__pending_ack_state", "__system_reader-0123456789", "", " ", "\t\n", ".", "..",
    ],
)  # fmt: skip
def test_subscriptions_that_pulsar_keeps_for_itself(name: str) -> None:
    assert names.is_own_subscription(name)


@pytest.mark.parametrize(
    "name", ["orders", "compaction", "__group", "pulsar.dedup-2", "pulsar.functions", "...", " a "]
)
def test_other_subscriptions_are_free(name: str) -> None:
    assert not names.is_own_subscription(name)


@pytest.mark.parametrize("name", sorted(names.INTERNAL))
def test_kafkas_internal_topics_are_not_here(name: str) -> None:
    names.check(name)  # a legal name, as any Kafka says
    assert NAMES.kafka(NAMES.pulsar(name)) is None
    assert NAMES.owner(f"persistent://public/default/{name}-partition-0") is None


def test_names_collide_that_differ_in_dots_and_underscores_alone() -> None:
    assert sorted(names.colliding("a.b_c")) == ["a.b.c", "a_b.c", "a_b_c"]
    assert list(names.colliding("a-b")) == []
    assert names.collides("a.b", "a_b") and names.collides("a_b", "a.b")
    assert not names.collides("a.b", "a.b")
    assert not names.collides("a.b", "a-b")


def test_partitions_have_names_of_their_own() -> None:
    assert NAMES.partition("orders", 3, partitioned=True) == "persistent://public/default/orders-partition-3"
    assert NAMES.partition("orders", 0, partitioned=False) == "persistent://public/default/orders"
    assert NAMES.owner("persistent://public/default/orders-partition-3") == "orders"


def test_topics_of_other_namespaces_are_not_seen() -> None:
    assert NAMES.kafka("persistent://public/other/orders") is None
    assert NAMES.kafka("non-persistent://public/default/orders") is None
