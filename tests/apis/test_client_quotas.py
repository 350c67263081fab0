"""DescribeClientQuotas, AlterClientQuotas: quotas that all nodes keep, as raw requests and Kafka's own tool ask."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from bridge.apis import alter_client_quotas, create_topics, describe_client_quotas, metadata
from bridge.kafka.error_codes import ErrorCode
from tests.apis.wire import ask, unique
from tests.support.bridges import BridgeThread, settings_for, started_nodes
from tests.support.java import run_tool
from tests.support.pulsar import PulsarAddress
from tests.support.waiting import until

alter, describe = alter_client_quotas, describe_client_quotas
CONFIGS = "kafka.admin.ConfigCommand"
Named = dict[str, str | None]


@pytest.fixture(scope="module")
def nodes(pulsar: PulsarAddress) -> Iterator[list[BridgeThread]]:
    settings = settings_for(pulsar, pulsar.create_namespace())
    with started_nodes(settings) as started:
        yield started


@pytest.fixture(autouse=True)
def _none_before(nodes: list[BridgeThread]) -> Iterator[None]:
    yield
    change(nodes[0], *((dict(entity), dict.fromkeys(values)) for entity, values in quotas(nodes[0]).items()))


def change(
    node: BridgeThread, *entries: tuple[Named, dict[str, float | None]], validate_only: bool = False
) -> list[tuple[int, str | None]]:
    """What becomes of each entity's changes; None removes a quota."""
    wanted = [
        alter.RequestEntry(
            entity=[describe.Entity(entity_type=kind, entity_name=name) for kind, name in named.items()],
            ops=[alter.Operation(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()],
        )
        for named, values in entries
    ]
    answer = ask(node, alter.API, alter.Request(entries=wanted, validate_only=validate_only))
    return [(one.error_code, one.error_message) for one in answer.entries]


def quotas(node: BridgeThread, *components: tuple[str, int, str | None], strict: bool = False) -> dict[Any, Any]:
    """What there is, by entity."""
    asked = [describe.Component(entity_type=kind, match_type=how, match=name) for kind, how, name in components]
    answer = ask(node, describe.API, describe.Request(components=asked, strict=strict))
    assert answer.error_code == ErrorCode.NONE
    return {
        tuple((part.entity_type, part.entity_name) for part in entry.entity): {
            one.key: one.value for one in entry.values
        }
        for entry in answer.entries
    }


ALICE, PAIR = (("user", "alice"),), (("client-id", "app"), ("user", "alice"))
ANY_USER, HOST = (("user", None),), (("ip", "10.0.0.1"),)


def all_kinds(node: BridgeThread) -> None:
    rates: dict[str, float | None] = {"producer_byte_rate": 1000.0}
    entities: list[Named] = [dict(ALICE), dict(PAIR), dict(ANY_USER)]
    address: tuple[Named, dict[str, float | None]] = (dict(HOST), {"connection_creation_rate": 5.0})
    assert change(node, *((one, rates) for one in entities), address) == [(0, None)] * 4


def test_what_is_set_at_one_node_is_told_by_both(nodes: list[BridgeThread]) -> None:
    first, second = nodes
    assert change(first, (dict(ALICE), {"producer_byte_rate": 1000.0, "request_percentage": 12.5})) == [(0, None)]
    expected = {ALICE: {"producer_byte_rate": 1000.0, "request_percentage": 12.5}}
    assert quotas(first) == expected
    # a change at the other node is answered when it has read all that was stored before
    assert change(second, (dict(ALICE), {"request_percentage": None})) == [(0, None)]
    assert quotas(second) == {ALICE: {"producer_byte_rate": 1000.0}}


def test_what_is_set_at_one_node_holds_at_the_other(nodes: list[BridgeThread]) -> None:
    first, second = nodes
    assert told_to_wait(second) == 0
    assert change(first, ({"client-id": None}, {"request_percentage": 0.001})) == [(0, None)]
    asyncio.run(until(lambda: told_to_wait(second) > 0))
    assert change(second, ({"client-id": None}, {"request_percentage": None})) == [(0, None)]
    asyncio.run(until(lambda: told_to_wait(first) == 0))


def told_to_wait(node: BridgeThread) -> int:
    """The milliseconds that any request is told."""
    answer = ask(node, metadata.API, metadata.Request(topics=[]))
    assert isinstance(answer.throttle_time_ms, int)
    return answer.throttle_time_ms


def test_topics_beyond_the_quota_are_refused_and_older_clients_wait(nodes: list[BridgeThread]) -> None:
    node = nodes[0]
    assert change(node, ({"user": "ANONYMOUS"}, {"controller_mutation_rate": 0.01})) == [(0, None)]

    def create(version: int) -> tuple[int, int]:
        topic = create_topics.RequestTopic(
            name=unique("t"), num_partitions=2, replication_factor=1, assignments=[], configs=[]
        )
        answer = ask(node, create_topics.API, create_topics.Request(topics=[topic]), version)
        return answer.topics[0].error_code, answer.throttle_time_ms

    assert create(7) == (0, 0)
    code, wait = create(7)
    assert code == ErrorCode.THROTTLING_QUOTA_EXCEEDED and 0 < wait <= 189_000
    code, wait = create(5)
    assert code == 0 and wait > 200_000


def test_filters_are_kafka_s(nodes: list[BridgeThread]) -> None:
    node = nodes[0]
    all_kinds(node)
    assert set(quotas(node)) == {ALICE, PAIR, ANY_USER, HOST}
    assert set(quotas(node, ("user", describe.EXACT, "alice"))) == {ALICE, PAIR}
    assert set(quotas(node, ("user", describe.EXACT, "alice"), strict=True)) == {ALICE}
    assert set(quotas(node, ("user", describe.DEFAULT, None))) == {ANY_USER}
    assert set(quotas(node, ("user", describe.SPECIFIED, None))) == {ALICE, PAIR, ANY_USER}
    assert set(quotas(node, ("user", describe.SPECIFIED, None), ("client-id", describe.EXACT, "app"))) == {PAIR}
    assert set(quotas(node, ("ip", describe.SPECIFIED, None))) == {HOST}
    assert quotas(node, strict=True) == {}


def test_what_is_only_validated_is_not_kept(nodes: list[BridgeThread]) -> None:
    assert change(nodes[0], (dict(ALICE), {"producer_byte_rate": 5.0}), validate_only=True) == [(0, None)]
    assert quotas(nodes[0]) == {}


def test_each_entity_has_its_own_error_and_the_others_are_stored(nodes: list[BridgeThread]) -> None:
    rate: dict[str, float | None] = {"producer_byte_rate": 5.0}
    outcomes = change(nodes[0], (dict(ALICE), rate), ({"planet": "x"}, rate), ({"user": "bob"}, {"no_such": 1.0}))
    assert [code for code, _ in outcomes] == [0, ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST]
    assert set(quotas(nodes[0])) == {ALICE}


def test_a_request_changes_a_bounded_number(nodes: list[BridgeThread]) -> None:
    rate: dict[str, float | None] = {"producer_byte_rate": None}
    many: list[tuple[Named, dict[str, float | None]]] = [({"user": str(n)}, rate) for n in range(alter.MAX_CHANGES + 1)]
    assert change(nodes[0], *many)[-2:] == [
        (0, None),
        (ErrorCode.POLICY_VIOLATION, "A request changes at most 1000 quotas"),
    ]


def test_kafka_s_own_tool_sets_shows_and_removes_them(nodes: list[BridgeThread]) -> None:
    node = nodes[1]

    def tool(*arguments: str) -> str:
        return run_tool(CONFIGS, "--bootstrap-server", node.kafka, *arguments)

    rates = "producer_byte_rate=1024,consumer_byte_rate=2048,request_percentage=150,controller_mutation_rate=3"
    both = ["--entity-type", "users", "--entity-name", "alice", "--entity-type", "clients", "--entity-default"]
    address = ["--entity-type", "ips", "--entity-name", "10.0.0.1"]
    tool("--alter", "--add-config", rates, *both)
    tool("--alter", "--add-config", "connection_creation_rate=7", *address)
    shown = tool("--describe", *both)
    assert "Quota configs for user-principal 'alice', the default client-id are" in shown
    assert all(one in shown for one in ("producer_byte_rate=1024.0", "controller_mutation_rate=3.0"))
    assert "connection_creation_rate=7.0" in tool("--describe", *address)
    tool("--alter", "--delete-config", "producer_byte_rate,consumer_byte_rate,request_percentage", *both)
    tool("--alter", "--delete-config", "connection_creation_rate", *address)
    assert quotas(node) == {(("client-id", None), ("user", "alice")): {"controller_mutation_rate": 3.0}}
