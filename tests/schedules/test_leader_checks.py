"""What a node that does not lead a partition answers, whenever a view of the cluster comes."""

import asyncio
from typing import Any

from bridge import apis
from bridge.apis import (
    alter_replica_log_dirs,
    describe_log_dirs,
    describe_topic_partitions,
    fetch,
    find_coordinator,
    metadata,
    offset_for_leader_epoch,
    produce,
)
from bridge.cluster.membership.effects import Serving
from bridge.cluster.membership.view import ClusterView
from bridge.kafka import message
from bridge.kafka.error_codes import ErrorCode
from bridge.requests.api import ServedBy
from bridge.requests.share import SHARE_APIS
from tests.schedules.explorer import schedules
from tests.schedules.kafka import NOW_MS, Client, batch, error_name
from tests.schedules.leader_requests import epochs_request, error_in, fetch_request, partition_in, requests, with_epochs
from tests.schedules.views import FIRST, SLOTS, first_view, give, next_view, node, slot
from tests.schedules.world import Bridge, World

HERE, THERE = 3, 5
MEMBERS = (node(HERE), node(THERE))
MINE = first_view(MEMBERS, lambda _: HERE)
LOST = next_view(MINE, lambda _: THERE)
AGAIN = next_view(LOST, lambda _: HERE)
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


async def led(world: World, topic: str = "t", partitions: int = 1) -> Bridge:
    """A node that leads everything, and a topic."""
    bridge = await world.started()
    give(bridge, MINE, HERE)
    await bridge.topics.create(topic, partitions)
    return bridge


def test_each_api_that_the_leader_serves_is_tried() -> None:
    served = {key: api.name for key, api in apis.load().items() if api.served_by is ServedBy.LEADER}
    # those of share groups are refused wherever there is another node
    assert {api.name for api, _ in requests("t", 0)} == {served[key] for key in served.keys() - SHARE_APIS}


@schedules(20)
async def test_another_node_s_partition_is_refused_and_not_opened(world: World) -> None:
    creator = await led(world, partitions=SLOTS)
    bridge = await world.started()
    view = first_view(MEMBERS, lambda number: (HERE, THERE)[number % 2])
    give(bridge, view, HERE)
    client = Client(world, bridge)
    for partition in range(4):
        mine = view.owners[slot("t", partition)] == HERE
        for api, request in requests("t", partition):
            if mine and api is not produce.API:
                continue
            error = error_in(await client.ask(api, request))
            assert error == (ErrorCode.NONE if mine else NOT_LEADER), f"{api.name}: {error_name(error)}"
        topic = await bridge.topics.get("t")
        assert topic is not None
        assert (partition in topic.logs) == mine
    for topic_name, partition in (("t", SLOTS), ("t", -1), ("unknown", 0)):
        for api, request in requests(topic_name, partition):
            error = error_in(await client.ask(api, request))
            assert error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{api.name}: {error_name(error)}"
    await creator.stop()


@schedules(20)
async def test_a_client_that_asks_the_wrong_node_is_told_the_right_one(world: World) -> None:
    bridge = await led(world)
    client = Client(world, bridge)
    give(bridge, LOST, HERE)
    for api, request in requests("t", 0)[:2]:
        answer = await client.ask(api, request)
        body = b"".join(api.encode(answer, api.max_version))
        told = message.decode(api.response, body, api.max_version, True)
        leader = partition_in(told).current_leader
        assert (leader.leader_id, leader.leader_epoch) == (THERE, FIRST + 1)
        assert [one.node_id for one in told.node_endpoints] == [THERE]
        if api is produce.API:
            (endpoint,) = told.node_endpoints
            assert (endpoint.node_id, endpoint.host, endpoint.port, endpoint.rack) == (THERE, f"h{THERE}", 9092, None)
    give(bridge, AGAIN, HERE)
    fenced = await client.ask(fetch.API, fetch_request("t", 0, FIRST))
    leader = partition_in(fenced).current_leader
    assert (leader.leader_id, leader.leader_epoch) == (HERE, FIRST + 2)
    give(bridge, AGAIN, HERE, Serving.REFUSE)
    for api, request in requests("t", 0)[:2]:
        assert partition_in(await client.ask(api, request)).current_leader is None, "there is none"


