"""What consumers get that name their racks, at leaders and followers, whenever a view comes."""

import asyncio
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from bridge.apis import delete_records, fetch, metadata
from bridge.cluster.membership.effects import Serving
from bridge.cluster.membership.records import TopicEvent
from bridge.cluster.membership.view import ClusterView
from bridge.cluster.shared_settings import fingerprint
from bridge.cluster.view_changes import ViewFollower
from bridge.config import Settings
from bridge.kafka import fetch_wire
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.fetch_messages import RACKS
from tests.schedules.explorer import schedules
from tests.schedules.kafka import NOW_MS, Client, batch
from tests.schedules.leader_requests import error_in, partition_in, requests
from tests.schedules.views import FIRST, first_view, give, next_view, node
from tests.schedules.world import Bridge, World

LEADER, FOLLOWER, SPARE = 3, 5, 7
AWARE = fingerprint(Settings().with_values(cluster={"rack_aware_fetch": True}))
MEMBERS = tuple(
    replace(node(id_, rack), settings=AWARE) for id_, rack in ((LEADER, "a"), (FOLLOWER, "b"), (SPARE, "c"))
)
VIEW = first_view(MEMBERS, lambda _: LEADER)
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


async def nodes(world: World, count: int = 2) -> list[Bridge]:
    """The leader, its follower and perhaps the spare node; what each does to topics is told to the others."""
    found = [await world.started() for _ in range(count)]
    for bridge, member in zip(found, MEMBERS, strict=False):
        ViewFollower(bridge.handlers.cluster, bridge.topics, lambda *_: None)
        give(bridge, VIEW, member.id)
    for bridge in found:
        bridge.topics.on_changed.append(teller(world, [one for one in found if one is not bridge]))
    await found[0].topics.create("t", 1)
    return found


def teller(world: World, others: list[Bridge]) -> Callable[[str, uuid.UUID, TopicEvent], None]:
    def tell(name: str, topic_id: uuid.UUID, event: TopicEvent) -> None:
        for bridge in others:
            world.loop.call_later(world.chance.random() * 0.05, bridge.topics.note_change, name, topic_id, event)

    return tell


async def fetched(
    client: Client, offset: int = 0, rack: str = "", wait: float = 0.0, version: int | None = None, epoch: int = -1
) -> Any:
    """What a Fetch is answered for the partition."""
    wanted = fetch_wire.RequestPartition(
        partition=0, fetch_offset=offset, current_leader_epoch=epoch, partition_max_bytes=1 << 20
    )
    request = fetch_wire.Request(
        max_wait_ms=int(wait * 1000),
        min_bytes=1,
        topics=[fetch_wire.RequestTopic(topic="t", partitions=[wanted])],
        rack_id=rack,
    )
    return partition_in(await client.ask(fetch.API, request, version, seconds=wait + 60))


def size(answer: Any) -> int:
    return sum(map(len, answer.records or ()))


async def filled(world: World, count: int = 2) -> tuple[list[Bridge], list[Client]]:
    """The nodes, a client of each, and three records."""
    found = await nodes(world, count)
    clients = [Client(world, bridge, f"client {number}") for number, bridge in enumerate(found)]
    assert (await clients[0].produce("t", batch([b"v"] * 3, [NOW_MS] * 3))).error == 0
    return found, clients


@schedules(40)
async def test_the_leader_sends_consumers_to_the_node_of_their_rack(world: World) -> None:
    _, (client, _) = await filled(world)
    for rack, preferred in (("b", FOLLOWER), ("c", SPARE), ("a", -1), ("", -1), ("x", -1)):
        for offset in (0, 1, 3):
            asked = world.now
            answer = await fetched(client, offset, rack, wait=0.0 if preferred < 0 else 600.0)
            assert (answer.error_code, answer.preferred_read_replica) == (0, preferred), (rack, offset)
            assert (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset) == (3, 3, 0)
            assert bool(size(answer)) == (preferred < 0 and offset < 3)
            assert world.now - asked < 5, "it is told at once"
    for rack in ("b", "a"):
        answer = await fetched(client, 4, rack)
        assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert answer.preferred_read_replica == -1, "a follower has said so, and would be asked again"


@schedules(40)
async def test_a_leader_that_does_not_know_the_end_yet_sends_consumers_away_all_the_same(world: World) -> None:
    _, (_, reader) = await filled(world)
    late = await world.started()
    give(late, VIEW, LEADER)
    answer = await fetched(Client(world, late, "late"), world.chance.choice((0, 3)), "b")
    assert (answer.preferred_read_replica, answer.high_watermark, answer.log_start_offset) == (FOLLOWER, 3, 0)
    assert size(await fetched(reader)) > 0


