"""Transactions of aiokafka: protocol 1, offsets without a generation, so that each partition has its own producer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import InvalidProducerEpoch, KafkaError, ProducerFenced

from tests.clients.model import TIMEOUT_SECONDS, attempts
from tests.clients.transactions.model import BATCH, Ended, Fenced, Seen, ThreadCopier

T = TypeVar("T")


class Loop:
    """An event loop in a thread: clients have work to do between the calls."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="aiokafka", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something there."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(TIMEOUT_SECONDS * 2)

    def close(self) -> None:
        """End it."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(TIMEOUT_SECONDS)
        self._loop.close()


class AioTransactions:
    """The family."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._loop = Loop()

    def producer(self, transactional_id: str, timeout_ms: int = 60_000) -> AioProducer:
        """A producer that has fenced those before it."""
        return AioProducer(self._loop, self._loop.run(open_producer(self._bootstrap, transactional_id, timeout_ms)))

    def reader(self, topic: str, partitions: Sequence[int], *, committed: bool) -> AioReader:
        """A reader of committed records, or of all."""
        consumer = self._loop.run(_reader(self._bootstrap, topic, partitions, committed))
        return AioReader(self._loop, consumer, topic, partitions)

    def copier(self, source: str, target: str, group: str) -> AioCopier:
        """A copier at work."""
        return AioCopier(self._bootstrap, source, target, group)

    def close(self) -> None:
        """End the loop."""
        self._loop.close()


async def open_producer(bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> Any:
    """A producer that has fenced those before it."""
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
    )
    await producer.start()
    return producer


async def _reader(bootstrap: str, topic: str, partitions: Sequence[int], committed: bool) -> Any:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        isolation_level="read_committed" if committed else "read_uncommitted",
        auto_offset_reset="earliest",
        fetch_max_wait_ms=20,
    )
    await consumer.start()
    consumer.assign([TopicPartition(topic, partition) for partition in partitions])
    return consumer


@asynccontextmanager
async def _errors_told() -> AsyncIterator[None]:
    """Its errors as those that the tests know."""
    try:
        yield
    except (ProducerFenced, InvalidProducerEpoch) as error:
        raise Fenced(str(error)) from error
    except KafkaError as error:
        raise Ended(f"{type(error).__name__}: {error}") from error


class AioProducer:
    """A transactional producer."""

    def __init__(self, loop: Loop, producer: Any) -> None:
        self._loop, self._producer = loop, producer

    def begin(self) -> None:
        """Begin a transaction."""
        self._loop.run(self._do(self._producer.begin_transaction()))

    def send(self, topic: str, values: Sequence[str], partition: int = 0) -> None:
        """Write records and wait for their acknowledgements."""
        self._loop.run(self._do(send_all(self._producer, topic, values, partition)))

    def send_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Commit offsets of a group without members."""
        wanted = {TopicPartition(topic, partition): offset for partition, offset in offsets.items()}
        self._loop.run(self._do(self._producer.send_offsets_to_transaction(wanted, group)))

    def commit(self) -> None:
        """Commit."""
        self._loop.run(self._do(self._producer.commit_transaction()))

    def abort(self) -> None:
        """Abort."""
        self._loop.run(self._do(self._producer.abort_transaction()))

    def close(self) -> None:
        """Let go, whatever is open."""
        self._loop.run(drop(self._producer))

    async def _do(self, work: Coroutine[Any, Any, None]) -> None:
        async with _errors_told():
            await work


async def send_all(producer: Any, topic: str, values: Sequence[str], partition: int) -> None:
    """Write records and wait for their acknowledgements."""
    futures = [await producer.send(topic, value.encode(), partition=partition) for value in values]
    await asyncio.gather(*futures)


async def drop(producer: Any) -> None:
    """Let go of a producer; with a transaction open it would wait for its end."""
    try:
        await asyncio.wait_for(producer.stop(), 1)
    except (KafkaError, TimeoutError):
        await producer.client.close()


class AioReader:
    """An assigned consumer."""

    def __init__(self, loop: Loop, consumer: Any, topic: str, partitions: Sequence[int]) -> None:
        self._loop, self._consumer, self._topic = loop, consumer, topic
        self._partitions = [TopicPartition(topic, partition) for partition in partitions]

    def read(self) -> Seen:
        """Read up to the ends of its level."""
        return self._loop.run(self._read())

    async def _read(self) -> Seen:
        seen: Seen = {each.partition: [] for each in self._partitions}
        ends = await self._consumer.end_offsets(self._partitions)
        for _ in attempts(f"reading {self._topic}"):
            positions = [(await self._consumer.position(partition), end) for partition, end in ends.items()]
            if all(position >= end for position, end in positions):
                break
            for partition, records in (await self._consumer.getmany(timeout_ms=100)).items():
                seen[partition.partition] += [record.value.decode() for record in records]
        return seen

    def position(self, partition: int) -> int:
        """Where it is."""
        return int(self._loop.run(self._consumer.position(TopicPartition(self._topic, partition))))

    def close(self) -> None:
        """Let go."""
        self._loop.run(self._consumer.stop())


class AioCopier(ThreadCopier):
    """A member with a producer for each partition, whose transactional id follows the partition.

    Who gets a partition fences who had it, and only then asks how far that one came.
    """

    def copy(self) -> None:
        """Copy."""
        asyncio.run(self._copy())

    async def _copy(self) -> None:
        consumer = AIOKafkaConsumer(
            self.source, bootstrap_servers=self.bootstrap, group_id=self.group, auto_offset_reset="earliest",
            enable_auto_commit=False, heartbeat_interval_ms=200, session_timeout_ms=10_000, fetch_max_wait_ms=20,
        )  # fmt: skip
        await consumer.start()
        producers: dict[Any, Any] = {}
        done: dict[Any, int] = {}
        while not self.stopped:
            polled = await consumer.getmany(timeout_ms=100, max_records=BATCH)
            held = consumer.assignment()
            for partition in [one for one in producers if one not in held]:
                await drop(producers.pop(partition))
            for partition, records in polled.items():
                if partition not in producers:
                    producers[partition], done[partition] = await self._take(consumer, partition)
                elif records[0].offset < done.get(partition, 0):
                    # after a rebalance it begins where the group was while the last transaction was still open
                    consumer.seek(partition, done[partition])
                elif await self._copied(producers[partition], partition, records):
                    done[partition] = records[-1].offset + 1
                else:
                    await drop(producers.pop(partition))
        for producer in producers.values():
            await drop(producer)
        await consumer.stop()

    async def _take(self, consumer: Any, partition: Any) -> tuple[Any, int]:
        """A producer for a partition, and where the group has come to; what was polled comes again."""
        producer = await open_producer(self.bootstrap, f"{self.group}-{partition.partition}")
        reached = int(await consumer.committed(partition) or 0)
        if partition in consumer.assignment():
            consumer.seek(partition, reached)
        return producer, reached

    async def _copied(self, producer: Any, partition: Any, records: Sequence[Any]) -> bool:
        """Whether it was not another's in the meantime."""
        try:
            await producer.begin_transaction()
            await send_all(producer, self.target, [record.value.decode() for record in records], partition.partition)
            await producer.send_offsets_to_transaction({partition: records[-1].offset + 1}, self.group)
            await producer.commit_transaction()
        except KafkaError:
            return False
        return True
