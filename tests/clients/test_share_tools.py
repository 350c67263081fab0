"""Kafka's tools for share groups, as their users call them. The tool of Kafka 4.1 has no `--reset-offsets` yet."""

from __future__ import annotations

import re

import pytest

from bridge.apis import find_coordinator, share_group_heartbeat
from bridge.kafka.error_codes import ErrorCode
from tests.apis.wire import ask_at
from tests.clients.endpoint import Endpoint, unique
from tests.clients.model import attempts
from tests.clients.refusals import groups
from tests.clients.scene import PARTITIONS, Scene
from tests.support.group_tool import table
from tests.support.java import KAFKA, NEWEST, Jars, run_tool

SHARES = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
ALL_GROUPS = "org.apache.kafka.tools.GroupsCommand"


def tool(endpoint: Endpoint, *arguments: str, main_class: str = SHARES, jars: Jars = KAFKA) -> str:
    return run_tool(main_class, "--bootstrap-server", endpoint.kafka, *arguments, jars=jars)


def beat(endpoint: Endpoint, group: str, epoch: int, *topics: str) -> share_group_heartbeat.Response:
    request = share_group_heartbeat.Request(
        group_id=group, member_id="m", member_epoch=epoch, subscribed_topic_names=list(topics) or None
    )
    for _ in attempts("the coordinator of a share group"):
        answer: share_group_heartbeat.Response = ask_at(endpoint.kafka, share_group_heartbeat.API, request)
        if not ErrorCode(answer.error_code).retriable:
            assert answer.error_code == ErrorCode.NONE, answer
            return answer
    raise AssertionError("not reached")


@pytest.fixture
def group(endpoint: Endpoint, scene: Scene) -> str:
    """A share group of one member, which has every partition of the scene's topic."""
    name = unique("shares")
    scene.write(30)
    ask_at(
        endpoint.kafka, find_coordinator.API, groups.find(name)
    )  # Kafka sets coordinators up when they are asked for
    epoch = 0
    for _ in attempts("partitions"):  # Kafka assigns them some time later, when it has made their states
        answer = beat(endpoint, name, epoch, scene.topic)
        epoch = answer.member_epoch
        if answer.assignment is not None and answer.assignment.topic_partitions:
            return name
    raise AssertionError("not reached")


def test_a_share_group_is_listed_described_and_deleted(endpoint: Endpoint, scene: Scene, group: str) -> None:
    of_group = ["--group", group]

    def said(*arguments: str, main_class: str = SHARES) -> str:
        beat(endpoint, group, 0, scene.topic)  # it joins again, before its session ends: each tool takes seconds
        return tool(endpoint, *arguments, main_class=main_class)

    assert group in said("--list").split()
    rows = table(said("--list", "--state", "stable"))
    assert [row["STATE"] for row in rows if row["GROUP"] == group] == ["Stable"]
    (row,) = [one for one in table(said("--list", main_class=ALL_GROUPS)) if one["GROUP"] == group]
    assert (row["TYPE"], row["PROTOCOL"]) == ("Share", "share")
    (row,) = table(said("--describe", "--members", *of_group))
    assert row["CONSUMER-ID"] == "m"
    assert f"{scene.topic}:{','.join(map(str, range(PARTITIONS)))}" in row.values()
    assert "Stable" in said("--describe", "--state", *of_group)
    rows = table(said("--describe", "--offsets", *of_group))
    assert {(row["TOPIC"], row["START-OFFSET"]) for row in rows} == {(scene.topic, "-")}
    beat(endpoint, group, -1)
    (row,) = table(tool(endpoint, "--delete-offsets", *of_group, "--topic", scene.topic), "TOPIC")
    assert (row["TOPIC"], row["STATUS"]) == (scene.topic, "Successful")
    assert re.search("success", tool(endpoint, "--delete", *of_group), re.I)
    assert group not in tool(endpoint, "--list").split()


