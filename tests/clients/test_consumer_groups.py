"""Clients with `group.protocol=consumer` (KIP-848): alone, in pairs, static, by pattern; how their groups are shown."""

from __future__ import annotations

import pytest

from tests.clients.endpoint import Clients, Endpoint
from tests.clients.members import until, until_read, until_shared
from tests.clients.model import TIMEOUT_SECONDS
from tests.clients.scene import Scene, come_back, share
from tests.support.java import run_tool

FAMILIES = ["java", "confluent"]
GROUPS_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


@pytest.mark.parametrize("family", FAMILIES)
def test_one_member_reads_all_commits_leaves_and_resumes(scene: Scene, clients: Clients, family: str) -> None:
    first = scene.write(30)
    member = scene.join(family, protocol="consumer")
    until_read([member], first)
    scene.until_all_held_by(member)
    scene.commit([member], family)
    member.leave()
    committed = clients.groups("java").group_offsets(scene.group)
    assert committed == {(scene.topic, partition): end for partition, end in scene.ends.items()}
    second = scene.write(15)
    again = scene.join(family, protocol="consumer")
    until_read([again], second)


@pytest.mark.parametrize("family", FAMILIES)
def test_two_members_share_the_partitions_and_each_record_comes_once(scene: Scene, family: str) -> None:
    first = share(scene, family, protocol="consumer")
    assert first.history[-1].partitions >= first.history[-2].partitions


def test_members_of_different_clients_share_a_group(scene: Scene) -> None:
    members = [scene.join(family, protocol="consumer") for family in FAMILIES]
    until_shared(members, scene.partitions)
    scene.write(30)
    until_read(members, scene.values)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_static_member_comes_back_to_its_partitions_without_a_rebalance(scene: Scene, family: str) -> None:
    come_back(scene, family, protocol="consumer")


@pytest.mark.parametrize("family", FAMILIES)
def test_a_second_one_of_the_same_instance_is_turned_away(scene: Scene, family: str) -> None:
    first = scene.join(family, instance="only", protocol="consumer")
    scene.until_all_held_by(first)
    second = scene.join(family, instance="only", protocol="consumer")
    until("the second one to be refused", lambda: "instance" in second.failure.lower(), first)
    scene.write(9)
    until_read([first], scene.values)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_pattern_takes_in_topics_that_come_later(scene: Scene, clients: Clients, family: str) -> None:
    member = scene.join(family, protocol="consumer", pattern=f"{scene.topic}.*")
    scene.until_all_held_by(member)
    later = f"{scene.topic}-later"
    clients["confluent"].create_topic(later, scene.partitions + 2)
    # the partitions of both topics are noted by their numbers alone
    until("the new topic", lambda: member.held == set(range(scene.partitions + 2)), member, seconds=TIMEOUT_SECONDS)


def test_partitions_that_are_added_are_read(scene: Scene, clients: Clients) -> None:
    members = [scene.join(family, protocol="consumer") for family in FAMILIES]
    until_shared(members, scene.partitions)
    scene.partitions += 3
    clients.admin("java").add_partitions(scene.topic, scene.partitions)
    until_shared(members, scene.partitions)


def test_the_console_tool_shows_the_group(scene: Scene, clients: Clients, endpoint: Endpoint) -> None:
    def tool(*arguments: str) -> list[list[str]]:
        shown = run_tool(GROUPS_TOOL, "--bootstrap-server", endpoint.kafka, *arguments)
        return [line.split() for line in shown.splitlines() if scene.group in line]

    scene.write(9)
    member = scene.join("java", protocol="consumer")
    until_read([member], scene.values)
    member.commit()
    ends = {str(partition): str(end) for partition, end in scene.ends.items()}
    described = tool("--describe", "--group", scene.group)
    assert {(line[1], line[2], line[3], line[4], line[5]) for line in described} == {
        (scene.topic, partition, end, end, "0") for partition, end in ends.items()
    }
    (state,) = tool("--describe", "--group", scene.group, "--state", "--verbose")
    assert state[-5:] == ["uniform", "Stable", "1", "1", "1"]
    (shown,) = tool("--describe", "--group", scene.group, "--members", "--verbose")
    assert shown[-5:-2] == ["3", "1", f"{scene.topic}:0,1,2"]
    assert [line[1:] for line in tool("--list", "--state", "--type")] == [["Consumer", "Stable"]]
    member.leave()
    tool("--delete", "--group", scene.group)
    assert tool("--list") == []
