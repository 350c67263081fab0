"""Kafka's administration tools as their users call them: topics, configs, groups, offsets, records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.clients.endpoint import Endpoint, unique
from tests.clients.members import until_read
from tests.clients.scene import PARTITIONS, Scene
from tests.clients.transactions.confluent import ConfluentProducer
from tests.clients.transactions.model import Fenced
from tests.support.group_tool import GROUPS, table
from tests.support.java import run_tool

TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
ACLS = "org.apache.kafka.tools.AclCommand"
ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
REASSIGNMENT = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
TOKENS = "org.apache.kafka.tools.DelegationTokenCommand"
VERSIONS = "org.apache.kafka.tools.BrokerApiVersionsCommand"
_LONG_MS = 600_000
"""A transaction is open while several tools run, each of which takes seconds."""


def tool(endpoint: Endpoint, main_class: str, *arguments: str) -> str:
    return run_tool(main_class, "--bootstrap-server", endpoint.kafka, *arguments)


def test_a_topic_is_described_and_gets_partitions(endpoint: Endpoint, scene: Scene) -> None:
    tool(endpoint, TOPICS, "--alter", "--topic", scene.topic, "--partitions", "5")
    described = tool(endpoint, TOPICS, "--describe", "--topic", scene.topic)
    assert "PartitionCount: 5" in described
    assert described.count("Leader: ") == 5


def test_configs_are_shown_set_and_put_back(endpoint: Endpoint, scene: Scene) -> None:
    entity = ["--entity-type", "topics", "--entity-name", scene.topic]
    tool(endpoint, CONFIGS, *entity, "--alter", "--add-config", "retention.ms=3600000")
    assert "retention.ms=3600000" in tool(endpoint, CONFIGS, *entity, "--describe")
    tool(endpoint, CONFIGS, *entity, "--alter", "--delete-config", "retention.ms")
    assert "retention.ms" not in tool(endpoint, CONFIGS, *entity, "--describe")
    assert "cleanup.policy=delete" in tool(endpoint, CONFIGS, *entity, "--describe", "--all")


def test_a_group_is_listed_described_reset_and_deleted(endpoint: Endpoint, scene: Scene) -> None:
    scene.write(30)
    member = scene.join("confluent")
    until_read([member], scene.values)
    member.commit()
    scene.write(3)
    until_read([member], scene.values)
    of_group = ["--group", scene.group]
    assert scene.group in tool(endpoint, GROUPS, "--list").split()
    rows = table(tool(endpoint, GROUPS, "--describe", *of_group))
    shown = [(row["PARTITION"], row["CURRENT-OFFSET"], row["LOG-END-OFFSET"], row["LAG"]) for row in rows]
    assert sorted(shown) == [(str(partition), "10", "11", "1") for partition in range(PARTITIONS)]
    (row,) = table(tool(endpoint, GROUPS, "--describe", "--members", *of_group))
    assert row["#PARTITIONS"] == str(PARTITIONS)
    (row,) = table(tool(endpoint, GROUPS, "--describe", "--state", *of_group))
    assert "Stable" in row.values()
    member.leave()
    reset = ["--reset-offsets", *of_group, "--topic", scene.topic, "--execute"]
    rows = table(tool(endpoint, GROUPS, *reset, "--to-earliest"))
    assert sorted((row["PARTITION"], row["NEW-OFFSET"]) for row in rows) == [(str(p), "0") for p in range(PARTITIONS)]
    rows = table(tool(endpoint, GROUPS, *reset, "--shift-by", "7"))
    assert {row["NEW-OFFSET"] for row in rows} == {"7"}
    tool(endpoint, GROUPS, "--delete-offsets", *of_group, "--topic", scene.topic)
    tool(endpoint, GROUPS, "--delete", *of_group)
    assert scene.group not in tool(endpoint, GROUPS, "--list").split()


def test_records_are_deleted(endpoint: Endpoint, scene: Scene, tmp_path: Path) -> None:
    scene.write(30)
    wanted = tmp_path / "wanted.json"
    partitions = [
        {"topic": scene.topic, "partition": 0, "offset": 4},
        {"topic": scene.topic, "partition": 1, "offset": -1},
    ]
    wanted.write_text(json.dumps({"version": 1, "partitions": partitions}))
    printed = tool(endpoint, DELETE_RECORDS, "--offset-json-file", str(wanted))
    assert f"partition: {scene.topic}-0\tlow_watermark: 4" in printed
    assert f"partition: {scene.topic}-1\tlow_watermark: 10" in printed
    first = tool(endpoint, OFFSETS, "--topic", scene.topic, "--time", "earliest").split()
    assert first == [f"{scene.topic}:0:4", f"{scene.topic}:1:10", f"{scene.topic}:2:0"]


def test_an_unknown_group_is_said_to_be_unknown(endpoint: Endpoint) -> None:
    group = unique("unknown")
    printed = tool(endpoint, GROUPS, "--describe", "--group", group)
    # DescribeGroups v6 has an error of its own for it; the tool words it otherwise
    assert "Error: " in printed and ("does not exist" in printed or f"{group} not found" in printed)


def test_without_logins_nothing_is_granted(endpoint: Endpoint, tmp_path: Path) -> None:
    grant = ["--allow-principal", "User:x", "--operation", "read", "--topic", "t"]
    for arguments in (["--add", *grant], ["--remove", "--force", *grant], ["--list"]):
        with pytest.raises(AssertionError, match="SecurityDisabledException: No Authorizer is configured"):
            tool(endpoint, ACLS, *arguments)
    login = tmp_path / "login.properties"
    login.touch()
    with pytest.raises(AssertionError, match="Delegation Token requests are not allowed on PLAINTEXT"):
        tool(endpoint, TOKENS, "--describe", "--command-config", str(login))


def test_leaders_and_replicas_are_where_they_should_be(endpoint: Endpoint, scene: Scene, tmp_path: Path) -> None:
    elected = tool(endpoint, ELECTION, "--election-type", "preferred", "--topic", scene.topic, "--partition", "0")
    assert f"Valid replica already elected for partitions {scene.topic}-0" in elected
    described = tool(endpoint, TOPICS, "--describe", "--topic", scene.topic)
    node = int(described.partition("Leader: ")[2].split()[0])
    wanted = tmp_path / "wanted.json"
    partitions = [{"topic": scene.topic, "partition": 0, "replicas": [node]}]
    wanted.write_text(json.dumps({"version": 1, "partitions": partitions}))
    plan = ["--reassignment-json-file", str(wanted)]
    assert "Successfully started partition reassignment" in tool(endpoint, REASSIGNMENT, "--execute", *plan)
    verified = tool(endpoint, REASSIGNMENT, "--verify", *plan)
    assert f"Reassignment of partition {scene.topic}-0 is completed." in verified
    assert "No partition reassignments found." in tool(endpoint, REASSIGNMENT, "--list")


def test_there_are_no_quotas_yet_and_no_transactions(endpoint: Endpoint, scene: Scene) -> None:
    for kind in ("clients", "ips"):
        assert tool(endpoint, CONFIGS, "--describe", "--entity-type", kind) == ""
    with pytest.raises(AssertionError, match="failed because the ID could not be found"):
        tool(endpoint, TRANSACTIONS, "describe", "--transactional-id", unique("none"))
    headings, *producers = tool(
        endpoint, TRANSACTIONS, "describe-producers", "--topic", scene.topic, "--partition", "0"
    ).splitlines()
    assert headings.split()[:2] == ["ProducerId", "ProducerEpoch"] and not producers
    with pytest.raises(AssertionError, match="ended with 1"):
        tool(endpoint, TRANSACTIONS, "abort", "--topic", scene.topic, "--partition", "0", "--start-offset", "0")


def transactions(endpoint: Endpoint, first_heading: str, *arguments: str) -> list[dict[str, str]]:
    return table(tool(endpoint, TRANSACTIONS, *arguments), first_heading)


def test_an_open_transaction_is_shown_and_ended(endpoint: Endpoint, scene: Scene) -> None:
    name, of_topic = unique("transactional"), ["--topic", scene.topic]
    producer = ConfluentProducer(endpoint.kafka, name, _LONG_MS)
    scene.write(PARTITIONS)
    producer.begin()
    producer.send(scene.topic, ["a", "b"])
    of_id, named = ["--transactional-id", name], ["--transactional-id-pattern", name]
    (listed,) = transactions(endpoint, "TransactionalId", "list", *named)
    assert (listed["TransactionalId"], listed["TransactionState"]) == (name, "Ongoing")
    (described,) = transactions(endpoint, "CoordinatorId", "describe", *of_id)
    assert described["TransactionState"] == "Ongoing"
    assert described["TransactionTimeoutMs"] == str(_LONG_MS)
    assert described["TopicPartitions"] == f"{scene.topic}-0"
    assert int(described["CurrentTransactionStartTimeMs"]) > 0
    writers = transactions(endpoint, "ProducerId", "describe-producers", *of_topic, "--partition", "0")
    (writer,) = (row for row in writers if row["CurrentTransactionStartOffset"] != "None")
    assert writer["ProducerId"] == listed["ProducerId"] == described["ProducerId"]
    assert writer["ProducerEpoch"] == described["ProducerEpoch"]
    assert writer["LastSequence"] == "1"
    begins_at = int(writer["CurrentTransactionStartOffset"])  # at the earliest, where another node coordinates it
    assert begins_at == 1 or (begins_at == 0 and len(endpoint.nodes) > 1)
    # what its coordinator knows of does not hang, however long it is open
    assert transactions(endpoint, "Topic", "find-hanging", *of_topic, "--max-transaction-timeout", "0") == []
    tool(endpoint, TRANSACTIONS, "forceTerminateTransaction", "--transactionalId", name)
    (ended,) = transactions(endpoint, "CoordinatorId", "describe", *of_id)
    assert ended["TransactionState"] == "Empty"
    with pytest.raises(Fenced):
        producer.commit()


def test_an_open_transaction_is_aborted(endpoint: Endpoint, scene: Scene) -> None:
    """On Kafka behind the coordinator's back: a transaction is told "committed" then that was aborted."""
    name = unique("transactional")
    producer = ConfluentProducer(endpoint.kafka, name, _LONG_MS)
    producer.begin()
    producer.send(scene.topic, ["a"])
    tool(endpoint, TRANSACTIONS, "abort", "--topic", scene.topic, "--partition", "0", "--start-offset", "0")
    (after,) = transactions(endpoint, "CoordinatorId", "describe", "--transactional-id", name)
    if endpoint.name == "bridge":
        assert after["TransactionState"] == "CompleteAbort"
        with pytest.raises(Fenced):
            producer.commit()
    else:
        assert after["TransactionState"] == "Ongoing"
        producer.commit()


def test_producers_have_an_epoch_for_each_transaction(endpoint: Endpoint) -> None:
    rows = [line.split() for line in tool(endpoint, FEATURES, "describe").splitlines()]
    (levels,) = [row for row in rows if "transaction.version" in row]
    assert levels[levels.index("FinalizedVersionLevel:") + 1] == "2"


def test_versions_are_told(endpoint: Endpoint) -> None:
    told = tool(endpoint, VERSIONS)
    for line in ("FindCoordinator(10): 0 to 6", "CreateAcls(30): 1 to 3", "DescribeTopicPartitions(75): 0"):
        assert f"{line} [usable: " in told
