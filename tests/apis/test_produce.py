"""Where a batch is opened is decided by what it opens to; how much there is at once is bounded, and its order kept."""

import asyncio
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from bridge import codec
from bridge.apis import produce
from bridge.cluster import Node, single_node
from bridge.codec import Rebuild, Record, compression
from bridge.codec.compression import KafkaCodec
from bridge.codec.packing import pack
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.produce_wire import Request, RequestPartition, RequestTopic, Response
from bridge.produce import partition_append
from bridge.requests.responses import DeferredResponse
from bridge.requests.session import Session
from bridge.runtime.threads import WorkerThreads
from bridge.storage.append import preparation
from bridge.storage.append.conversion_memory import ConversionMemory
from bridge.storage.append.pace import Pace
from bridge.storage.append.preparation import Plan, PreparedEntry
from bridge.telemetry.traffic import Traffic

MIB = 1 << 20
COMPRESSED = [one for one in KafkaCodec if one]


class Log:
    """A partition's log that holds what it gets until it is told to let go of it."""

    known_start = 0
    last_error = None

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.traffic = Traffic()
        self.prepared: list[PreparedEntry] = []
        self.offsets: list[asyncio.Future[int]] = []

    def is_ready(self, *_: object) -> bool:
        return True

    async def make_ready(self, *_: object) -> None:
        pass

    def append_all(self, batches: list[PreparedEntry], pace: Pace | None = None) -> list[asyncio.Future[int]]:
        offsets = [asyncio.get_running_loop().create_future() for _ in batches]
        self.prepared += batches
        self.offsets += offsets
        return offsets

    def acknowledge(self) -> None:
        for number, (prepared, offset) in enumerate(zip(self.prepared, self.offsets, strict=True)):
            prepared.release()
            if not offset.done():
                offset.set_result(number)


class Site:
    """The logs of one topic, and what handlers are given."""

    def __init__(self, plan: Plan | None = None, room: int = 128 * MIB, places: int = 2) -> None:
        self.logs = [Log(plan or Plan(5 * MIB)) for _ in range(300)]
        self.memory = ConversionMemory(room)
        topic = self._only = SimpleNamespace(name="t", partitions=len(self.logs))
        topics = SimpleNamespace(
            cached=lambda name: topic,
            get=self._topic,
            log=lambda _, index: self.logs[index],
            note_missing=lambda *_: None,
            threads=WorkerThreads(places),
            conversion_memory=self.memory,
        )
        settings = SimpleNamespace(pulsar=SimpleNamespace(operation_timeout_seconds=30))
        cluster = single_node(Node(1, "host", 9092), "cluster")
        self._broker: Any = SimpleNamespace(
            topics=topics, settings=settings, cluster=cluster, authorization=None, transactions=None
        )

    async def _topic(self, _: str) -> SimpleNamespace:
        return self._only

    async def begin(self, batches: dict[int, bytes], timeout_ms: int = 30_000) -> DeferredResponse[Response | None]:
        """Have a request take its places."""
        parts = [RequestPartition(index=index, records=memoryview(batch)) for index, batch in batches.items()]
        session = Session(id=1, peer="", listener="", api_version=7)
        request = Request(acks=-1, timeout_ms=timeout_ms, topic_data=[RequestTopic(name="t", partition_data=parts)])
        return await produce.handle(request, self._broker, session)

    async def errors(self, later: DeferredResponse[Response | None]) -> list[int]:
        """The errors by partition."""
        response = await later.future
        return [one.error_code for one in response.responses[0].partition_responses]


