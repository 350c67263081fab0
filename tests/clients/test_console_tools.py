"""Kafka's own command-line tools with their default settings: topics, producer, consumer, offsets."""

from __future__ import annotations

import json

import pytest

from tests.clients.endpoint import Clients, Endpoint, unique
from tests.clients.model import Draft
from tests.support.java import run_tool

TOOLS = "org.apache.kafka.tools."
START = 1_600_000_000_000


def topics(endpoint: Endpoint, *arguments: str) -> list[str]:
    return run_tool(TOOLS + "TopicCommand", "--bootstrap-server", endpoint.kafka, *arguments).splitlines()


def console_consumer(endpoint: Endpoint, topic: str, partition: int, offset: str, count: int) -> list[str]:
    printed = ["key", "headers", "timestamp", "offset", "partition"]
    arguments = [argument for field in printed for argument in ("--property", f"print.{field}=true")]
    arguments += ["--property", "null.literal=<null>"]
    arguments += ["--topic", topic, "--partition", str(partition), "--offset", offset, "--max-messages", str(count)]
    arguments += ["--timeout-ms", "30000"]
    return run_tool(TOOLS + "consumer.ConsoleConsumer", "--bootstrap-server", endpoint.kafka, *arguments).splitlines()


def get_offsets(endpoint: Endpoint, topic: str, time: str) -> list[str]:
    arguments = ["--bootstrap-server", endpoint.kafka, "--topic", topic, "--time", time]
    return run_tool(TOOLS + "GetOffsetShell", *arguments).splitlines()


def test_topics_are_created_listed_and_deleted(endpoint: Endpoint, clients: Clients) -> None:
    topic = unique("tool")
    topics(endpoint, "--create", "--topic", topic, "--partitions", "3")
    assert topic in topics(endpoint, "--list")
    assert clients["kafka-python"].partitions(topic) == 3
    topics(endpoint, "--delete", "--topic", topic)
    assert topic not in clients["kafka-python"].topics()


def test_the_console_producer_writes_what_all_read(endpoint: Endpoint, clients: Clients) -> None:
    topic = unique("tool")
    clients["java"].create_topic(topic, 1)
    lines = ["a:1,a:2\tkey-1\tvalue 1", "h:x\tschlüssel\tgrößer", "h:x\tkey-1\t<null>", "h:x\tkey-1\t"]
    properties = ["parse.key=true", "parse.headers=true", "null.marker=<null>"]
    arguments = [argument for each in properties for argument in ("--property", each)]
    stdin = "".join(line + "\n" for line in lines).encode()
    run_tool(TOOLS + "ConsoleProducer", "--bootstrap-server", endpoint.kafka, "--topic", topic, *arguments, stdin=stdin)
    records = clients["confluent"].read(topic, {0: "beginning"})
    assert [(record.offset, record.key, record.value, record.headers) for record in records] == [
        (0, b"key-1", b"value 1", (("a", b"1"), ("a", b"2"))),
        (1, "schlüssel".encode(), "größer".encode(), (("h", b"x"),)),
        (2, b"key-1", None, (("h", b"x"),)),
        (3, b"key-1", b"", (("h", b"x"),)),
    ]


@pytest.fixture(scope="module")
def read_topic(clients: Clients) -> str:
    """A topic with three records in partition 1."""
    topic = unique("tool")
    clients["confluent"].create_topic(topic, 2)
    batch = [
        Draft("text", b"value 0", b"key", (("a", b"1"), ("a", b"2")), START, 1),
        Draft("latest", "größer".encode(), None, (), START + 5000, 1),
        Draft("tombstone", None, b"gone", (("n", None),), START + 1000, 1),
    ]
    clients["confluent"].write(topic, batch)
    return topic


def test_the_console_consumer_prints_all_fields(endpoint: Endpoint, read_topic: str) -> None:
    assert console_consumer(endpoint, read_topic, 1, "earliest", 3) == [
        f"CreateTime:{START}\tPartition:1\tOffset:0\ta:1,a:2\tkey\tvalue 0",
        f"CreateTime:{START + 5000}\tPartition:1\tOffset:1\tNO_HEADERS\t<null>\tgrößer",
        f"CreateTime:{START + 1000}\tPartition:1\tOffset:2\tn:<null>\tgone\t<null>",
    ]
    assert [line.split("\t")[2] for line in console_consumer(endpoint, read_topic, 1, "2", 1)] == ["Offset:2"]


@pytest.mark.parametrize(
    ("time", "offsets"),
    [
        ("earliest", ["0:0", "1:0"]),
        ("latest", ["0:0", "1:3"]),
        ("max-timestamp", ["1:1"]),
        (str(START + 1), ["1:1"]),
    ],
)
def test_offsets_are_shown(endpoint: Endpoint, read_topic: str, time: str, offsets: list[str]) -> None:
    shown = get_offsets(endpoint, read_topic, time)
    # a partition without such a record is left out or shown without an offset
    found = [line for line in shown if not line.endswith((":", ":-1"))]
    assert found == [f"{read_topic}:{each}" for each in offsets]


def test_the_verifiable_producer_is_told_every_offset(endpoint: Endpoint, clients: Clients) -> None:
    topic, count = unique("tool"), 1000
    clients["java"].create_topic(topic, 1)
    arguments = ["--bootstrap-server", endpoint.kafka, "--topic", topic, "--max-messages", str(count)]
    events = [json.loads(line) for line in run_tool(TOOLS + "VerifiableProducer", *arguments).splitlines()]
    told = {event["offset"]: event["value"] for event in events if event["name"] == "producer_send_success"}
    records = clients["confluent"].read(topic, {0: "beginning"})
    assert len(records) == count
    assert {record.offset: (record.value or b"").decode() for record in records} == told
