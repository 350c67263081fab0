"""Whole connections of Kafka clients: pipelined requests, and a bridge that drains under them."""

import asyncio

from bridge.apis import fetch, produce
from bridge.kafka import fetch_wire, produce_wire
from tests.schedules.explorer import schedules
from tests.schedules.kafka import NOW_MS, batch, error_name, log_of
from tests.schedules.wire import WireClient, listener
from tests.schedules.world import NAMESPACE, World, full


def produce_request(value: bytes) -> produce_wire.Request:
    one = produce_wire.RequestPartition(index=0, records=batch([value], [NOW_MS]))
    topic = produce_wire.RequestTopic(name="t", partition_data=[one])
    return produce_wire.Request(acks=-1, timeout_ms=30_000, topic_data=[topic])


def fetch_request(offset: int, max_wait_ms: int) -> fetch_wire.Request:
    wanted = fetch_wire.RequestPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topic = fetch_wire.RequestTopic(topic="t", partitions=[wanted])
    return fetch_wire.Request(max_wait_ms=max_wait_ms, min_bytes=1, topics=[topic])


class Sender:
    """A client without retries: what became of each of its records."""

    def __init__(self, world: World, client: WireClient, name: str) -> None:
        self.acked: dict[bytes, int] = {}
        self.refused: dict[bytes, int] = {}
        self.lost: list[bytes] = []
        self._world = world
        self.client = client
        self._name = name

    async def run(self, over: asyncio.Event) -> None:
        """Send until told to stop, five requests under way at most."""
        room, sent = asyncio.Semaphore(5), list[asyncio.Task[None]]()
        number = 0
        while not over.is_set() and not self.client.closed:
            await room.acquire()
            sent.append(asyncio.ensure_future(self._one(f"{self._name} {number}".encode(), room)))
            number += 1
            await self._world.sleep(0, 0.02)
        await asyncio.gather(*sent)

    async def _one(self, value: bytes, room: asyncio.Semaphore) -> None:
        try:
            answer = await self.client.ask(produce.API, produce_request(value))
        except ConnectionError:
            self.lost.append(value)
        else:
            found = answer.responses[0].partition_responses[0]
            (self.refused if found.error_code else self.acked)[value] = found.error_code or found.base_offset
        finally:
            room.release()


@schedules(200)
async def test_draining_answers_what_it_stores(world: World) -> None:
    """A producer with `retries=0` believes its errors: what has failed must not be there."""
    bridge = await world.started()
    if world.chance.often(0.5):
        await bridge.topics.create("t", 1)
    else:  # the first request has to open it, and others wait behind it
        await bridge.admin.create_partitioned(f"persistent://{NAMESPACE}/t", 1)
    listening = listener(bridge)
    count = world.chance.randint(1, 3)
    senders = [Sender(world, WireClient(world, listening), f"s{number}") for number in range(count)]
    over = asyncio.Event()
    running = [asyncio.ensure_future(sender.run(over)) for sender in senders]
    waiting = WireClient(world, listening).ask(fetch.API, fetch_request(10_000_000, 60_000))
    await world.sleep(0, 1.0)
    received = [answer for sender in senders for answer in sender.client.received()]
    await world.within(15, listening.drain(10), "draining")
    await world.within(60, bridge.stop(), "stopping")
    over.set()
    await asyncio.gather(waiting, *running, return_exceptions=True)
    unanswered = [answer for answer in received if answer.exception() is not None]
    assert not unanswered, f"{len(unanswered)} of {len(received)} requests that were received had no answer"
    log = {record.value: record.offset for record in log_of(world, full("t"))}
    for sender in senders:
        for value, offset in sender.acked.items():
            assert log.get(value) == offset, f"{value!r} was acknowledged at {offset}, and is at {log.get(value)}"
        for value, error in sender.refused.items():
            assert value not in log, f"{value!r} was refused with {error_name(error)}, and is stored"
        for value in sender.lost:
            assert value not in log, f"{value!r} had no answer, and is stored"


@schedules(100)
async def test_clients_that_hang_up_leave_nothing(world: World) -> None:
    bridge = await world.started()
    await bridge.topics.create("t", 1)
    listening = listener(bridge)
    for number in range(4):
        client = WireClient(world, listening)
        asked = [client.ask(fetch.API, fetch_request(world.chance.randint(0, 2), 30_000))]
        if number % 2:
            asked.append(client.ask(produce.API, produce_request(b"v")))
        await world.moment()
        client.hang_up()
        await asyncio.wait(asked, timeout=60)
        for answer in asked:
            assert answer.done(), "a connection whose client has hung up stays open"
            answer.exception()
    await world.within(15, listening.drain(10), "draining")
