"""Large entries after many small ones: a reader holds little more than it was meant to, and misses nothing."""

from collections.abc import AsyncIterator

import pytest

from bridge.pulsar import EARLIEST, PulsarClient
from bridge.pulsar.connection import context
from bridge.pulsar.consumer import Reader
from bridge.telemetry.metrics import PulsarMetrics
from tests.pulsar.consumer.log_broker import TOPIC, Log, body
from tests.pulsar.fake_broker import Type

SMALL, LARGE, BUFFER = 50, 40, 200_000
ENTRY = 50_000


@pytest.fixture
async def broker() -> AsyncIterator[Log]:
    """A topic whose first entries make a reader believe that all are small."""
    small, large = [body(b"%d" % number) for number in range(SMALL)], [body(bytes(ENTRY)) for _ in range(LARGE)]
    async with Log([*small, *large]) as broker:
        yield broker


async def opened(broker: Log, client: PulsarClient) -> Reader:
    """A reader that has taken some small entries, and been sent all that it is held to have room for."""
    sessions = len(broker.all(Type.SUBSCRIBE))
    reader = await client.reader(TOPIC, EARLIEST, max_buffer=BUFFER)
    for _ in range(20):
        await reader.receive()
    await broker.until(lambda: len(broker.all(Type.SUBSCRIBE)) > sessions + 1)
    await reader.opened()
    return reader


def held(reader: Reader) -> int:
    return sum(entry.size for entry in reader._queue if not isinstance(entry, Exception))


async def all_of(reader: Reader, first: int) -> list[int]:
    return [(await reader.receive()).position.entry for _ in range(first, SMALL + LARGE)]


async def test_what_a_reader_holds_is_bounded_though_permits_are_not_by_bytes(
    broker: Log, client: PulsarClient, metrics: PulsarMetrics
) -> None:
    reader = await opened(broker, client)
    assert held(reader) < 4 * BUFFER + 2 * ENTRY
    assert metrics.overfull_readers.value == 1
    assert await all_of(reader, 20) == list(range(20, SMALL + LARGE))
    assert client._context.queued.held == 0


async def test_where_all_together_hold_much_none_holds_more_than_its_buffer(
    broker: Log, client: PulsarClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "_MOST_QUEUED_BYTES", BUFFER)
    first, second = await opened(broker, client), await opened(broker, client)
    assert held(second) < BUFFER + 2 * ENTRY
    assert client._context.queued.held == held(first) + held(second)
    await first.close()
    assert client._context.queued.held == held(second)
    assert await all_of(second, 20) == list(range(20, SMALL + LARGE))
