"""The partition logs that are open in this process: opened at their first use, swept, and closed with their topic."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from bridge import log
from bridge.errors import KafkaError
from bridge.futures import loop_time
from bridge.kafka.error_codes import ErrorCode
from bridge.storage.names import Names
from bridge.storage.partition import PartitionLog
from bridge.storage.services import Storage
from bridge.storage.topics.topic import Topic

_log = log.get(__name__)


class PartitionLogs:
    """Those of all topics; each topic holds its own in `Topic.logs`."""

    def __init__(self, storage: Storage, names: Names, forget: Callable[[Topic], None]) -> None:
        """`forget` is called with a topic that turns out to be another one, or none, in Pulsar."""
        self._storage = storage
        self._names = names
        self._forget = forget
        self._closing: set[asyncio.Task[None]] = set()

    def open(self, topic: Topic, partition: int) -> PartitionLog:
        """Open a partition's log; UNKNOWN_TOPIC_OR_PARTITION if the topic has no such partition."""
        if topic.forgotten:
            text = f"topic {topic.name} was deleted, or is looked up again"
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, text)
        if not 0 <= partition < topic.partitions:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        name = self._names.partition(topic.name, partition, partitioned=topic.partitioned)
        opened = topic.logs[partition] = PartitionLog(name, self._storage, partial(self._forget, topic))
        self._storage.metrics.open_partitions.inc()
        topic.configure(partition, opened)
        return opened

    def close(self, topic: Topic, *, flush: bool) -> "list[asyncio.Task[None]]":
        """The tasks that close a topic's logs; `flush`: appends under way have their outcome first."""
        closing = []
        for opened in topic.logs.values():
            self._storage.metrics.open_partitions.dec()
            task = asyncio.get_running_loop().create_task(opened.close(flush=flush))
            self._closing.add(task)
            task.add_done_callback(self._closed)
            closing.append(task)
        topic.logs.clear()
        return closing

    async def wait_closed(self) -> None:
        """Wait until all that `close` has begun is done."""
        while self._closing:
            await asyncio.wait(self._closing)

    async def sweep(self, topics: Iterable[Topic]) -> None:
        """Close the readers and writers that are no longer used."""
        with suppress(KafkaError):
            await self._storage.catch_up_readers.sweep()
        for topic in topics:
            for opened in list(topic.logs.values()):
                await opened.sweep(loop_time())

    def _closed(self, task: "asyncio.Task[None]") -> None:
        self._closing.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.warning("! partition not closed cleanly", extra={"error": str(task.exception())})
