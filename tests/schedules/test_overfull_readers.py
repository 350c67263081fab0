"""Readers that are sent more than they have room for begin a new session: nothing is missed, or read twice."""

from bridge.pulsar.pb.PulsarApi_pb2 import MessageMetadata
from bridge.pulsar.types import EARLIEST
from tests.schedules import faults
from tests.schedules.explorer import schedules
from tests.schedules.world import World, full

_SIZES = (10, 10, 10, 2_000)
_BUFFER = 2_000
_ENTRIES = 60


@schedules(150)
async def test_all_is_read_once_and_in_order_through_faults(world: World) -> None:
    await (await world.started()).topics.create("t", 1)
    client = await world.native()
    producer, chance = client.producer(full("t")), world.chance
    written = [b"%d " % number + bytes(chance.choice(_SIZES)) for number in range(_ENTRIES)]
    for value in written:
        await producer.send(MessageMetadata(), value, 1)
    reader = await client.reader(full("t"), EARLIEST, max_buffer=_BUFFER)
    hurting = world.loop.create_task(
        faults.some(world, full("t"), kinds=(faults.unload, faults.reset, faults.freeze, faults.silence))
    )
    read: list[bytes] = []
    while len(read) < _ENTRIES:
        entry = await world.within(120, reader.receive(), "an entry")
        read.append(bytes(entry.payload))
        await world.sleep(0, chance.choice((0.0, 0.0, 0.02, 0.3)))
    assert [one.split()[0] for one in read] == [one.split()[0] for one in written]
    await hurting
    await faults.heal(world)
    await reader.close()
