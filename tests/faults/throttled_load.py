"""Many quiet topics beside some whose producers send more than Pulsar lets them: how long the quiet ones wait."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from bench import wire
from bench.light_producer import error_in
from bridge.apis import create_topics, produce
from bridge.codec import Rebuild, Record, build_batch
from bridge.kafka.produce_wire import Request, RequestPartition, RequestTopic

_NOW = 1_700_000_000_000
_IN_FLIGHT = 5
_CLIENTS = 20
_TIMEOUT_MS = 30_000


@dataclass
class Waits:
    """Of a phase's requests to quiet topics."""

    seconds: list[float] = field(default_factory=list)
    errors: list[int] = field(default_factory=list)

    def at(self, share: float) -> float:
        """Milliseconds within which this share of them was answered."""
        return 1000 * sorted(self.seconds)[min(len(self.seconds) - 1, int(share * len(self.seconds)))]

    def __str__(self) -> str:
        return f"p50 {self.at(0.5):.1f} ms, p99 {self.at(0.99):.1f} ms, most {self.at(1):.1f} ms of {len(self.seconds)}"


def of_topic(topic: str, records: int, partitions: Sequence[int] = (0,)) -> RequestTopic:
    """A batch of so many records of 100 bytes for each of these partitions."""
    batch = build_batch(
        [Record(at, _NOW, None, b"x" * 100, []) for at in range(records)], Rebuild(0, records, _NOW, own=True)
    )
    return RequestTopic(name=topic, partition_data=[RequestPartition(index=one, records=batch) for one in partitions])


def frame(topic: str, records: int) -> bytes:
    """A produce of a batch of so many records of 100 bytes."""
    request = Request(acks=-1, timeout_ms=_TIMEOUT_MS, topic_data=[of_topic(topic, records)])
    return wire.request(produce.API, 8, request)


async def create(bootstrap: str, topics: Sequence[str], partitions: int = 1) -> None:
    """Make these topics, and write to the first partition of each once."""
    client = await wire.Client.connect(bootstrap, 1 << 20)
    for at in range(0, len(topics), 50):
        wanted = [
            create_topics.RequestTopic(
                name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
            )
            for name in topics[at : at + 50]
        ]
        await client.exchange(wire.request(create_topics.API, 4, create_topics.Request(topics=wanted)))
    for topic in topics:
        assert error_in(await client.exchange(frame(topic, 1)), topic) == 0
    client.close()


async def produce_quietly(bootstrap: str, topics: Sequence[str], a_second: float, seconds: float) -> Waits:
    """A record to one topic after the other, by the clock."""
    clients = [await wire.Client.connect(bootstrap) for _ in range(_CLIENTS)]
    frames = {topic: frame(topic, 1) for topic in topics}
    waits, loop = Waits(), asyncio.get_running_loop()

    async def one(number: int) -> None:
        topic, began = topics[number % len(topics)], loop.time()
        error = error_in(await clients[number % _CLIENTS].exchange(frames[topic]), topic)
        waits.seconds.append(loop.time() - began)
        if error:
            waits.errors.append(error)

    began = loop.time()
    async with asyncio.TaskGroup() as requests:
        for number in range(int(a_second * seconds)):
            await asyncio.sleep(began + number / a_second - loop.time())
            requests.create_task(one(number))
    for client in clients:
        client.close()
    return waits


class Noisy:
    """Clients that have five batches of 100 records on their way at any time, one client a topic."""

    def __init__(self) -> None:
        self.answered = 0
        self._clients: list[wire.Client] = []

    async def start(self, bootstrap: str, topics: Sequence[str]) -> None:
        """Send from now on."""
        for topic in topics:
            client = await wire.Client.connect(bootstrap)
            self._clients.append(client)
            for _ in range(_IN_FLIGHT):
                self._send(client, frame(topic, 100))

    def _send(self, client: wire.Client, sent: bytes) -> None:
        def told(body: object) -> None:
            if body is not None:
                self.answered += 1
                self._send(client, sent)

        client.send(sent, told)

    def stop(self) -> None:
        """Hang up."""
        for client in self._clients:
            client.close()
