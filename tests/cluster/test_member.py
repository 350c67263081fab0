"""Members on a real Pulsar: joining, leaving, dying, and the cluster's topics deleted under them."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import pytest

from bridge.cluster.membership.effects import Serving
from bridge.cluster.membership.records import TopicChange, TopicEvent
from bridge.cluster.topics import HEARTBEATS, VIEW_LOG
from bridge.errors import StartupError
from tests.cluster.nodes import SLOTS, Members, members
from tests.support.pulsar import PulsarAddress
from tests.support.state import beside
from tests.support.waiting import until


@pytest.fixture
async def cluster(pulsar: PulsarAddress) -> AsyncIterator[Members]:
    async with members(pulsar) as found:
        yield found


async def test_one_node_is_a_cluster_of_one(cluster: Members) -> None:
    one = await cluster.start("a")
    assert (one.cluster.node_id, one.led, one.cluster.serving) == (0, SLOTS, Serving.SERVE)
    node = one.cluster.node
    assert (node.host, node.port, one.cluster.snapshot.controller) == ("a", 9092, node)
    epoch = one.cluster.snapshot.leader("t", 0).epoch
    await one.stop()
    again = await cluster.start("a")
    assert (again.cluster.node_id, again.led) == (0, SLOTS)
    assert again.cluster.snapshot.leader("t", 0).epoch >= epoch


async def test_nodes_join_share_and_hand_over(cluster: Members) -> None:
    one = await cluster.start("a")
    two = await cluster.start("b")
    three = await cluster.start("c")
    await cluster.agree(one, two, three)
    assert [node.id for node in two.cluster.snapshot.nodes] == [0, 1, 2]
    await one.stop()  # the controller
    await cluster.agree(two, three)
    await three.stop()
    await cluster.agree(two)


async def test_a_node_that_dies_is_replaced_and_comes_back_with_its_id(cluster: Members) -> None:
    one, two = await cluster.start("a"), await cluster.start("b")
    await cluster.agree(one, two)
    await one.kill()
    await cluster.agree(two)
    again = await cluster.start("a")
    await cluster.agree(again, two)
    assert again.cluster.node_id == 0
    assert two.cluster.snapshot.controller == two.cluster.node


async def test_a_node_that_starts_lists_those_that_have_died_lately_too(cluster: Members) -> None:
    """Of librdkafka's clients each may ask it first, and they take a broker that is not listed out of service."""
    one, two, three = await cluster.start("a"), await cluster.start("b"), await cluster.start("c")
    await cluster.agree(one, two, three)
    await two.kill()
    await three.kill()
    await cluster.agree(one)
    again = await cluster.start("b")
    await cluster.agree(one, again)
    for each in (one, again):
        assert [node.id for node in each.cluster.departed_at("PLAINTEXT")] == [2]


async def test_many_start_at_once(cluster: Members) -> None:
    found = await asyncio.gather(*(cluster.start(f"n{index}") for index in range(5)))
    await cluster.agree(*found)
    assert sorted(one.cluster.node_id for one in found) == [0, 1, 2, 3, 4]


async def test_a_name_that_is_in_use_is_refused_with_its_holder(cluster: Members) -> None:
    one = await cluster.start("a")
    with pytest.raises(StartupError, match=r"cluster.name = a: another bridge has this name \(a:9092\)"):
        await cluster.start("a")
    assert one.led == SLOTS
    assert not one.member.ended.done()


async def test_a_node_that_is_not_admitted_ends_in_order_and_says_why(
    cluster: Members, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cluster.start("a", 0)
    monkeypatch.setattr("bridge.cluster.member._JOIN_SECONDS", 5.0)
    starting = asyncio.ensure_future(cluster.start("b", 0))
    why = "kafka.node_id = 0 is the id of node a: each node needs its own"
    await until(lambda: cluster.all[-1].member.waits_for() == f"the cluster to admit this node: {why}")
    with pytest.raises(StartupError, match=why):
        await starting
    await cluster.all[-1].stop()


@pytest.mark.parametrize("topic", [VIEW_LOG, HEARTBEATS])
async def test_a_cluster_goes_on_when_its_topics_are_deleted(cluster: Members, topic: str) -> None:
    one, two = await cluster.start("a"), await cluster.start("b")
    await cluster.agree(one, two)
    epoch = one.cluster.snapshot.leader("t", 0).epoch
    await cluster.admin.delete_non_partitioned(beside(cluster.namespace).state_topic(topic))
    three = await cluster.start("c")
    await cluster.agree(one, two, three)
    assert three.cluster.snapshot.leader("t", 0).epoch >= epoch
    assert [one.cluster.serving, two.cluster.serving, three.cluster.serving] == [Serving.SERVE] * 3


async def test_both_topics_lost_while_nothing_runs_are_begun_again(cluster: Members) -> None:
    one = await cluster.start("a")
    version = one.cluster.view.version
    await one.stop()
    for topic in (VIEW_LOG, HEARTBEATS):
        await cluster.admin.delete_non_partitioned(beside(cluster.namespace).state_topic(topic))
    again = await cluster.start("a")
    assert again.cluster.view.version >= version
    assert again.led == SLOTS


async def test_a_change_of_a_topic_is_told_to_all_others(cluster: Members) -> None:
    one, two = await cluster.start("a"), await cluster.start("b")
    heard: list[tuple[str, TopicChange]] = []

    def note(name: str, change: TopicChange) -> None:
        heard.append((name, change))

    for member in (one, two):
        member.member.on_topic_change.append(partial(note, member.cluster.node.host))
    change = TopicChange("orders", "1", TopicEvent.CHANGED)
    one.member.announce(change)
    await until(lambda: heard == [("b", change)])
    two.member.announce(change)
    await until(lambda: heard == [("b", change), ("a", change)])


async def test_a_change_that_could_not_be_told_hides_no_other_nodes_change(cluster: Members) -> None:
    one, two = await cluster.start("a"), await cluster.start("b")
    await cluster.agree(one, two)
    heard: list[TopicChange] = []
    two.member.on_topic_change.append(heard.append)
    change = TopicChange("orders", "1", TopicEvent.CHANGED)
    assert two.member._appender is not None
    await two.member._appender._producer.close()  # as Pulsar may end it
    two.member.announce(change)
    one.member.announce(change)
    await until(lambda: heard == [change])


async def test_unloads_of_the_topics_change_nothing(cluster: Members) -> None:
    one, two = await cluster.start("a"), await cluster.start("b")
    await cluster.agree(one, two)
    version = one.cluster.view.version
    for _ in range(3):
        for topic in (VIEW_LOG, HEARTBEATS):
            await cluster.admin.unload(beside(cluster.namespace).state_topic(topic))
    three = await cluster.start("c")
    await cluster.agree(one, two, three)
    removed = [member for member in (one, two) if member.member.ended.done()]
    assert (removed, one.cluster.node_id, two.cluster.node_id) == ([], 0, 1)
    assert three.cluster.view.version > version
