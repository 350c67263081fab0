"""What many nodes rely on, asked of a real Pulsar: what the log holds of a producer that has lost its topic or name."""

import asyncio
from typing import Final

import pytest

from bridge.pulsar import EARLIEST, AccessMode, PulsarClient, PulsarError
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from tests.pulsar.half_open import HalfOpenPath
from tests.pulsar.one_connection import Connect, OpenProducer
from tests.pulsar.real import eventually, payloads, send
from tests.support.pulsar import PulsarAddress

ROUNDS: Final = 20
LATE: Final = 20
_FENCING: Final = AccessMode.EXCLUSIVE_WITH_FENCING


async def take(
    connect: Connect, topic: str, mode: AccessMode, name: str = "", topic_epoch: int | None = None
) -> OpenProducer:
    return await (await connect()).producer(topic, name, mode, topic_epoch)


async def test_receipts_of_a_fenced_producer_are_what_is_stored_and_nothing_follows_its_successor(
    connect: Connect, client: PulsarClient, topic: str
) -> None:
    old = await take(connect, topic, AccessMode.EXCLUSIVE)

    async def pipeline() -> None:
        while not old.lost.is_set() and old.sent < 20_000:
            for _ in range(50):
                old.send(b"old %d" % old.sent)
            await old.stored(old.sent - 500)

    sending = asyncio.create_task(pipeline())
    await old.stored(500)
    new = await take(connect, topic, _FENCING)
    new.send(b"new")
    await new.stored(1)
    await sending
    assert old.lost.is_set(), "the fenced producer wrote on"
    found = await payloads(client, topic)
    count = len(old.receipts)
    assert found == [b"old %d" % number for number in range(count)] + [b"new"]


@pytest.mark.parametrize("mode", [AccessMode.EXCLUSIVE, _FENCING])
async def test_a_fenced_producer_does_not_come_back_with_its_old_epoch(
    connect: Connect, topic: str, mode: AccessMode
) -> None:
    """Nor when its successor has left again: what it knows of the topic is old."""
    old = await take(connect, topic, AccessMode.EXCLUSIVE)
    successor = await connect()
    await successor.producer(topic, mode=_FENCING)
    with pytest.raises(PulsarError) as refused:
        await take(connect, topic, mode, topic_epoch=old.topic_epoch)
    assert refused.value.code == pb.ProducerFenced
    successor.close()
    await eventually(lambda: has_no_producer(connect, topic))
    with pytest.raises(PulsarError, match="epoch has already moved") as refused:
        await take(connect, topic, mode, topic_epoch=old.topic_epoch)
    assert refused.value.code == pb.ProducerFenced


async def has_no_producer(connect: Connect, topic: str) -> bool:
    connection = await connect()
    try:
        probe = await connection.producer(topic)  # refused while another has the topic alone
        await connection.close_producer(probe)  # itself, too
    except PulsarError:
        return False
    finally:
        connection.close()
    return True


async def late_bytes(
    pulsar: PulsarAddress,
    connect: Connect,
    topic: str,
    holder: tuple[AccessMode, str],
    successor: tuple[AccessMode, str],
) -> OpenProducer:
    """What a holder sends over a path that holds it arrives when a successor has written already."""
    async with HalfOpenPath(pulsar.service_url) as path:
        old = await (await connect(path.service_url)).producer(topic, holder[1], holder[0])
        path.hold()
        for number in range(LATE):
            old.send(b"late %d" % number)
        new = await take(connect, topic, *successor)
        new.send(b"new")
        await new.stored(1)
        path.release()
        await old.stored(LATE)
        return old


@pytest.mark.parametrize(
    ("holder", "successor"),
    [
        ((AccessMode.EXCLUSIVE, ""), (_FENCING, "")),
        ((AccessMode.SHARED, "name"), (AccessMode.SHARED, "name")),
    ],
    ids=["exclusive topic", "name"],
)
async def test_late_bytes_of_a_producer_that_was_replaced_are_not_stored(
    pulsar: PulsarAddress,
    connect: Connect,
    client: PulsarClient,
    topic: str,
    holder: tuple[AccessMode, str],
    successor: tuple[AccessMode, str],
) -> None:
    old = await late_bytes(pulsar, connect, topic, holder, successor)
    assert old.lost.is_set()
    assert not old.receipts
    assert await payloads(client, topic) == [b"new"]


async def test_late_bytes_of_a_shared_producer_are_stored(
    pulsar: PulsarAddress, connect: Connect, client: PulsarClient, topic: str
) -> None:
    """The reason why nodes judge by names and exclusive topics, and plain producers are at least once."""
    shared = AccessMode.SHARED, ""
    old = await late_bytes(pulsar, connect, topic, shared, shared)
    assert len(old.receipts) == LATE
    assert await payloads(client, topic) == [b"new", *(b"late %d" % number for number in range(LATE))]


async def granted_at_one_moment(connect: Connect, topic: str, mode: AccessMode) -> int:
    """How many of two that ask at the same moment have the topic and write."""
    connections = [await connect() for _ in range(2)]
    asked = (connection.producer(topic, mode=mode) for connection in connections)
    granted = [one for one in await asyncio.gather(*asked, return_exceptions=True) if isinstance(one, OpenProducer)]
    for one in granted:
        one.send(b"mine")
        await one.stored(1)
    for one in granted:  # a second time: what was fenced in between writes no more
        one.send(b"still mine")
        await one.stored(2)
    for connection in connections:
        connection.close()
    return sum(len(one.receipts) == 2 for one in granted)


async def test_exclusive_is_granted_to_one_of_two(connect: Connect, topic: str) -> None:
    writers = [
        await granted_at_one_moment(connect, f"{topic}-{number}", AccessMode.EXCLUSIVE) for number in range(ROUNDS)
    ]
    assert writers == [1] * ROUNDS


async def test_fencing_may_be_granted_to_both_which_is_counted(
    connect: Connect, topic: str, record_property: pytest.Function
) -> None:
    """Slots rely on Exclusive for this reason. Were it never seen again, they could be taken with fencing."""
    writers = [await granted_at_one_moment(connect, f"{topic}-{number}", _FENCING) for number in range(ROUNDS)]
    both = writers.count(2)
    print(f"ExclusiveWithFencing granted to both of two: {both} of {ROUNDS}")
    record_property("fencing_granted_to_both", both)  # type: ignore[operator]
    assert 0 not in writers


async def test_the_end_that_pulsar_names_is_never_before_a_receipt(
    connect: Connect, client: PulsarClient, topic: str
) -> None:
    reader = await client.reader(topic, EARLIEST)
    writers = [await take(connect, topic, AccessMode.SHARED) for _ in range(2)]
    for number in range(ROUNDS):
        for writer in writers:
            writer.send(b"one")
            await writer.stored(number + 1)
            assert await reader.last_position() >= writer.receipts[-1]


async def test_a_reader_that_is_open_gets_own_entries_in_one_order_with_those_of_others(
    client: PulsarClient, topic: str
) -> None:
    readers = [await client.reader(topic, EARLIEST) for _ in range(2)]
    writers = [client.producer(topic) for _ in range(2)]
    receipts = await asyncio.gather(*(send(writer, b"%d" % number) for number in range(ROUNDS) for writer in writers))
    stored = sorted(receipt.position for receipt in receipts)
    for reader in readers:
        assert [(await reader.receive()).position for _ in stored] == stored
