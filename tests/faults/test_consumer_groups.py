"""The bridge is killed between the steps of a rebalance of the new consumer protocol: members keep their epochs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from bridge.apis import offset_fetch
from tests.apis.wire import ask_at
from tests.clients.families.confluent import Confluent
from tests.clients.families.java import Java
from tests.clients.members import Joining, Member, until, until_shared
from tests.clients.model import Draft, attempts
from tests.clients.raw_members import PARTITIONS, Group
from tests.support.bridges import BridgeChild
from tests.support.java import KAFKA


@pytest.fixture
def bridge_child(start_bridge: Callable[..., BridgeChild]) -> BridgeChild:
    """The bridge, with members that hear of a rebalance soon."""
    return start_bridge(groups={"consumer_heartbeat_interval_ms": 300})


@pytest.fixture
def group(bridge_child: BridgeChild, topic: str) -> Group:
    admin = AdminClient({"bootstrap.servers": bridge_child.kafka})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
    return Group(bridge_child.kafka, [topic])


@pytest.fixture
def kill(bridge_child: BridgeChild, group: Group) -> Callable[[], None]:
    """SIGKILL, start again, and wait until the group is known."""

    def kill() -> None:
        bridge_child.kill()
        bridge_child.start()
        for _ in attempts("the group to be known"):
            if group.describe().error_code == 0:
                break

    return kill


def test_a_rebalance_goes_on_where_it_was(group: Group, kill: Callable[[], None]) -> None:
    group.join("m")
    kill()
    assert group.silent("m").member_epoch == 1
    assert group.join("n").member_epoch == 2
    kill()
    assert group.silent("m").assignment is not None  # what it keeps
    kill()
    assert group.describe().group_state == "Reconciling"
    assert group.silent("n").assignment is None  # m has not given anything back yet
    assert group.silent("m").member_epoch == 1
    assert group.beat("m").member_epoch == 2
    kill()
    assert group.silent("n").assignment is not None
    kill()
    assert (group.silent("m").assignment, group.silent("n").assignment) == (None, None)
    assert group.shared("m", "n")
    described = group.describe()
    assert (described.group_state, described.group_epoch) == ("Stable", 2)
    assert group.commit("m", 2) == 0


def test_an_answer_lost_with_the_bridge_is_given_again(group: Group, kill: Callable[[], None]) -> None:
    group.join("m")
    group.join("n")
    group.silent("m")
    group.send("m", 1, topic_partitions=group.owned("m"))  # stored, and no client has heard the answer
    kill()
    again = group.send("m", 1, topic_partitions=group.owned("m"))
    assert (again.error_code, again.member_epoch) == (0, 2)


def test_a_static_member_away_keeps_its_place(group: Group, kill: Callable[[], None]) -> None:
    group.join("m", instance_id="i")
    group.send("m", -2, instance_id="i")
    kill()
    group.join("m2", instance_id="i")
    assert (group.epochs["m2"], group.held["m2"]) == (1, group.held["m"])


@pytest.fixture(params=[pytest.param("java", marks=pytest.mark.soak), "confluent"])
def client(request: pytest.FixtureRequest, bridge_child: BridgeChild, tmp_path: Path) -> Iterator[Java | Confluent]:
    """A client that speaks the new protocol."""
    address = bridge_child.kafka
    made = Java("java", KAFKA, address, tmp_path / "java") if request.param == "java" else Confluent(address)
    yield made
    made.close()


def committed(bridge: BridgeChild, name: str) -> dict[int, int]:
    """The offsets of a group in the topic of its name, asked for again: an old connection may be in its back-off."""
    asked = offset_fetch.RequestGroup(group_id=name)
    (group,) = ask_at(bridge.kafka, offset_fetch.API, offset_fetch.Request(groups=[asked])).groups
    return {one.partition_index: one.committed_offset for topic in group.topics for one in topic.partitions}


def until_all_read(members: Sequence[Member], values: set[str]) -> None:
    until("all records", lambda: values <= {value for member in members for value in member.values}, *members)


def test_members_come_to_share_though_the_bridge_is_killed_in_each_rebalance(
    bridge_child: BridgeChild, client: Java | Confluent, topic: str
) -> None:
    client.create_topic(topic, PARTITIONS)
    members = [client.join(Joining(topic, topic, protocol="consumer"))]
    until_shared(members, PARTITIONS)
    read = set()
    for kill in range(PARTITIONS - 1):
        batch = [Draft("", f"{kill}-{number}".encode(), None, partition=number % PARTITIONS) for number in range(40)]
        ends = {one.partition: one.offset + 1 for one in client.write(topic, batch)}
        read |= {(draft.value or b"").decode() for draft in batch}
        until_all_read(members, read)
        for member in members:
            member.commit()
        members.append(client.join(Joining(topic, topic, protocol="consumer")))
        bridge_child.kill()
        bridge_child.start()
        until_shared(members, PARTITIONS)
        assert committed(bridge_child, topic) == ends
    for member in members:
        member.leave()