@schedules(20)
async def test_a_group_s_coordinator_is_the_owner_of_its_slot(world: World) -> None:
    bridge = await world.started(groups=True)
    client = Client(world, bridge)
    groups = [f"g{number}" for number in range(5)]
    for view, serving, expected in (
        (MINE, Serving.SERVE, HERE),
        (LOST, Serving.SERVE, THERE),
        (LOST, Serving.REFUSE, THERE),
        (MINE, Serving.REFUSE, None),
        (next_view(MINE, lambda _: THERE, [MEMBERS[0]]), Serving.SERVE, None),
    ):
        give(bridge, view, HERE, serving)
        asked = find_coordinator.Request(coordinator_keys=groups)
        for one in (await client.ask(find_coordinator.API, asked)).coordinators:
            if expected is None:
                assert (one.error_code, one.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
            else:
                assert (one.error_code, one.node_id, one.host) == (0, expected, f"h{expected}")


@schedules(100)
async def test_an_answer_names_only_the_brokers_of_one_view(world: World) -> None:
    creator = await led(world, partitions=8)
    await creator.topics.create("u", 8)
    bridge = await world.started()
    give(bridge, MINE, HERE)
    client, over = Client(world, bridge), asyncio.Event()
    views = [MINE]

    async def change() -> None:
        while not over.is_set():
            there = [one for one in MEMBERS if one.id == HERE or world.chance.often(0.7)]
            owners = [world.chance.choice((HERE, THERE)) for _ in range(SLOTS)]
            views.append(next_view(views[-1], owners.__getitem__, there))
            give(bridge, views[-1], HERE)
            await world.sleep(0, world.chance.choice((0.001, 0.02)))

    changing = asyncio.ensure_future(change())
    for number in range(4):
        known = await bridge.topics.get("tu"[number % 2])
        assert known is not None
        bridge.topics.forget(known)  # Pulsar is asked again
        all_topics = await client.ask(metadata.API, metadata.Request(topics=None))
        check_topics(all_topics.topics, views, {one.node_id for one in all_topics.brokers})
        wanted = [describe_topic_partitions.RequestTopic(name=name) for name in "tu"]
        described = await client.ask(describe_topic_partitions.API, describe_topic_partitions.Request(topics=wanted))
        check_topics(described.topics, views, None)
    over.set()
    await changing


def check_topics(topics: Any, views: list[ClusterView], brokers: set[int] | None) -> None:
    """All of it is of one of the views."""
    told = [(topic.name, one) for topic in topics for one in topic.partitions]
    assert len(told) == 16
    assert any(is_of(view, told, brokers) for view in views)


def is_of(view: ClusterView, told: list[tuple[str, Any]], brokers: set[int] | None) -> bool:
    """Whether the view says exactly what was told."""
    for name, one in told:
        owner, epoch = view.owners[slot(name, one.partition_index)], view.epochs[slot(name, one.partition_index)]
        there = owner in view.members
        expected = 0 if there else ErrorCode.LEADER_NOT_AVAILABLE, owner if there else -1, epoch
        if (one.error_code, one.leader_id, one.leader_epoch) != expected:
            return False
        if (one.replica_nodes, one.isr_nodes, one.offline_replicas) != ([owner], [owner], [] if there else [owner]):
            return False
    return brokers in (None, set(view.members))


@schedules(20)
async def test_the_replica_of_another_node_has_no_directory_here(world: World) -> None:
    bridge = await led(world, partitions=4)
    view = next_view(MINE, lambda number: (HERE, THERE)[number % 2])
    give(bridge, view, HERE)
    client = Client(world, bridge)
    mine = [index for index in range(4) if view.owners[slot("t", index)] == HERE]
    place = alter_replica_log_dirs.Directory(
        path=describe_log_dirs.directory_of(bridge.handlers),
        topics=[alter_replica_log_dirs.RequestTopic(name="t", partitions=list(range(4)))],
    )
    moved = await client.ask(alter_replica_log_dirs.API, alter_replica_log_dirs.Request(dirs=[place]))
    errors = {one.partition_index: one.error_code for one in moved.results[0].partitions}
    assert errors == {index: 0 if index in mine else ErrorCode.REPLICA_NOT_AVAILABLE for index in range(4)}


@schedules(40)
async def test_the_client_s_leader_epoch_is_that_of_the_view(world: World) -> None:
    bridge = await led(world)
    client = Client(world, bridge)
    for api, request in with_epochs("t", 0, FIRST + 2):
        asked = world.now
        assert error_in(await client.ask(api, request)) == ErrorCode.UNKNOWN_LEADER_EPOCH
        assert 0.5 <= world.now - asked < 3, "the view may be about to come"
    give(bridge, AGAIN, HERE)
    for epoch, error in (
        (FIRST + 1, ErrorCode.FENCED_LEADER_EPOCH),
        (0, ErrorCode.FENCED_LEADER_EPOCH),
        (FIRST + 2, 0),
        (-1, 0),
    ):
        for api, request in with_epochs("t", 0, epoch):
            assert error_in(await client.ask(api, request)) == error, (api.name, epoch)


@schedules(40)
async def test_a_client_that_knows_a_newer_leader_waits_for_the_view(world: World) -> None:
    bridge = await led(world)
    client = Client(world, bridge)
    api, request = world.chance.choice(with_epochs("t", 0, FIRST + 2))
    asked = world.now
    answer = asyncio.ensure_future(client.ask(api, request))
    await world.sleep(0, 0.2)
    give(bridge, LOST, HERE)
    await world.sleep(0, 0.2)
    give(bridge, AGAIN, HERE)
    came = world.now
    assert error_in(await answer) == 0, api.name
    assert world.now - asked < 3
    assert came - asked < 0.5


@schedules(40)
async def test_every_epoch_ends_where_the_log_does(world: World) -> None:
    bridge = await led(world)
    client = Client(world, bridge)
    assert (await client.produce("t", batch([b"a", b"b"], [NOW_MS] * 2))).error == 0
    for asked in (0, 1, FIRST - 1, FIRST, FIRST + 7, 2**31 - 1):
        answer = await client.ask(offset_for_leader_epoch.API, epochs_request("t", 0, FIRST, asked))
        found = answer.topics[0].partitions[0]
        assert (found.error_code, found.leader_epoch, found.end_offset) == (0, 0, 2), asked


@schedules(60)
async def test_a_fetch_that_waits_is_told_at_once_that_the_partition_is_lost(world: World) -> None:
    bridge = await led(world, partitions=2)
    clients = [Client(world, bridge, f"consumer {number}") for number in range(3)]
    epochs = [world.chance.choice((-1, FIRST)) for _ in clients]
    waiting = [
        asyncio.ensure_future(client.ask(fetch.API, fetch_request("t", 0, epoch, wait=600.0), seconds=700.0))
        for client, epoch in zip(clients, epochs, strict=True)
    ]
    other = asyncio.ensure_future(clients[0].ask(fetch.API, fetch_request("t", 1, wait=600.0), seconds=700.0))
    await world.sleep(0, 2.0)
    lost = slot("t", 0)
    give(bridge, next_view(MINE, lambda number: THERE if number == lost else HERE), HERE)
    asked = world.now
    for answer in waiting:
        assert error_in(await answer) == NOT_LEADER
    assert world.now - asked < 3
    assert not other.done()
    give(bridge, MINE, HERE, Serving.REFUSE)
    assert error_in(await other) == NOT_LEADER


@schedules(40)
async def test_a_fetch_that_waits_over_a_loss_and_its_return_is_fenced(world: World) -> None:
    bridge = await led(world)
    client = Client(world, bridge)
    answer = asyncio.ensure_future(client.ask(fetch.API, fetch_request("t", 0, FIRST, wait=600.0), seconds=700.0))
    await world.sleep(1.0, 2.0)
    if world.chance.often(0.5):
        give(bridge, LOST, HERE)
    give(bridge, AGAIN, HERE)
    assert error_in(await answer) == ErrorCode.FENCED_LEADER_EPOCH


@schedules(100)
async def test_what_a_view_takes_while_a_produce_is_prepared_is_not_appended(world: World) -> None:
    await led(world)
    bridge = await world.started()
    give(bridge, MINE, HERE)
    client = Client(world, bridge)
    answer = asyncio.ensure_future(client.produce("t", batch([b"v"], [NOW_MS])))
    for _ in range(world.chance.choice((1, 2, 5))):
        await asyncio.sleep(0)  # the topic is not known yet: Pulsar has to be asked
    if world.chance.often(0.5):
        # the log is open, and its end and its producer are asked for
        while bridge.topics.opened("t", 0) is None:  # noqa: ASYNC110 - nothing tells it
            await asyncio.sleep(0.0001)
    give(bridge, LOST, HERE, world.chance.choice((Serving.SERVE, Serving.REFUSE, Serving.HOLD)))
    assert (await answer).error == NOT_LEADER
    await world.sleep(5.0)
    assert await client_end(world) == 0


@schedules(100)
async def test_a_produce_waits_until_a_node_that_was_paused_knows_what_it_has_missed(world: World) -> None:
    bridge = await led(world)
    client = Client(world, bridge)
    if world.chance.often(0.5):
        assert (await client.produce("t", batch([b"w"], [NOW_MS]))).error == 0
    before = await client_end(world)
    give(bridge, MINE, HERE, Serving.HOLD)
    answer = asyncio.ensure_future(client.produce("t", batch([b"v"], [NOW_MS])))
    await world.sleep(0.5, 4.0)
    assert not answer.done()
    assert await client_end(world) == before
    choice = world.chance.choice(("serve", "lost", "refuse", "never"))
    if choice == "serve":
        give(bridge, MINE, HERE, Serving.SERVE)
    elif choice == "lost":
        give(bridge, LOST, HERE, Serving.SERVE)
    elif choice == "refuse":
        give(bridge, MINE, HERE, Serving.REFUSE)
    produced = await answer
    assert produced.error == (0 if choice == "serve" else NOT_LEADER), choice
    assert await client_end(world) == before + (choice == "serve")


async def client_end(world: World) -> int:
    """Where the log ends, as another node that leads it says."""
    bridge = await world.started()
    error, end = await Client(world, bridge, "looker").offset("t")
    assert error == 0, error_name(error)
    await bridge.stop()
    return end
