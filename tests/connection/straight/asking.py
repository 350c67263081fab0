"""Requests that may go straight, what their answers say, and which of them did."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from bridge.apis import create_topics, fetch, produce
from bridge.codec import HEADER_SIZE, Rebuild, Record, build_batch, read_header, read_records
from bridge.codec.compression import decompress_kafka
from bridge.connection.straight import StraightWay
from bridge.connection.straight.found import Answers
from bridge.kafka.fetch_messages import Request as Fetch
from bridge.kafka.fetch_messages import RequestPartition, RequestTopic
from bridge.kafka.produce_wire import Request as Produce
from bridge.kafka.produce_wire import RequestPartition as Data
from bridge.kafka.produce_wire import RequestTopic as TopicData
from tests.apis.wire import Connection, ask
from tests.support.bridges import BridgeThread

NOW = 1_700_000_000_000
NEWEST = produce.API.max_version


class Taken:
    """Which API's requests went straight, in their order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._keys: list[int] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._take = StraightWay.take
        monkeypatch.setattr(StraightWay, "take", lambda *args: self._note(*args))

    def _note(self, mine: StraightWay, frame: memoryview, received: float, answers: Answers) -> bool:
        self._loop = asyncio.get_running_loop()
        taken = self._take(mine, frame, received, answers)
        self.broker = mine._fetch.broker
        if taken:
            self._keys.append(frame[1])
        return taken

    @property
    def keys(self) -> list[int]:
        """Their API keys. An answer may come before what has sent it has returned: that is waited for."""
        if self._loop is not None:
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self._loop).result(10)
        return list(self._keys)

    def forget(self) -> None:
        """Count from here on."""
        assert self.keys is not None
        self._keys.clear()


def create(bridge: BridgeThread, name: str) -> None:
    wanted = create_topics.RequestTopic(name=name, num_partitions=2, replication_factor=1, assignments=[], configs=[])
    assert ask(bridge, create_topics.API, create_topics.Request(topics=[wanted])).topics[0].error_code == 0
    for index in range(2):
        written = ask(bridge, produce.API, produced(name, batch(b"first"), index), NEWEST)
        assert written.responses[0].partition_responses[0].base_offset == 0


def batch(value: bytes, producer: tuple[int, int, int] = (-1, -1, -1)) -> bytes:
    return build_batch([Record(0, NOW, None, value, [])], Rebuild(0, 1, NOW, own=True, producer=producer))


def produced(topic: str, records: bytes, index: int = 0, timeout_ms: int = 30_000, acks: int = -1) -> Produce:
    return Produce(
        acks=acks, timeout_ms=timeout_ms,
        topic_data=[TopicData(name=topic, partition_data=[Data(index=index, records=records)])],
    )  # fmt: skip


def fetched(topic: str, offset: int, max_wait_ms: int = 10_000) -> Fetch:
    partition = RequestPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return Fetch(max_wait_ms=max_wait_ms, min_bytes=1, topics=[RequestTopic(topic=topic, partitions=[partition])])


def stored(answer: Any) -> tuple[int, int]:
    """The error and the offset of the only partition."""
    ((partition,),) = [topic.partition_responses for topic in answer.responses]
    return partition.error_code, partition.base_offset


def values(answer: Any) -> list[bytes]:
    """What is in an answer to a Fetch of one partition without errors."""
    ((partition,),) = [topic.partitions for topic in answer.responses]
    assert partition.error_code == 0
    data = b"".join(partition.records or ())
    found, at = [], 0
    while at < len(data):
        end = at + 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        found += [record.value or b"" for record in read_records(*opened(data[at:end]))]
        at = end
    return found


def opened(records: bytes) -> tuple[bytes, bytes]:
    """A batch, and its records uncompressed."""
    return records, decompress_kafka(read_header(records).attributes, records[HEADER_SIZE:], 1 << 20)


def waits(bridge: BridgeThread, topic: str) -> bool:
    """Whether anybody waits for the end of partition 0."""
    log = bridge.server.topics.opened(topic, 0)
    return log is not None and log.end.has_waiters


def at_tail(client: Connection, topic: str, taken: Taken, version: int = 11) -> None:
    """Read until it goes straight: a reader is at the tail then."""
    until(lambda: client.ask(fetch.API, fetched(topic, 0), version) is not None and taken.keys[-1:] == [fetch.API.key])


def until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.005)
