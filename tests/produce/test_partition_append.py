"""What a request has for its partitions becomes entries: quickly on the event loop, in threads, within the memory."""

import asyncio
import gc
import mmap
from collections.abc import Collection

from bridge import codec
from bridge.codec import NO_PRODUCER, Rebuild, Record, message_sets
from bridge.codec.compression import KafkaCodec
from bridge.codec.packing import pack
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.produce.partition_append import PartitionAppend, RequestPreparation, for_each
from bridge.pulsar.types import PulsarError
from bridge.runtime.threads import WorkerThreads
from bridge.storage.append.conversion_memory import ConversionMemory
from bridge.storage.append.pace import Pace
from bridge.storage.append.preparation import Plan, PreparedEntry
from bridge.storage.append.writers import ClientSession, ProducerSequence
from bridge.storage.partition import PartitionLog
from bridge.telemetry.traffic import Traffic
from tests.support.waiting import until

NOW = 1_700_000_000_000
LIMIT = 1 << 20


class Log(PartitionLog):
    """A partition's log that refuses to be appended to, or gives out futures."""

    known_start = 0
    last_error: PulsarError | None = None

    def __init__(self, plan: Plan, refusal: KafkaError | None = None) -> None:
        self.plan = plan
        self.traffic = Traffic()
        self._refusal = refusal

    async def make_ready(
        self,
        batches: Collection[ProducerSequence] = (),
        session: ClientSession | None = None,
        deadline: float | None = None,
    ) -> None:
        """It is."""

    async def store_chunks(self, large: PreparedEntry, first: PreparedEntry) -> PreparedEntry:
        return large

    def append_all(self, batches: list[PreparedEntry], pace: Pace | None = None) -> list[asyncio.Future[int]]:
        if self._refusal is not None:
            raise self._refusal
        return [asyncio.get_running_loop().create_future() for _ in batches]


def batch(
    size: int = 10, compression: KafkaCodec = KafkaCodec.NONE, producer: tuple[int, int, int] = NO_PRODUCER
) -> bytes:
    record = Record(0, NOW, b"key", bytes(size), [])
    return pack(codec.build_batch([record], Rebuild(0, 1, 0, producer=producer)), compression)


def append_of(records: bytes, plan: Plan | None = None, refusal: KafkaError | None = None) -> PartitionAppend:
    append = PartitionAppend("topic", 0, records)
    append.log = Log(plan or Plan(LIMIT), refusal)
    return append


def preparation_of(
    *appends: PartitionAppend, memory: ConversionMemory | None = None, allow_zstd: bool = True, seconds: float = 30
) -> RequestPreparation:
    deadline = asyncio.get_running_loop().time() + seconds
    memory = memory or ConversionMemory()
    return RequestPreparation(appends, WorkerThreads(2), memory, deadline, allow_zstd=allow_zstd)


def prepare_on_loop(append: PartitionAppend, preparation: RequestPreparation, *, decompress: bool = True) -> bool:
    assert append.log is not None
    return preparation.prepare_on_loop(append, append.log.plan, decompress=decompress)


async def test_several_batches_are_entries_in_their_order() -> None:
    append = append_of(batch(1) + batch(2) + batch(3))
    assert prepare_on_loop(append, preparation_of(append))
    sizes = [len(entry.data) for entry in append.entries]
    assert sizes == [sizes[0], sizes[0] + 1, sizes[0] + 2]


async def test_a_message_set_is_for_a_thread() -> None:
    records = message_sets.from_batches(batch(), 1, 0, LIMIT, LIMIT)
    append = append_of(records)
    preparation = preparation_of(append)
    assert not prepare_on_loop(append, preparation)
    await preparation.prepare([append])
    assert [entry.record_count for entry in append.entries] == [1]


async def test_what_is_compressed_is_for_a_thread_where_the_loop_has_no_time() -> None:
    append = append_of(batch(100, KafkaCodec.GZIP))
    preparation = preparation_of(append)
    assert not prepare_on_loop(append, preparation, decompress=False)
    assert prepare_on_loop(append, preparation)


