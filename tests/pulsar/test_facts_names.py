"""What many nodes rely on, asked of a real Pulsar: who gets a producer's name when its holder is alive, killed, frozen.

A name is a question to the broker. Free at once: the holder's connection is gone. Busy at once: its connection answers.
Free after connectionLivenessCheckTimeoutMillis: it did not answer, and the broker has closed it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack

import pytest

from bridge.node.orphans import Guard
from bridge.pulsar import AccessMode, PulsarError
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from tests.pulsar.half_open import HalfOpenPath
from tests.pulsar.one_connection import Connect, OneConnection, OpenProducer
from tests.pulsar.real import eventually
from tests.pulsar.victim import Held, Victim
from tests.support.pulsar import PulsarAddress

NewVictim = Callable[..., Victim]
NAME = "bridge-node-a"
BEFORE_KEEP_ALIVE_SECONDS = 25
"""Below a broker's keepAliveIntervalSeconds, 30: only the liveness check answers so soon."""


@pytest.fixture
def victim(pulsar: PulsarAddress, guard: Guard) -> Iterator[NewVictim]:
    """Start a process that holds producers: `victim((topic, name, mode), …)`."""
    with ExitStack() as started:

        def start(*held: Held) -> Victim:
            made = Victim(guard, pulsar.service_url, *held)
            started.callback(made.kill)
            return made

        yield start


async def refusal(asked: Awaitable[OpenProducer]) -> int | None:
    """The code with which a producer is refused; None when it is granted."""
    try:
        await asked
    except PulsarError as error:
        return error.code
    return None


def asked_again(connection: OneConnection, topic: str, name: str, mode: AccessMode) -> Callable[[], Awaitable[bool]]:
    async def granted() -> bool:
        return await refusal(connection.producer(topic, name, mode)) is None

    return granted


@pytest.fixture
async def other(connect: Connect) -> OneConnection:
    """Another node's connection."""
    return await connect()


@pytest.fixture(params=["persistent", "non-persistent"])
def named_topic(request: pytest.FixtureRequest, topic: str) -> str:
    return topic.replace("persistent", request.param, 1)


async def test_a_name_is_busy_while_its_holder_lives_and_free_when_it_is_killed(
    victim: NewVictim, other: OneConnection, named_topic: str
) -> None:
    holder = victim((named_topic, NAME, AccessMode.SHARED))
    for _ in range(3):  # the question does the holder no harm
        assert await refusal(other.producer(named_topic, NAME)) == pb.ProducerBusy
    holder.kill()
    await eventually(asked_again(other, named_topic, NAME, AccessMode.SHARED))


async def test_one_question_ends_a_frozen_holder_with_all_that_its_connection_held(
    victim: NewVictim, other: OneConnection, named_topic: str, topic: str
) -> None:
    lock = f"{topic}-lock"
    victim((named_topic, NAME, AccessMode.SHARED), (lock, "lock", AccessMode.EXCLUSIVE)).freeze()
    assert await refusal(other.producer(lock, "another", AccessMode.EXCLUSIVE)) == pb.ProducerFenced
    async with asyncio.timeout(BEFORE_KEEP_ALIVE_SECONDS):
        await other.producer(named_topic, NAME)
    await eventually(asked_again(other, lock, "another", AccessMode.EXCLUSIVE))


async def test_one_question_ends_a_holder_that_is_cut_off(
    pulsar: PulsarAddress, connect: Connect, other: OneConnection, named_topic: str
) -> None:
    async with HalfOpenPath(pulsar.service_url) as path:
        holder = await (await connect(path.service_url)).producer(named_topic, NAME)
        path.hold()
        async with asyncio.timeout(BEFORE_KEEP_ALIVE_SECONDS):
            await other.producer(named_topic, NAME)
        assert not holder.lost.is_set()  # it cannot know
        path.release()
        await holder.lost.wait()


async def test_an_exclusive_topic_is_refused_until_its_holder_is_killed(
    victim: NewVictim, other: OneConnection, topic: str
) -> None:
    holder = victim((topic, NAME, AccessMode.EXCLUSIVE))
    assert await refusal(other.producer(topic, "another", AccessMode.EXCLUSIVE)) == pb.ProducerFenced
    holder.kill()
    await eventually(asked_again(other, topic, "another", AccessMode.EXCLUSIVE))


async def test_who_waits_for_an_exclusive_topic_has_it_when_its_holder_is_killed(
    victim: NewVictim, other: OneConnection, topic: str
) -> None:
    holder = victim((topic, NAME, AccessMode.EXCLUSIVE))
    waiting = asyncio.ensure_future(other.producer(topic, "another", AccessMode.WAIT_FOR_EXCLUSIVE))
    assert await refusal(other.producer(topic, "third", AccessMode.EXCLUSIVE)) == pb.ProducerFenced
    assert not waiting.done()
    holder.kill()
    await waiting


@pytest.mark.parametrize("frozen", [False, True])
async def test_fencing_takes_an_exclusive_topic_at_once(
    victim: NewVictim, other: OneConnection, topic: str, frozen: bool
) -> None:
    holder = victim((topic, NAME, AccessMode.EXCLUSIVE))
    if frozen:
        holder.freeze()
    taken = await other.producer(topic, "another", AccessMode.EXCLUSIVE_WITH_FENCING)
    taken.send(b"taken")
    await taken.stored(1)
    assert len(taken.receipts) == 1


@pytest.mark.soak
@pytest.mark.parametrize("mode", [AccessMode.EXCLUSIVE, AccessMode.WAIT_FOR_EXCLUSIVE])
async def test_an_exclusive_topic_of_a_frozen_holder_waits_for_the_keep_alive(
    victim: NewVictim, connect: Connect, topic: str, mode: AccessMode
) -> None:
    """No liveness check here: a name on another connection, frozen at the same time, is free long before."""
    other = await connect(operation_timeout=120)
    frozen = victim((topic, NAME, AccessMode.EXCLUSIVE)), victim((f"{topic}-beside", NAME, AccessMode.SHARED))
    for one in frozen:
        one.freeze()
    asked = asyncio.ensure_future(_until_granted(other, topic, mode))
    async with asyncio.timeout(BEFORE_KEEP_ALIVE_SECONDS):
        await other.producer(f"{topic}-beside", NAME)
    assert not asked.done()
    async with asyncio.timeout(120):
        await asked


async def _until_granted(connection: OneConnection, topic: str, mode: AccessMode) -> None:
    while await refusal(connection.producer(topic, "another", mode)) is not None:  # noqa: ASYNC110 - see below
        await asyncio.sleep(0.05)  # the broker does not tell
