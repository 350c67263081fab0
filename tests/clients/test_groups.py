"""Every client in groups: alone, in pairs and together with others; records come once and go on where they stopped."""

from __future__ import annotations

import pytest

from tests.clients.endpoint import FAMILIES, Clients, able
from tests.clients.families.kcat_member import KcatMember
from tests.clients.members import Member, until, until_read, until_shared
from tests.clients.model import attempts
from tests.clients.scene import Scene, come_back, share

# kcat and kafka-python do not show it; aiokafka's heartbeats are too old to name the instance
FENCED = ["confluent", "java", "java-3.9"]


@pytest.mark.parametrize("family", FAMILIES)
def test_one_member_reads_all_commits_leaves_and_resumes(scene: Scene, clients: Clients, family: str) -> None:
    first = scene.write(30)
    member = scene.join(family)
    until_read([member], first)
    assert member.held == set(range(scene.partitions))
    scene.commit([member], family)
    member.leave()
    committed = clients.groups("kafka-python").group_offsets(scene.group)
    assert committed == {(scene.topic, partition): end for partition, end in scene.ends.items()}
    second = scene.write(15)
    again = scene.join(family)
    until_read([again], second)


@pytest.mark.parametrize("family", FAMILIES)
def test_two_members_share_the_partitions_and_each_record_comes_once(scene: Scene, family: str) -> None:
    share(scene, family)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_group_without_offsets_begins_where_it_is_told(scene: Scene, family: str) -> None:
    scene.write(6)
    member = scene.join(family, reset="latest")
    for _ in attempts("a record after the end"):
        # each round writes into all partitions, until the member has found the ends
        scene.write(scene.partitions)
        wait_for_any(member)
        if member.seen:
            break
    assert not set(member.values) & set(scene.values[:6])


def wait_for_any(member: Member) -> None:
    try:
        until("any record", lambda: bool(member.seen), member, seconds=0.3)
    except AssertionError:
        if member.failure:
            raise


@pytest.mark.parametrize("family", able("static"))
def test_a_static_member_comes_back_to_its_partitions_without_a_rebalance(scene: Scene, family: str) -> None:
    come_back(scene, family, session_ms=30_000)


@pytest.mark.parametrize("family", FENCED)
def test_a_second_one_of_the_same_instance_fences_the_first(scene: Scene, family: str) -> None:
    first = scene.join(family, instance="only")
    scene.until_all_held_by(first)
    second = scene.join(family, instance="only")
    until("the first one to be fenced", lambda: "fenced" in first.failure.lower(), second)
    scene.until_all_held_by(second)


@pytest.mark.parametrize("family", able("cooperative"))
def test_a_cooperative_member_keeps_what_it_need_not_give(scene: Scene, family: str) -> None:
    first = scene.join(family, cooperative=True)
    scene.until_all_held_by(first)
    scene.write(9)
    until_read([first], scene.values)
    first.commit()
    second = scene.join(family, cooperative=True)
    until_shared([first, second], scene.partitions)
    since = next(n for n, held in enumerate(first.history) if held.partitions)
    assert all(held.partitions for held in first.history[since:]), first.history
    scene.write(9)
    until_read([first, second], scene.values)


def test_clients_of_all_families_share_one_group(clients: Clients) -> None:
    # all but aiokafka, which knows no assignor that the Java client offers
    families = [family for family in FAMILIES if family != "aiokafka"]
    scene = Scene(clients, partitions=len(families))
    try:
        members = [scene.join(family) for family in families]
        until_shared(members, scene.partitions)
        scene.write(5 * len(families))
        until_read(members, scene.values)
    finally:
        scene.close()


def test_a_killed_members_partitions_go_to_the_others(scene: Scene) -> None:
    stays = scene.join("confluent")
    scene.until_all_held_by(stays)
    killed = scene.join("kcat", session_ms=6000)
    assert isinstance(killed, KcatMember)
    until_shared([stays, killed], scene.partitions)
    killed.kill()
    scene.until_all_held_by(stays)
    scene.write(6)
    until_read([stays], scene.values)