async def test_what_the_topic_or_the_version_does_not_take_is_refused() -> None:
    for append, allow_zstd, code in (
        (append_of(batch(100), Plan(LIMIT, max_batch_bytes=100)), True, ErrorCode.MESSAGE_TOO_LARGE),
        (append_of(batch(100, KafkaCodec.ZSTD)), False, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (append_of(b"no batch at all, but long enough for the header of one: 61 bytes "), True, None),
    ):
        preparation = preparation_of(append, allow_zstd=allow_zstd)
        await preparation.prepare([append])
        assert append.error is not None
        assert append.entries == []
        if code is not None:
            assert append.error.code == code


async def test_memory_that_is_not_free_is_waited_for_until_the_deadline() -> None:
    memory = ConversionMemory(LIMIT)
    assert memory.try_acquire(LIMIT)
    append = append_of(batch(LIMIT // 2, KafkaCodec.ZSTD), Plan(LIMIT, codec=KafkaCodec.NONE))
    preparation = preparation_of(append, memory=memory)
    assert not prepare_on_loop(append, preparation)
    preparing = asyncio.ensure_future(preparation.prepare([append]))
    late = append_of(batch(LIMIT // 2, KafkaCodec.ZSTD), Plan(LIMIT, codec=KafkaCodec.NONE))
    await preparation_of(late, memory=memory, seconds=0.5).prepare([late])
    assert late.error is not None
    assert late.error.code == ErrorCode.REQUEST_TIMED_OUT
    memory.release(LIMIT)
    await preparing
    assert memory.held == append.excess_bytes > 0
    append.release()
    assert memory.held == 0


async def test_the_sequences_of_all_producers_of_an_append_are_known() -> None:
    append = append_of(b"".join(batch(producer=one) for one in ((1, 0, 5), (2, 0, 7), (1, 0, 6))))
    assert prepare_on_loop(append, preparation_of(append))
    assert sorted(append.first_sequences()) == [(1, 0, 5), (2, 0, 7)]


async def test_what_the_log_refuses_holds_no_memory() -> None:
    memory = ConversionMemory()
    refusal = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "no")
    append = append_of(batch(100_000, KafkaCodec.ZSTD), Plan(LIMIT, codec=KafkaCodec.NONE), refusal)
    await preparation_of(append, memory=memory).prepare([append])
    assert memory.held > 0
    append.send()
    assert memory.held == 0
    failure = append.failure()
    assert failure is not None
    assert failure.code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_the_first_failure_of_the_parts_is_that_of_the_append() -> None:
    append = append_of(batch() + batch() + batch())
    assert prepare_on_loop(append, preparation_of(append))
    append.send()
    first, second, third = append.offsets
    first.set_result(7)
    second.set_exception(ValueError("odd"))
    third.cancel()
    failure = append.failure()
    assert failure is not None
    assert (failure.code, failure.message) == (ErrorCode.UNKNOWN_SERVER_ERROR, "odd")


async def test_a_step_s_error_is_that_of_its_append_alone() -> None:
    appends = [append_of(batch()) for _ in range(3)]

    async def step(append: PartitionAppend) -> None:
        if append is appends[0]:
            raise TimeoutError
        if append is appends[1]:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "no")

    await for_each(step, appends)
    codes = [None if append.error is None else append.error.code for append in appends]
    assert codes == [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.INVALID_TOPIC_EXCEPTION, None]


async def test_what_is_refused_holds_no_memory_until_a_collection() -> None:
    """An error that a local of its own traceback has keeps all that the work had: 4 MB for a batch of 8 KB."""
    plain = Record(0, NOW, b"key", bytes(8 << 20), [])
    grows = pack(codec.build_batch([plain], Rebuild(0, 1, 0, producer=NO_PRODUCER)), KafkaCodec.GZIP)
    gc.collect()
    gc.disable()
    try:
        append = append_of(grows)
        await preparation_of(append).prepare([append])
        assert append.error is not None
        assert append.error.code == ErrorCode.MESSAGE_TOO_LARGE
        await until(lambda: not any(isinstance(one, mmap.mmap) for one in gc.get_objects()))  # the thread lets go
    finally:
        gc.enable()
