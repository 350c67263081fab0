"""An entry of the bridge's own that cannot be read stops who reads its partition, where it stands, and nothing else."""

import asyncio

from bridge.apis import fetch
from bridge.kafka import fetch_wire
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.pb.PulsarApi_pb2 import CompressionType, MessageMetadata
from bridge.storage.entries import PROPERTY
from bridge.storage.mark_signer import MarkSigner
from tests.schedules.explorer import schedules
from tests.schedules.kafka import NOW_MS, Client, batch
from tests.schedules.world import Bridge, World, full


async def damage(world: World, bridge: Bridge, offset: int) -> None:
    """Store what the bridge has signed, and nobody can decompress, as the entry with this offset of `damaged`."""
    topic = await bridge.topics.get("damaged")
    assert topic is not None
    metadata = MessageMetadata(compression=CompressionType.LZ4, uncompressed_size=100)
    metadata.properties.add(key=PROPERTY, value=f'{{"v":1,"t":5,"b":{offset}}}')
    native = await world.native()
    producer = native.producer(full("damaged"))
    MarkSigner(world.mark_secret, full("damaged"), topic.id.bytes).sign(metadata, producer.name)
    await producer.send(metadata, b"\xff\x01", 1)
    await producer.close()


async def fetched(client: Client, offset: int) -> dict[str, tuple[int, int]]:
    """By topic the error, and how many bytes of records there are, of one Fetch of both from this offset on."""
    request = fetch_wire.Request(
        max_wait_ms=1000,
        min_bytes=1,
        topics=[
            fetch_wire.RequestTopic(
                topic=name,
                partitions=[fetch_wire.RequestPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)],
            )
            for name in ("damaged", "whole")
        ],
    )
    answer = await client.ask(fetch.API, request, 12)
    parts = {topic.topic: topic.partitions[0] for topic in answer.responses}
    return {name: (part.error_code, sum(map(len, part.records or ()))) for name, part in parts.items()}


@schedules(20)
async def test_it_is_told_in_its_partition_and_the_others_are_read(world: World) -> None:
    bridge = await world.started()
    writer, reader = Client(world, bridge, "writer"), Client(world, bridge, "reader")
    for name in ("damaged", "whole"):
        await writer.create(name)
        assert (await writer.produce(name, batch([b"good"], [NOW_MS]))).error == 0
    is_open = world.chance.random() < 0.5
    if is_open:  # it comes to the tail
        await reader.fetch("damaged", 0)
    await damage(world, bridge, 1)
    for name in ("damaged", "whole"):
        assert (await writer.produce(name, batch([b"later"], [NOW_MS]))).error == 0
    before = await reader.fetch("damaged", 0)
    assert (before.error, [one.value for one in before.records]) == (0, [b"good"])
    for _ in range(50):
        found = await fetched(reader, 1)
        error, size = found["damaged"]
        assert error in (0, ErrorCode.CORRUPT_MESSAGE)
        assert not size
        assert found["whole"][0] == 0
        if error and found["whole"][1]:
            break
        await asyncio.sleep(0.1)
    else:
        raise AssertionError("it was never told, or nothing else was read")
    assert [one.value for one in (await reader.fetch("damaged", 2)).records] == [b"later"]
