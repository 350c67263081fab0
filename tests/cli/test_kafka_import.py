"""`bridge import kafka`: a real Kafka's topics, configs, ACLs and quotas come to a bridge, and what cannot is said."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from bridge.cli import kafka_import
from bridge.cli.kafka_import import carry
from bridge.cli.parser import make_parser
from bridge.errors import SettingsError, StartupError
from bridge.kafka.error_codes import ErrorCode
from tests.support.bridges import BridgeThread, settings_for
from tests.support.java import run_tool
from tests.support.kafka_broker import NewKafka
from tests.support.pulsar import PulsarAddress

ACLS, CONFIGS, TOPICS = (
    "org.apache.kafka.tools.AclCommand",
    "kafka.admin.ConfigCommand",
    "org.apache.kafka.tools.TopicCommand",
)
ANYBODY = "User:ANONYMOUS"


@pytest.fixture(scope="module")
def kafka(new_kafka: NewKafka) -> Iterator[str]:
    """The address of one that has something of everything."""
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    broker = new_kafka(settings={"authorizer.class.name": authorizer, "super.users": ANYBODY})
    broker.start()
    try:
        at = ("--bootstrap-server", broker.kafka)
        for name, *configs in (
            ("orders", "cleanup.policy=compact", "retention.ms=86400000", "unclean.leader.election.enable=true"),
            ("payments", "max.message.bytes=500000"),
        ):
            more = [word for config in configs for word in ("--config", config)]
            run_tool(TOPICS, *at, "--create", "--topic", name, "--partitions", "3", *more)
        run_tool(ACLS, *at, "--add", "--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders")
        run_tool(
            ACLS, *at, "--add", "--deny-principal", "User:bob", "--deny-host", "10.0.0.1", "--operation", "Write",
            "--topic", "pay", "--resource-pattern-type", "prefixed",
        )  # fmt: skip
        run_tool(
            CONFIGS, *at, "--alter", "--add-config", "producer_byte_rate=1000000", "--entity-type", "users",
            "--entity-name", "alice", "--entity-type", "clients", "--entity-default",
        )  # fmt: skip
        scram = "SCRAM-SHA-256=[iterations=4096,password=secret]"
        run_tool(CONFIGS, *at, "--alter", "--add-config", scram, "--entity-type", "users", "--entity-name", "carol")
        yield broker.kafka
    finally:
        broker.stop()


@pytest.fixture
def bridge(pulsar: PulsarAddress) -> Iterator[BridgeThread]:
    settings = settings_for(pulsar, pulsar.create_namespace())
    bridge = BridgeThread(settings.with_values(kafka={"authorizer": "kafka", "super_users": ANYBODY}))
    bridge.start()
    try:
        yield bridge
    finally:
        bridge.stop()


def run(kafka: str, bridge: str, *options: str) -> tuple[int, dict[tuple[str, str, str], str]]:
    """The exit code, and of each item why it was not taken."""
    out = io.StringIO()
    code = carry(parsed(kafka, bridge, *options, "--json"), out)
    items = json.loads(out.getvalue())["items"]
    return code, {(one["kind"], one["name"], one["what"]): one["reason"] for one in items}


def parsed(kafka: str, bridge: str, *options: str) -> Any:
    return make_parser().parse_args(["import", "kafka", "--from", kafka, "--bootstrap", bridge, *options])


TAKEN = {
    ("topic", "orders", "3 partitions"),
    ("topic", "payments", "3 partitions"),
    ("config", "orders", "cleanup.policy=compact"),
    ("config", "orders", "retention.ms=86400000"),
    ("config", "payments", "max.message.bytes=500000"),
    ("acl", "topic orders", "User:alice may read"),
    ("acl", "topic pay*", "User:bob may not write from 10.0.0.1"),
    ("quota", "client-id (default), user alice", "producer_byte_rate=1e+06"),
}
UNCLEAN = ("config", "orders", "unclean.leader.election.enable=true")
CAROL = ("user", "carol", "SCRAM")


def test_all_that_can_be_taken_is_and_the_rest_has_its_reason(kafka: str, bridge: BridgeThread) -> None:
    for options in (["--dry-run"], []):  # the first changes nothing, so that the second finds the same to do
        code, found = run(kafka, bridge.kafka, *options)
        assert code == 1
        assert {item for item, reason in found.items() if not reason} == TAKEN
        assert found.keys() == TAKEN | {UNCLEAN, CAROL}
        assert found[UNCLEAN].startswith("INVALID_CONFIG: ")
        assert "bridge user add" in found[CAROL]
    code, again = run(kafka, bridge.kafka)
    assert {item for item, reason in again.items() if reason == "there already"} == TAKEN
    assert code == 1
    described = run_tool(TOPICS, "--bootstrap-server", bridge.kafka, "--describe", "--topic", "orders")
    assert "PartitionCount: 3" in described
    listed = run_tool(ACLS, "--bootstrap-server", bridge.kafka, "--list")
    assert "principal=User:bob, host=10.0.0.1, operation=WRITE, permissionType=DENY" in listed


def test_what_the_bridge_has_of_its_own_stays_unless_it_is_to_be_replaced(kafka: str, bridge: BridgeThread) -> None:
    at = ("--bootstrap-server", bridge.kafka)
    run_tool(TOPICS, *at, "--create", "--topic", "orders", "--partitions", "3", "--config", "retention.ms=5000")
    retention = ("config", "orders", "retention.ms=86400000")
    assert run(kafka, bridge.kafka, "--what", "configs")[1][retention] == "it is 5000 here"
    assert run(kafka, bridge.kafka, "--what", "configs", "--replace")[1][retention] == ""
    assert run(kafka, bridge.kafka, "--what", "configs", "--replace")[1][retention] == "there already"


def test_what_may_not_be_asked_is_told(kafka: str, pulsar: PulsarAddress) -> None:
    closed = settings_for(pulsar, pulsar.create_namespace()).with_values(
        kafka={"authorizer": "kafka", "super_users": ""}
    )
    source = BridgeThread(closed)
    source.start()
    try:
        code, found = run(source.kafka, kafka, "--what", "quotas,users,acls")
    finally:
        source.stop()
    assert code == 1
    assert {kind for kind, _, _ in found} == {"quota", "user", "acl"}
    assert all("CLUSTER_AUTHORIZATION_FAILED" in reason for reason in found.values())


def test_a_part_is_taken_alone(kafka: str, bridge: BridgeThread) -> None:
    code, found = run(kafka, bridge.kafka, "--what", "configs,topics", "--topics", "pay.*")
    assert code == 0
    assert found.keys() == {one for one in TAKEN if one[1] == "payments"}


def test_another_number_of_partitions_is_told(kafka: str, bridge: BridgeThread) -> None:
    run_tool(TOPICS, "--bootstrap-server", bridge.kafka, "--create", "--topic", "orders", "--partitions", "2")
    code, found = run(kafka, bridge.kafka, "--what", "topics")
    assert code == 1
    assert "2 here" in found["topic", "orders", "3 partitions"]


def test_a_side_without_an_authorizer_is_told(kafka: str, pulsar: PulsarAddress) -> None:
    plain = BridgeThread(settings_for(pulsar, pulsar.create_namespace()))
    plain.start()
    try:
        code, found = run(kafka, plain.kafka, "--what", "acls")
        assert code == 1
        assert all(reason.startswith("SECURITY_DISABLED") for reason in found.values())
        code, found = run(plain.kafka, plain.kafka, "--what", "acls")
        assert (code, list(found)) == (0, [("acl", "", "")])
    finally:
        plain.stop()


def test_the_table_is_for_people(kafka: str, bridge: BridgeThread) -> None:
    out = io.StringIO()
    carry(parsed(kafka, bridge.kafka, "--dry-run"), out)
    *_, last = out.getvalue().splitlines()
    assert last == "would take: 8, there already: 0, not: 2"


def test_what_cannot_be_asked_is_one_line(bridge: BridgeThread) -> None:
    with pytest.raises(SettingsError, match=r"--topics \(: no regular expression"):
        run(bridge.kafka, bridge.kafka, "--topics", "(")
    with pytest.raises(SettingsError, match="--what nothing"):
        run(bridge.kafka, bridge.kafka, "--what", "nothing")
    with pytest.raises(SettingsError, match="--from here: not HOST:PORT"):
        run("here", bridge.kafka)
    with pytest.raises(StartupError, match=r"127\.0\.0\.1:1"):
        run("127.0.0.1:1", bridge.kafka)


class Endpoint:
    """Answers all that is asked with the same."""

    def __init__(self, **answer: Any) -> None:
        self.asked: list[str] = []
        self._answer = SimpleNamespace(**answer)

    def ask(self, request: Any) -> Any:
        self.asked.append(type(request).__name__)
        return self._answer

    def topics(self) -> set[str]:
        return {"orders"}


def test_what_the_bridge_has_and_could_not_tell_stays_as_it_is() -> None:
    """It may be otherwise here."""
    options: Any = SimpleNamespace(dry_run=False, replace=True, topics=None)
    config = SimpleNamespace(name="retention.ms", value="3600000", config_source=1)
    described = SimpleNamespace(error_code=0, error_message=None, resource_name="orders", configs=[config])
    away = SimpleNamespace(error_code=ErrorCode.KAFKA_STORAGE_ERROR, error_message="away", resource_name="orders")
    source: Any = Endpoint(results=[described])
    target: Any = Endpoint(results=[away])
    items = list(kafka_import._Topics(source, target, options).configure())
    assert [(item.what, item.refused) for item in items] == [("", True), ("retention.ms=3600000", True)]
    assert target.asked == ["DescribeConfigsRequest"]

    of_alice = SimpleNamespace(entity_type="user", entity_name="alice")
    quota = SimpleNamespace(entity=[of_alice], values=[SimpleNamespace(key="producer_byte_rate", value=1.0)])
    source = Endpoint(error_code=0, entries=[quota])
    target = Endpoint(error_code=ErrorCode.KAFKA_STORAGE_ERROR, error_message="away")
    assert all(item.refused for item in kafka_import._quotas(source, target, options))
    assert target.asked == ["DescribeClientQuotasRequest"]
