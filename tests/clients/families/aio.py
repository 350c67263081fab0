"""aiokafka as a `Client`: each call is a whole event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.clients.families.aio_groups import AioGroups
from tests.clients.model import At, Codec, Delivery, Draft, Record, Start, UnknownTopic, attempts

UNKNOWN_TOPIC_OR_PARTITION = 3


class AioKafka(AioGroups):
    """aiokafka with its defaults: not idempotent, old request versions."""

    name = "aiokafka"
    creates_topics = True

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def close(self) -> None:
        """Nothing stays open between calls."""

    def can_write(self, draft: Draft) -> bool:
        """It refuses a null value without a key."""
        return draft.value is not None or draft.key is not None

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic through the admin client."""
        asyncio.run(self._create_topic(topic, partitions))

    def delete_topic(self, topic: str) -> None:
        """Delete a topic through the admin client, which hands out the answer as it came."""
        asyncio.run(self._delete_topic(topic))

    def topics(self) -> set[str]:
        """List all topics."""
        return asyncio.run(self._topics())

    def partitions(self, topic: str) -> int:
        """Describe a topic and count its partitions."""
        return asyncio.run(self._partitions(topic))

    def write(self, topic: str, drafts: Sequence[Draft], codec: Codec = "none") -> list[Delivery]:
        """Send all, then wait for every future."""
        return asyncio.run(self._write(topic, drafts, codec))

    def read(self, topic: str, starts: Mapping[int, Start]) -> list[Record]:
        """Assign, seek, and poll until the position of every partition is its end offset."""
        return asyncio.run(self._read(topic, starts))

    def beginning_and_end(self, topic: str, partition: int) -> tuple[int, int]:
        """Ask for both watermarks."""
        return asyncio.run(self._beginning_and_end(TopicPartition(topic, partition)))

    def offset_for_time(self, topic: str, partition: int, timestamp: int) -> int | None:
        """Ask for an offset by time."""
        return asyncio.run(self._offset_for_time(TopicPartition(topic, partition), timestamp))

    async def _create_topic(self, topic: str, partitions: int) -> None:
        async with self._admin() as admin:
            answer = await admin.create_topics([NewTopic(topic, partitions, 1)])
        for name, code, *rest in answer.topic_errors:
            assert (name, code) == (topic, 0), (name, code, rest)

    async def _delete_topic(self, topic: str) -> None:
        async with self._admin() as admin:
            answer = await admin.delete_topics([topic])
        ((name, code),) = answer.topic_error_codes
        if code == UNKNOWN_TOPIC_OR_PARTITION:
            raise UnknownTopic(topic)
        assert (name, code) == (topic, 0)

    async def _topics(self) -> set[str]:
        async with self._admin() as admin:
            return set(await admin.list_topics())

    async def _partitions(self, topic: str) -> int:
        async with self._admin() as admin:
            (described,) = await admin.describe_topics([topic])
        assert described["error_code"] == 0, described
        return len(described["partitions"])

    async def _write(self, topic: str, drafts: Sequence[Draft], codec: Codec) -> list[Delivery]:
        compression = None if codec == "none" else codec
        producer = AIOKafkaProducer(bootstrap_servers=self._bootstrap, compression_type=compression)
        await producer.start()
        try:
            futures = [
                await producer.send(topic, d.value, d.key, d.partition, d.timestamp, list(d.headers)) for d in drafts
            ]
            results = await asyncio.gather(*futures)
        finally:
            await producer.stop()
        # its result tells the timestamp of the batch's first record for all of them, so it is not looked at
        return [Delivery(result.partition, result.offset) for result in results]

    async def _read(self, topic: str, starts: Mapping[int, Start]) -> list[Record]:
        records: list[Record] = []
        async with self._consumer() as consumer:
            partitions = {TopicPartition(topic, partition): start for partition, start in starts.items()}
            consumer.assign(list(partitions))
            for partition, start in partitions.items():
                await _seek(consumer, partition, start)
            ends = await consumer.end_offsets(list(partitions))
            for left in attempts(f"reading {topic}"):
                positions = [(await consumer.position(partition), end) for partition, end in ends.items()]
                if all(position >= end for position, end in positions):
                    break
                polled = await consumer.getmany(timeout_ms=int(min(left, 5) * 1000))
                records += [_record(message) for batch in polled.values() for message in batch]
        return records

    async def _beginning_and_end(self, partition: Any) -> tuple[int, int]:
        async with self._consumer() as consumer:
            low = await consumer.beginning_offsets([partition])
            high = await consumer.end_offsets([partition])
        return int(low[partition]), int(high[partition])

    async def _offset_for_time(self, partition: Any, timestamp: int) -> int | None:
        async with self._consumer() as consumer:
            found = (await consumer.offsets_for_times({partition: timestamp}))[partition]
        return None if found is None else int(found.offset)

    @asynccontextmanager
    async def _admin(self) -> AsyncIterator[Any]:
        admin = AIOKafkaAdminClient(bootstrap_servers=self._bootstrap)
        await admin.start()
        try:
            yield admin
        finally:
            await admin.close()

    @asynccontextmanager
    async def _consumer(self) -> AsyncIterator[Any]:
        consumer = AIOKafkaConsumer(bootstrap_servers=self._bootstrap, group_id=None, auto_offset_reset="none")
        await consumer.start()
        try:
            yield consumer
        finally:
            await consumer.stop()


async def _seek(consumer: Any, partition: Any, start: Start) -> None:
    if isinstance(start, At):
        found = (await consumer.offsets_for_times({partition: start.timestamp}))[partition]
        start = "end" if found is None else int(found.offset)
    if isinstance(start, int):
        consumer.seek(partition, start)
    elif start == "beginning":
        await consumer.seek_to_beginning(partition)
    else:
        await consumer.seek_to_end(partition)


def _record(message: Any) -> Record:
    assert message.timestamp_type == 0, "not CreateTime"
    headers = tuple((str(name), value) for name, value in message.headers)
    return Record(
        message.topic, message.partition, message.offset, message.timestamp, message.key, message.value, headers
    )