def test_offsets_are_reset_and_the_lag_is_told(endpoint: Endpoint, scene: Scene, group: str) -> None:
    of_group = ["--group", group]
    beat(endpoint, group, -1)
    wanted = ["--reset-offsets", *of_group, "--topic", scene.topic, "--to-earliest", "--execute"]
    rows = table(tool(endpoint, *wanted, jars=NEWEST))
    assert {(row["TOPIC"], row["NEW-OFFSET"]) for row in rows} == {(scene.topic, "0")}
    rows = table(tool(endpoint, "--describe", "--offsets", *of_group, jars=NEWEST))
    assert {(row["TOPIC"], row["START-OFFSET"]) for row in rows} == {(scene.topic, "0")}
    if endpoint.name == "control":  # Kafka 4.1 does not tell it
        assert {row["LAG"] for row in rows} == {"-"}
    else:
        assert sum(int(row["LAG"]) for row in rows) == 30


def starts(endpoint: Endpoint, scene: Scene, *arguments: str) -> set[str]:
    """Where the tool says that a group would begin, or begins."""
    wanted = ["--reset-offsets", *arguments]
    rows = table(tool(endpoint, *wanted, jars=NEWEST))
    assert {row["TOPIC"] for row in rows} == {scene.topic} and len(rows) == PARTITIONS
    return {row["NEW-OFFSET"] for row in rows}


@pytest.mark.soak
def test_every_command_of_the_newest_tool(endpoint: Endpoint, scene: Scene, group: str) -> None:
    of_group, of_topic = ["--group", group], ["--topic", scene.topic]
    is_member = True

    def said(*arguments: str) -> str:
        if is_member:
            beat(endpoint, group, 0, scene.topic)  # it joins again, before its session ends
        return tool(endpoint, *arguments, jars=NEWEST)

    def rows(*arguments: str) -> list[dict[str, str]]:
        return [row for row in table(said(*arguments)) if row["GROUP"] == group]

    for told in ([], ["--offsets"], ["--offsets", "--verbose"]):
        assert {row["TOPIC"] for row in rows("--describe", *told, *of_group)} == {scene.topic}
    assert len(rows("--describe", "--all-groups")) == PARTITIONS
    (row,) = rows("--describe", "--members", "--verbose", *of_group)
    assert row["CONSUMER-ID"] == "m"
    (row,) = rows("--describe", "--state", "--verbose", *of_group)
    assert "Stable" in row.values()
    assert [row["STATE"] for row in rows("--list", "--state")] == ["Stable"]
    assert rows("--list", "--state", "empty") == []
    for changes in (["--delete"], ["--delete-offsets", *of_topic]):
        assert re.search("not.?empty|active|stable", said(*changes, *of_group), re.I)
    with pytest.raises(AssertionError, match="is not empty"):
        said("--reset-offsets", *of_topic, "--to-latest", "--execute", *of_group)
    is_member = False
    beat(endpoint, group, -1)
    assert starts(endpoint, scene, *of_group, *of_topic, "--to-latest", "--dry-run") == {"10"}
    assert {row["START-OFFSET"] for row in rows("--describe", *of_group)} == {"-"}
    assert starts(endpoint, scene, *of_group, "--all-topics", "--to-latest", "--execute") == {"10"}
    assert {row["START-OFFSET"] for row in rows("--describe", *of_group)} == {"10"}
    long_ago = ["--to-datetime", "2020-01-01T00:00:00.000"]
    assert starts(endpoint, scene, *of_group, *of_topic, *long_ago, "--execute") == {"0"}
    assert {row["START-OFFSET"] for row in rows("--describe", *of_group)} == {"0"}
    (row,) = table(said("--delete-offsets", *of_group, *of_topic), "TOPIC")
    assert row["STATUS"] == "Successful"
    assert re.search("success", said("--delete", *of_group), re.I)
    assert group not in said("--list").split()


@pytest.mark.soak
def test_the_tool_for_all_groups_chooses_those_of_a_type(endpoint: Endpoint, scene: Scene, group: str) -> None:
    scene.join("confluent")

    def listed(*arguments: str) -> set[str]:
        rows = table(tool(endpoint, "--list", *arguments, main_class=ALL_GROUPS, jars=NEWEST))
        return {row["GROUP"] for row in rows} & {group, scene.group}

    assert listed() == {group, scene.group}
    assert listed("--share") == listed("--group-type", "share") == listed("--protocol", "share") == {group}
    assert listed("--consumer") == listed("--protocol", "consumer") == {scene.group}
    assert listed("--streams") == set()
