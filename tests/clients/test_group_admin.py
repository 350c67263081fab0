"""Every client's view of groups and offsets, and what it may change in them."""

from __future__ import annotations

import pytest

from tests.clients.endpoint import Clients, able, unique
from tests.clients.members import until, until_read
from tests.clients.model import GroupView, Refused
from tests.clients.scene import PARTITIONS, Scene

UNKNOWN_MEMBER_ID = 25
NON_EMPTY_GROUP = 68
GROUP_ID_NOT_FOUND = 69
GROUP_SUBSCRIBED_TO_TOPIC = 86
ALL = tuple(range(PARTITIONS))


@pytest.fixture(scope="module")
def topic(clients: Clients) -> str:
    """A topic whose records do not matter."""
    scene = Scene(clients)
    scene.write(30)
    return scene.topic


@pytest.mark.parametrize("family", able("commit-alone"))
def test_offsets_are_committed_without_a_member(clients: Clients, topic: str, family: str) -> None:
    client, group = clients.groups(family), unique("alone")
    client.commit_alone(group, topic, {0: 5, 1: 7})
    assert client.committed(group, topic, [0, 1, 2]) == {0: 5, 1: 7, 2: None}
    client.commit_alone(group, topic, {0: 4})
    assert client.committed(group, topic, [0, 1]) == {0: 4, 1: 7}
    assert client.group_offsets(group) == {(topic, 0): 4, (topic, 1): 7}
    assert clients.groups("kafka-python").group_offsets(group) == {(topic, 0): 4, (topic, 1): 7}


@pytest.mark.parametrize("family", able("commit-alone"))
def test_an_unknown_group_has_no_offsets(clients: Clients, topic: str, family: str) -> None:
    client = clients.groups(family)
    assert client.committed(unique("unknown"), topic, [0, 1]) == {0: None, 1: None}
    assert client.group_offsets(unique("unknown")) == {}


@pytest.mark.parametrize("family", able("describe-groups"))
def test_groups_are_listed_and_described(scene: Scene, clients: Clients, family: str) -> None:
    client = clients.groups(family)
    assert client.group(scene.group).state == "Dead"
    member = scene.join(family)
    until("the group to be stable", lambda: member.held == set(ALL), member)
    assert scene.group in client.groups()
    assert client.group(scene.group) == GroupView("Stable", (ALL,))
    scene.write(3)
    until_read([member], scene.values)
    member.commit()
    member.leave()
    assert client.group(scene.group) == GroupView("Empty")
    assert scene.group in client.groups()


@pytest.mark.parametrize("family", able("delete-groups"))
def test_a_group_is_deleted_when_it_is_empty(scene: Scene, clients: Clients, family: str) -> None:
    client = clients.groups(family)
    client.commit_alone(scene.group, scene.topic, {0: 0})
    member = scene.join(family)
    until("the group to be stable", lambda: member.held == set(ALL), member)
    with pytest.raises(Refused) as refused:
        client.delete_group(scene.group)
    assert refused.value.code == NON_EMPTY_GROUP
    member.leave()
    client.delete_group(scene.group)
    assert scene.group not in client.groups()
    assert client.group_offsets(scene.group) == {}
    with pytest.raises(Refused) as refused:
        client.delete_group(scene.group)
    assert refused.value.code == GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("family", able("alter-group-offsets"))
def test_offsets_are_set_when_the_group_is_empty(scene: Scene, clients: Clients, family: str) -> None:
    client = clients.groups(family)
    values = scene.write(30)
    client.alter_group_offsets(scene.group, scene.topic, {0: 8, 1: 9, 2: 10})
    assert client.group_offsets(scene.group) == {(scene.topic, 0): 8, (scene.topic, 1): 9, (scene.topic, 2): 10}
    member = scene.join(family)
    # partition 0 has two records more, partition 1 one: the 25th, 28th and 29th of all
    until_read([member], [values[24], values[27], values[28]])
    with pytest.raises(Refused) as refused:
        client.alter_group_offsets(scene.group, scene.topic, {0: 0})
    assert refused.value.code == UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("family", able("delete-group-offsets"))
def test_offsets_of_a_topic_without_subscribers_are_deleted(
    scene: Scene, clients: Clients, topic: str, family: str
) -> None:
    client = clients.groups(family)
    client.commit_alone(scene.group, topic, {0: 3, 1: 4})
    client.commit_alone(scene.group, scene.topic, {0: 0})
    member = scene.join(family)
    until("the group to be stable", lambda: member.held == set(ALL), member)
    with pytest.raises(Refused) as refused:
        client.delete_group_offsets(scene.group, scene.topic, [0])
    assert refused.value.code == GROUP_SUBSCRIBED_TO_TOPIC
    client.delete_group_offsets(scene.group, topic, [0])
    assert client.group_offsets(scene.group) == {(topic, 1): 4, (scene.topic, 0): 0}
