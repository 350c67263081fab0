"""Consumers behind memory, each at a place of its own, while nodes come and go: each reads all that is stored, once."""

import asyncio
from collections.abc import Callable
from typing import Any

from tests.schedules import faults
from tests.schedules.explorer import schedules
from tests.schedules.kafka import Client, log_of
from tests.schedules.producers import RetryingProducer
from tests.schedules.world import Bridge, World, full

_RECORDS = 40


class Scanner:
    """Reads from wherever it was, with pauses, and begins again somewhere before now and then."""

    def __init__(self, world: World, name: str, node: Callable[[], Bridge], batch_bytes: int) -> None:
        self.until: int | None = None
        """The offset at which it may stop."""
        self.skipped: list[tuple[int, int]] = []
        self.found: dict[int, bytes] = {}
        self._world, self._name, self._node, self._batch_bytes = world, name, node, batch_bytes
        self._offset = 0

    async def run(self) -> None:
        """Until `until`."""
        chance = self._world.chance
        client: Client | None = None
        while self.until is None or self._offset < self.until:
            if client is None or client.bridge.closed or chance.often(0.3):
                client = Client(self._world, self._node(), self._name, 20.0)
            size = chance.choice((1, self._batch_bytes, 4 * self._batch_bytes, 1 << 20))
            fetched = await client.fetch("t", self._offset, max_wait=chance.choice((0.05, 0.5, 3.0)), max_bytes=size)
            if fetched.error:
                client = None
            for record in fetched.records:
                if record.offset > self._offset:
                    self.skipped.append((self._offset, record.offset))
                self.found[record.offset] = bytes(record.value or b"")
                self._offset = record.offset + 1
            if self.until is None and chance.often(0.02):
                self._offset = chance.randint(0, self._offset)
            await self._world.sleep(0, chance.choice((0.0, 0.0, 0.05, 0.5)))

    def check(self, stored: dict[int, bytes]) -> None:
        """It has found what is stored, and skipped what is not."""
        assert {**stored, **self.found} == stored
        missed = [offset for offset in stored if any(first <= offset < next_ for first, next_ in self.skipped)]
        assert not missed, f"{self._name} missed {missed}"


class Site:
    """One node or two, each with little memory, that are replaced while they serve."""

    def __init__(self, world: World) -> None:
        chance = world.chance
        self.nodes: list[Bridge] = []
        self._world = world
        self._storage: dict[str, Any] = {
            "cache_bytes": chance.choice((0, 2_000, 20_000, 200_000)),
            "reader_buffer_bytes": chance.choice((1024, 8192, 2 << 20)),
        }

    def any(self) -> Bridge:
        return self._world.chance.choice(self.nodes)

    async def started(self) -> Bridge:
        return await self._world.started(storage=self._storage)

    async def roll(self, producers: list[RetryingProducer]) -> None:
        """Replace some."""
        chance = self._world.chance
        for _ in range(chance.randint(0, 4)):
            await self._world.sleep(0.5, 3)
            at = chance.randrange(len(self.nodes))
            old, self.nodes[at] = self.nodes[at], await self.started()
            for producer in producers:
                producer.move_to(self.any())
            await old.stop()


@schedules(40)
async def test_each_reads_all_that_is_stored(world: World) -> None:
    chance, site = world.chance, Site(world)
    site.nodes = [await site.started() for _ in range(chance.randint(1, 2))]
    await site.nodes[0].topics.create("t", 1)
    pad = b"x" * chance.choice((1, 100, 1000))
    scanners = [Scanner(world, f"scanner {number}", site.any, 500 + len(pad)) for number in range(3)]
    producers = [
        RetryingProducer(
            world, site.any(), "t", f"p{number}", producer_id=100 if number else -1, request_seconds=3,
            delivery_seconds=300,
        )
        for number in range(2)
    ]  # fmt: skip
    running = [asyncio.ensure_future(one.run()) for one in scanners]
    writing = [asyncio.ensure_future(one.run()) for one in producers]
    hurting = asyncio.ensure_future(faults.some(world, full("t"), kinds=(faults.unload,)))
    rolling = asyncio.ensure_future(site.roll(producers))
    for number in range(_RECORDS):
        chance.choice(producers).send(b"%d " % number + pad)
        await world.sleep(0, chance.choice((0.0, 0.02, 0.3)))
    await asyncio.gather(hurting, rolling)
    for producer in producers:
        producer.finish()
    await world.within(400, asyncio.gather(*writing), "an outcome for every record")
    for scanner in scanners:
        scanner.until = log_of(world, full("t"))[-1].offset + 1
    await world.within(200, asyncio.gather(*running), "reading")
    # only now: what a producer had given up to send it again may have been stored meanwhile, and read
    stored = {record.offset: bytes(record.value or b"") for record in log_of(world, full("t"))}
    for scanner in scanners:
        scanner.check(stored)
