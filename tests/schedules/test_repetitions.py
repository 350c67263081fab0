"""A repeated batch is found though each request for it waits for less time than the search takes."""

from bridge.kafka.error_codes import ErrorCode
from tests.schedules.explorer import schedules
from tests.schedules.kafka import NO_ANSWER, NOW_MS, Client, batch, error_name, log_of
from tests.schedules.world import World, full

_AGAIN = {ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_LEADER_OR_FOLLOWER, NO_ANSWER}


async def stored_long_ago(world: World, later: int) -> bytes:
    """A batch that is stored at 0, with so many behind it, by a node that has stopped; reads are slow from now on."""
    one = await world.started()
    await one.topics.create("t", 1)
    writer, data = Client(world, one, "writer"), batch([b"0"], [NOW_MS], (100, 0, 0))
    assert (await writer.produce("t", data)).offset == 0
    for number in range(1, later + 1):
        assert (await writer.produce("t", batch([b"%d" % number], [NOW_MS + number]))).offset == number
    await one.stop()
    for kind in ("to broker", "to bridge", "rest request", "rest answer"):
        world.chance.slow(kind, 1.0)
    return data


@schedules(40)
async def test_a_search_outlives_requests_that_time_out_and_clients_that_hang_up(world: World) -> None:
    data = await stored_long_ago(world, world.chance.choice((10, 45)))
    two = await world.started()
    client = Client(world, two, "again")
    for _ in range(40):
        hangs_up = world.chance.often(0.5)
        told = await client.produce("t", data, timeout_ms=2_500, seconds=1.5 if hangs_up else 10.0)
        if told.error not in _AGAIN:
            break
        if hangs_up:
            client.hang_up()
            client = Client(world, two, "again")
        await world.sleep(0.1)
    assert (told.error, told.offset) == (0, 0), f"{error_name(told.error)} at {told.offset}: {told.message}"
    await world.sleep(20)
    assert [record.value for record in log_of(world, full("t"))].count(b"0") == 1
