"""The bridge is killed between the steps of a rebalance of the new consumer protocol: members keep their epochs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.clients.model import attempts
from tests.clients.raw_members import PARTITIONS, Group
from tests.support.bridges import BridgeChild

pytestmark = pytest.mark.pulsar


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
    group.send("m", 1, topic_partitions=group.owned("m"))  # stored, and nobody has heard the answer
    kill()
    again = group.send("m", 1, topic_partitions=group.owned("m"))
    assert (again.error_code, again.member_epoch) == (0, 2)


def test_a_static_member_away_keeps_its_place(group: Group, kill: Callable[[], None]) -> None:
    group.join("m", instance_id="i")
    group.send("m", -2, instance_id="i")
    kill()
    group.join("m2", instance_id="i")
    assert (group.epochs["m2"], group.held["m2"]) == (1, group.held["m"])
