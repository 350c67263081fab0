"""`bridge group`, against a real bridge, with groups of both protocols."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import Consumer

from bridge.cli.kafka.groups import milliseconds, target
from bridge.errors import SettingsError
from tests.apis.wire import unique
from tests.cli.kafka.conftest import Said
from tests.contract.log import Log
from tests.support.bridges import BridgeThread

Run = Callable[..., Said]


@pytest.fixture
def topic(bridge: BridgeThread, run: Run) -> Iterator[str]:
    """Of two partitions, the first with five records."""
    name = unique("topic")
    run("topic", "create", name, "--partitions", "2", "--bootstrap", bridge.kafka)
    with Log(bridge.kafka, name) as log:
        log.write([b"%d" % number for number in range(5)])
    yield name
    run("topic", "delete", name, "--bootstrap", bridge.kafka)


def read(consumer: Consumer, count: int) -> None:
    """So many records, and commit after them."""
    found = 0
    while found < count:
        message = consumer.poll(10)
        assert message is not None
        assert message.error() is None
        found += 1
    consumer.commit(asynchronous=False)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_is_shown_with_its_members_and_lag(bridge: BridgeThread, run: Run, topic: str, protocol: str) -> None:
    group, at = unique("group"), ("--bootstrap", bridge.kafka)
    settings: dict[str, Any] = {
        "bootstrap.servers": bridge.kafka, "group.id": group, "client.id": "reader", "group.protocol": protocol,
        "auto.offset.reset": "earliest", "enable.auto.commit": False, "max.poll.interval.ms": 60_000,
    }  # fmt: skip
    with closing(Consumer(settings)) as consumer:
        consumer.subscribe([topic])
        read(consumer, 5)
        with Log(bridge.kafka, topic) as log:
            log.write([b"more"] * 3)
        code, lines, _ = run("group", "describe", group, "--json", *at)
        (told,) = json.loads("".join(lines))["groups"]
        assert (code, told["type"], told["state"]) == (0, protocol, "stable")
        assert [member["client"] for member in told["members"]] == ["reader"]
        first, second = told["partitions"]
        assert (first["committed"], first["end"], first["lag"], first["member"]) == (5, 8, 3, "reader")
        assert (second["partition"], second["end"], second["member"]) == (1, 0, "reader")
        _, listed, _ = run("group", "list", *at)
        assert [group, protocol, "stable"] in [line.split() for line in listed]
        code, _, complaint = run("group", "reset", group, "--to", "earliest", "--execute", *at)
        assert code == 1
        assert "UNKNOWN_MEMBER_ID" in complaint or "NON_EMPTY_GROUP" in complaint
    _, lines, _ = run("group", "describe", group, *at)
    assert lines[0] == f"{group}  {protocol}, empty, 0 members"


def test_offsets_are_reset_when_it_is_said_twice(bridge: BridgeThread, run: Run, topic: str) -> None:
    group, at = unique("group"), ("--bootstrap", bridge.kafka)

    def committed() -> list[int]:
        _, lines, _ = run("group", "describe", group, "--json", *at)
        return [row["committed"] for row in json.loads("".join(lines))["groups"][0]["partitions"]]

    assert run("group", "reset", group, "--to", "2", *at)[0] == 1  # it has committed nothing, and no topic is named
    code, lines, _ = run("group", "reset", group, "--to", "3", "--topic", topic, "--execute", *at)
    assert (code, lines[-1]) == (0, f"{group} changed")
    assert committed() == [3, 0]  # never behind a partition's end
    _, lines, _ = run("group", "reset", group, "--to", "earliest", *at)
    assert lines[-1] == "nothing was changed: --execute does it"
    assert committed() == [3, 0]
    run("group", "reset", group, "--to", "latest", "--execute", *at)
    assert committed() == [5, 0]
    run("group", "reset", group, "--to", "2001-01-01T00:00:00Z", "--topic", f"{topic}:0", "--execute", *at)
    assert committed() == [0, 0]
    run("group", "reset", group, "--to", "2999-01-01T00:00:00Z", "--topic", f"{topic}:0", "--execute", *at)
    assert committed() == [5, 0]
    assert run("group", "delete", group, *at) == (0, [f"{group} deleted"], "")
    assert run("group", "describe", group, *at)[::2] == (
        1,
        f"bridge: there is no group {group!r}; `bridge group list` shows those that there are\n",
    )


def test_where_to() -> None:
    assert target("17") == 17
    assert milliseconds("1970-01-01T00:00:01") == milliseconds("1970-01-01T01:00:01+01:00") == 1000
    with pytest.raises(SettingsError, match="'yesterday' is no offset, earliest, latest, nor a time as"):
        target("yesterday")