@schedules(40)
async def test_a_follower_serves_fetches_alone(world: World) -> None:
    _, (leading, following, spare) = await filled(world, 3)
    for rack in ("b", "a", "", "c"):
        answer = await fetched(following, 0, rack)
        assert (answer.error_code, answer.high_watermark, answer.preferred_read_replica) == (0, 3, -1)
        assert size(answer) == size(await fetched(leading)) > 0
    assert (await fetched(following, 4, "b")).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (await fetched(following, 0, version=RACKS)).error_code == 0
    assert (await fetched(following, 0, version=RACKS - 1)).error_code == NOT_LEADER, "as Kafka"
    assert (await fetched(following, 0, epoch=FIRST - 1)).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert (await fetched(following, 0, epoch=FIRST + 1)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    for api, request in requests("t", 0):
        if api is not fetch.API:
            assert error_in(await following.ask(api, request)) == NOT_LEADER, api.name
    assert (await fetched(spare)).error_code == 0, "the follower in rack c"


@schedules(20)
async def test_metadata_names_the_leader_and_a_node_of_each_other_rack(world: World) -> None:
    (bridge, _), (client, _) = await filled(world)
    asked = metadata.Request(topics=[metadata.RequestTopic(name="t")])
    for view, expected in (
        (VIEW, {LEADER, FOLLOWER, SPARE}),
        (next_view(VIEW, lambda _: FOLLOWER, MEMBERS[:2]), {LEADER, FOLLOWER}),
        (next_view(VIEW, lambda _: FOLLOWER, [replace(one, settings="") for one in MEMBERS]), {FOLLOWER}),
    ):
        give(bridge, view, LEADER)
        answer = await client.ask(metadata.API, asked)
        (one,) = answer.topics[0].partitions
        assert one.replica_nodes[0] == one.leader_id
        assert set(one.replica_nodes) == set(one.isr_nodes) == expected <= {node.node_id for node in answer.brokers}


@schedules(40)
async def test_a_fetch_that_waits_at_a_follower_gets_what_the_leader_appends(world: World) -> None:
    _, (leading, following) = await filled(world)
    for number in range(4):
        waiting = asyncio.ensure_future(fetched(following, 3 + number, "b", wait=600.0, epoch=FIRST))
        await world.sleep(0, world.chance.choice((0.01, 2.0)))
        stored = await leading.produce("t", batch([b"v"], [NOW_MS]))
        asked = world.now
        answer = await waiting
        assert (stored.error, stored.offset, answer.error_code) == (0, 3 + number, 0)
        assert size(answer) > 0 and answer.high_watermark == 4 + number
        assert world.now - asked < 5


def lost_by_follower(world: World) -> ClusterView:
    """A view in which the follower is none, for one reason or another."""
    leader, follower, spare = MEMBERS
    return world.chance.choice(
        (
            next_view(VIEW, lambda _: LEADER, [replace(leader, rack="b"), follower, spare]),
            next_view(VIEW, lambda _: LEADER, [leader, replace(follower, weight=0), spare]),
            next_view(VIEW, lambda _: LEADER, [replace(leader, settings=""), follower, spare]),
            next_view(VIEW, lambda _: SPARE, [leader, follower, replace(spare, rack="b")]),
        )
    )


@schedules(40)
async def test_a_node_that_follows_no_more_lets_go_at_once(world: World) -> None:
    (_, bridge), (_, following) = await filled(world)
    waiting = asyncio.ensure_future(fetched(following, 3, "b", wait=600.0))
    await world.sleep(0, world.chance.choice((0.01, 3.0)))
    is_cut_off = world.chance.often(0.3)
    if is_cut_off:
        give(bridge, VIEW, FOLLOWER, Serving.REFUSE)
    else:
        give(bridge, lost_by_follower(world), FOLLOWER)
    asked = world.now
    assert (await waiting).error_code == NOT_LEADER
    assert world.now - asked < 5
    await world.sleep(3)
    assert bridge.topics.opened("t", 0) is None
    assert (await fetched(following, 0, "b")).error_code == NOT_LEADER
    assert bridge.topics.opened("t", 0) is None


@schedules(40)
async def test_a_leader_that_becomes_a_follower_lets_go_of_its_producers(world: World) -> None:
    """And the other way round: what is acknowledged is read at both, in one order."""
    bridges, clients = await filled(world)
    leader = 0
    view, expected = VIEW, 3
    for _ in range(4):
        if world.chance.often(0.7):
            leader = 1 - leader
            view = next_view(view, lambda _, new=MEMBERS[leader].id: new)  # type: ignore[misc]
            for bridge, member in zip(bridges, MEMBERS, strict=False):
                world.loop.call_later(world.chance.random() * 0.1, give, bridge, view, member.id)
            await world.sleep(0.1, 3.0)
        producing = await clients[leader].produce("t", batch([b"v"], [NOW_MS]))
        assert (producing.error, producing.offset) == (0, expected)
        expected += 1
        for client in clients:
            answer = await fetched(client, expected - 1, wait=30.0, epoch=view.epochs[0])
            assert answer.error_code == 0 and size(answer) > 0 and answer.high_watermark == expected


@schedules(20)
async def test_deleted_records_are_not_read_at_a_follower(world: World) -> None:
    _, (leading, following) = await filled(world)
    assert (await fetched(following, 0, "b")).log_start_offset == 0
    wanted = delete_records.RequestPartition(partition_index=0, offset=2)
    request = delete_records.Request(
        topics=[delete_records.RequestTopic(name="t", partitions=[wanted])], timeout_ms=30_000
    )
    assert error_in(await leading.ask(delete_records.API, request)) == 0
    await world.sleep(1)
    for client in (following, leading):
        answer = await fetched(client, 1, "b")
        assert (answer.error_code, answer.preferred_read_replica) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert (await fetched(following, 2, "b")).log_start_offset == 2
    assert (await fetched(leading, 2, "b")).preferred_read_replica == FOLLOWER