class Opened:
    """What was opened: how many bytes, and whether on the event loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.on_loop: list[int] = []
        self.in_threads: list[int] = []
        self.most = 0
        self._inside = 0
        self._loop = threading.get_ident()
        self._open: Callable[..., bytes] = compression.decompress_kafka
        monkeypatch.setattr(preparation, "decompress_kafka", self)

    def __call__(self, attributes: int, data: memoryview, limit: int) -> bytes:
        here = threading.get_ident() == self._loop
        self._inside += 1
        self.most = max(self.most, self._inside)
        try:
            plain = self._open(attributes, data, limit)
        finally:
            self._inside -= 1
            if here:
                self.on_loop.append(limit)
        if not here:
            self.in_threads.append(len(plain))
        return plain


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Opened:
    return Opened(monkeypatch)


def batch(size: int, compressed: KafkaCodec = KafkaCodec.ZSTD, mark: bytes = b"k") -> bytes:
    record = Record(0, 1_700_000_000_000, mark, bytes(size), [])
    return pack(codec.build_batch([record], Rebuild(0, 1, 0)), compressed)


@pytest.mark.parametrize("compressed", COMPRESSED)
async def test_few_bytes_that_open_to_many_are_opened_in_a_thread(opened: Opened, compressed: KafkaCodec) -> None:
    site = Site()
    for size in (1000, 100_000, 1 * MIB, 4 * MIB):
        later = await site.begin({0: batch(size, compressed)})
        site.logs[0].acknowledge()
        assert await site.errors(later) == [0]
    assert all(limit <= 144 * 1024 for limit in opened.on_loop)
    assert [size > 1 * MIB for size in opened.in_threads[-2:]] == [True, True]


@pytest.mark.parametrize("compressed", COMPRESSED)
async def test_what_is_opened_on_the_loop_follows_what_came(opened: Opened, compressed: KafkaCodec) -> None:
    sent = batch(60_000, compressed)
    await Site().begin({0: sent})
    assert opened.on_loop == [max(16 * len(sent), 16 * 1024)]


async def test_ordinary_batches_are_prepared_on_the_loop(opened: Opened) -> None:
    await Site().begin({0: batch(10_000), 1: batch(200_000, KafkaCodec.NONE)})  # which is prepared without opening it
    assert opened.in_threads == []
    assert len(opened.on_loop) == 1


async def test_many_partitions_of_a_request_have_one_turn(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce, "TURN", -1.0)  # over before it begins
    site = Site()
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.ensure_future(others())
    later = await site.begin({index: batch(5000) for index in range(300)})
    beside.cancel()
    assert len(opened.on_loop) == 1
    assert len(opened.in_threads) == 299
    assert turns >= 299
    for log in site.logs:
        log.acknowledge()
    assert await site.errors(later) == [0] * 300


async def test_no_more_than_the_places_are_opened_at_once(opened: Opened) -> None:
    site = Site(places=2)
    await asyncio.gather(*(site.begin({0: batch(2 * MIB), 1: batch(2 * MIB)}) for _ in range(10)))
    assert len(opened.in_threads) == 20
    assert opened.most <= 2


async def test_a_quick_batch_stays_behind_the_slow_one_of_the_request_before() -> None:
    site = Site()
    for mark, size in ((b"slow", 3 * MIB), (b"quick", 10), (b"slow again", 3 * MIB), (b"at once", 10)):
        await site.begin({0: batch(size, mark=mark)})
    assert [one.record_count for one in site.logs[0].prepared] == [1] * 4
    assert [one.uncompressed_size > MIB for one in site.logs[0].prepared] == [True, False, True, False]


async def test_another_client_does_not_wait_for_a_slow_batch() -> None:
    site = Site()
    slow = asyncio.ensure_future(site.begin({0: batch(4 * MIB)}))
    await asyncio.sleep(0)
    await site.begin({0: batch(10)})
    assert not slow.done()
    await slow
    assert [one.uncompressed_size > MIB for one in site.logs[0].prepared] == [False, True]


async def test_what_grows_waits_for_room_and_what_does_not_grow_does_not() -> None:
    site = Site(Plan(5 * MIB, codec=KafkaCodec.NONE), room=10 * MIB)
    first = [asyncio.ensure_future(site.begin({number: batch(4 * MIB)})) for number in range(2)]
    await asyncio.gather(*first)
    assert 7 * MIB < site.memory.held <= 10 * MIB
    waiting = asyncio.ensure_future(site.begin({2: batch(4 * MIB), 3: batch(100_000)}))
    site.logs[4].plan = Plan(5 * MIB)
    await site.begin({4: batch(4 * MIB), 5: batch(100, KafkaCodec.NONE)})
    assert not waiting.done()
    site.logs[0].acknowledge()
    later = await waiting
    assert site.memory.held <= 10 * MIB
    for log in site.logs:
        log.acknowledge()
    assert await site.errors(later) == [0, 0]
    assert site.memory.held == 0


async def test_requests_that_need_all_the_room_do_not_wait_for_each_other() -> None:
    site = Site(Plan(5 * MIB, codec=KafkaCodec.NONE), room=13 * MIB)
    held = []

    async def one(at: int) -> list[int]:
        later = await site.begin({at + number: batch(4 * MIB) for number in range(3)})
        held.append(site.memory.held)
        for number in range(3):
            site.logs[at + number].acknowledge()
        return await site.errors(later)

    assert await asyncio.gather(*(one(3 * number) for number in range(6))) == [[0, 0, 0]] * 6
    assert max(held) <= 13 * MIB
    assert site.memory.held == 0


async def test_what_one_request_may_become_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_append, "MAX_EXCESS_BYTES", 10 * MIB)
    site = Site(Plan(5 * MIB, codec=KafkaCodec.NONE))
    later = await site.begin({number: batch(4 * MIB) for number in range(4)})
    for log in site.logs:
        log.acknowledge()
    assert sorted(await site.errors(later)) == [0, 0, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.MESSAGE_TOO_LARGE]
    assert site.memory.held == 0


async def test_what_finds_no_room_in_time_is_refused_and_leaves_nothing() -> None:
    site = Site(Plan(5 * MIB, codec=KafkaCodec.NONE), room=5 * MIB)
    await site.begin({0: batch(4 * MIB)})
    held = site.memory.held
    later = await site.begin({1: batch(4 * MIB), 2: batch(100)}, timeout_ms=500)
    for log in site.logs[1:]:
        log.acknowledge()
    assert await site.errors(later) == [ErrorCode.REQUEST_TIMED_OUT, 0]
    assert site.memory.held == held
