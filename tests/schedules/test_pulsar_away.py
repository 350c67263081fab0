"""Pulsar is away for long: no client loses a producer by it, and who waits for it comes back with it.

aiokafka gives up a batch that is older than its request time-out while Metadata names no leader of its partition, and
the batch's sequences with it. What it sends next is then out of order for good, with any broker.
"""

import asyncio
from typing import Any

from bridge.apis import metadata
from bridge.pulsar import EARLIEST
from bridge.pulsar.pb.PulsarApi_pb2 import MessageMetadata
from tests.schedules.clients import PASSES, Leaders, NodeClient
from tests.schedules.explorer import schedules
from tests.schedules.kafka import NOW_MS, batch, error_name, log_of
from tests.schedules.nodes import ServingNode, ServingNodes
from tests.schedules.world import World, full

_GIVEN_UP_AFTER = 30.0
_MANY = 12


class GivingUpProducer:
    """An idempotent producer with one batch of one record at a time, that goes by the newest Metadata, as aiokafka."""

    def __init__(self, world: World, nodes: ServingNodes, producer_id: int) -> None:
        self.acked: list[bytes] = []
        self._world, self._nodes, self._id = world, nodes, producer_id
        self._leaders = Leaders(nodes, world)
        self._leader: ServingNode | None = None
        self._connections: dict[ServingNode, NodeClient] = {}

    async def run(self, count: int) -> None:
        """Send so many records, and give up what has had no leader for long."""
        for sequence in range(count):
            value = b"%d of %d" % (sequence, self._id)
            if await self._send(value, sequence, self._world.now + _GIVEN_UP_AFTER):
                self.acked.append(value)
            await self._world.sleep(0, 0.5)

    async def _send(self, value: bytes, sequence: int, until: float) -> bool:
        while True:
            if self._leader is None:
                await self._refresh()
                if self._leader is None and self._world.now > until:
                    return False
                continue
            produced = await self._connection(self._leader).produce(
                "t", batch([value], [NOW_MS], (self._id, 0, sequence))
            )
            if produced.error == 0:
                return True
            assert produced.error in PASSES, f"{error_name(produced.error)}: {produced.message}"
            self._leader = None
            await self._world.sleep(0.5, 0.5)

    def _connection(self, node: ServingNode) -> NodeClient:
        if node not in self._connections:
            self._connections[node] = NodeClient(self._world, self._leaders, node, f"p{self._id}", _GIVEN_UP_AFTER)
        return self._connections[node]

    async def _refresh(self) -> None:
        await self._world.sleep(0.5, 0.5)
        node = self._world.chance.choice(self._nodes.alive)
        request = metadata.Request(topics=[metadata.RequestTopic(name="t")], allow_auto_topic_creation=False)
        answer = await self._connection(node).ask(metadata.API, request)
        if answer is not None and not answer.topics[0].error_code:
            led_by = {one.partition_index: one.leader_id for one in answer.topics[0].partitions}[0]
            hosts = {broker.node_id: broker.host for broker in answer.brokers}
            self._leader = self._nodes.at(hosts[led_by]) if led_by in hosts else None


@schedules(10)
async def test_no_idempotent_producer_is_lost_while_pulsar_is_away(world: World) -> None:
    nodes = ServingNodes(world)
    await nodes.start(3)
    await nodes.agree(20)
    await nodes.alive[0].handle(nodes.alive[0].bridge.topics.create("t", 1))
    for node in nodes.alive:  # each has been asked for the topic before
        assert await node.handle(node.bridge.topics.get("t")) is not None
    producers = [GivingUpProducer(world, nodes, 100 + number) for number in range(2)]
    running = [asyncio.ensure_future(producer.run(20)) for producer in producers]
    await world.sleep(0, 4)
    world.broker.crash(world.chance.choice((40.0, 75.0)))
    await world.within(400, asyncio.gather(*running), "an outcome for every record")
    await nodes.agree(120)
    assert [len(producer.acked) for producer in producers] == [20, 20], "some were given up: they had no leader"
    stored = [record.value for record in log_of(world, full("t"))]
    for producer in producers:
        assert [value for value in stored if value in set(producer.acked)] == producer.acked
    await nodes.end()


def dialled(world: World) -> list[float]:
    """When connections are tried to be made, from now on."""
    connect, at = world.loop.create_connection, list[float]()

    def counted(*arguments: Any, **options: Any) -> Any:
        at.append(world.now)
        return connect(*arguments, **options)

    world.loop.create_connection = counted  # type: ignore[method-assign]
    return at


@schedules(20)
async def test_all_who_wait_for_a_broker_come_back_with_it(world: World) -> None:
    """Killed, or stopped for so long that no connection stays: one dials it for all, and some do not wait so long."""
    await (await world.started()).topics.create("t", _MANY)
    client, chance = await world.native(), world.chance
    producers = [client.producer(full("t", number)) for number in range(_MANY)]
    readers = [await client.reader(full("t", number), EARLIEST) for number in range(_MANY)]
    await asyncio.gather(*(one.opened() for one in producers))
    await world.sleep(0, 6)
    attempts, since = dialled(world), world.now
    if chance.often(0.5):
        world.broker.crash(chance.choice((2.0, 20.0, 90.0)))
    else:
        world.broker.freeze()
        world.loop.after(chance.choice((2.0, 20.0, 90.0)), world.broker.thaw)
    sends = {one: [one.send(MessageMetadata(), b"%d" % number, 1) for number in range(3)] for one in producers}
    await world.sleep(0, 2)
    for one in chance.sample(producers, 4):
        chance.choice(sends[one]).cancel()
    leaves = chance.choice(producers[1:])
    leaving = asyncio.gather(leaves.close(flush=False), readers[producers.index(leaves)].close())
    while not world.broker.up or world.broker.frozen:
        await world.sleep(0.1)
    away, back = [at for at in attempts if at < world.now - 0.1], world.now
    # two a second at most, of each client: of this one and of the bridge's
    assert all(sum(at <= other < at + 1 for other in away) <= 4 for at in away), [at - since for at in away]
    await world.within(5, asyncio.gather(*(one.opened() for one in producers if one is not leaves)), "attached again")
    for one, reader in zip(producers, readers, strict=True):
        if one is leaves:
            continue
        kept = [b"%d" % number for number, outcome in enumerate(sends[one]) if not outcome.cancelled()]
        await world.within(30, asyncio.wait(sends[one]), "an outcome for what was sent")
        received = list[bytes]()
        while kept[-1] not in received:
            received.append(bytes((await world.within(30, reader.receive(), f"entries since {back}")).payload))
        assert [value for value in dict.fromkeys(received) if value in kept] == kept
    await world.within(60, leaving, "closing what waits")
    await asyncio.gather(*sends[leaves], return_exceptions=True)
