"""The partition logs that are open in this process: opened at their first use, swept, and closed with their topic."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.runtime.futures import in_turns, loop_time
from bridge.storage.error_mapping import translated
from bridge.storage.names import Names
from bridge.storage.partition import PartitionLog
from bridge.storage.services import Storage
from bridge.storage.topics.topic import Topic
from bridge.telemetry import log
from bridge.telemetry.metrics import LedPartitions, PartitionEnd

_log = log.get(__name__)

_MOST_ENDS = 2000
"""Partitions of one namespace whose ends the metrics have; of topics that are shown at all."""
_HELD_SECONDS = 10.0
"""For so long a last stable offset is held back where nothing is wrong, when transactions are long."""


class PartitionLogs:
    """The open logs of all topics; each topic holds its own in `Topic.logs`."""

    def __init__(
        self,
        storage: Storage,
        names: Names,
        forget: Callable[[Topic], None],
        leads: Callable[[str, int], bool],
        has_moved: Callable[[str, int], bool],
    ) -> None:
        """`forget` is called with a topic that turns out to be another one, or none, in Pulsar; `leads` tells whether
        this node leads a partition, `has_moved` whether another one did a moment ago."""
        self._storage = storage
        self._names = names
        self._forget = forget
        self._leads, self._has_moved = leads, has_moved
        self._handing_over: set[asyncio.Task[None]] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self._may_proceed = True

    def open(self, topic: Topic, partition: int) -> PartitionLog:
        """Open a partition's log; UNKNOWN_TOPIC_OR_PARTITION if the topic has no such partition."""
        if topic.forgotten:
            text = f"topic {topic.name} was deleted, or is looked up again"
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, text)
        if not 0 <= partition < topic.partitions:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        name = self._names.partition(topic.name, partition, partitioned=topic.partitioned)
        opened = topic.logs[partition] = PartitionLog(
            name,
            self._storage,
            partial(self._forget, topic),
            partial(self._leads, topic.name, partition),
            partial(self._has_moved, topic.name, partition),
            topic.id.bytes,
            partition,
        )
        opened.traffic = self._storage.traffic.enter(self._storage.label_prefix + topic.name)
        self._storage.metrics.open_partitions.inc()
        topic.configure(partition, opened)
        return opened

    def note_missing_batch(self, name: str, partition: int, producer: tuple[int, int, int]) -> None:
        """A batch of an idempotent producer (id, epoch, sequence) was received and not appended."""
        for partitioned in (True, False):  # Pulsar may have been unable to say which
            self._storage.missing.note_missing(
                self._names.partition(name, partition, partitioned=partitioned), *producer
            )

    def close(self, topic: Topic, *, flush: bool) -> "list[asyncio.Task[None]]":
        """The tasks that close a topic's logs; `flush`: appends under way have their outcome first."""
        closing = [self._close(opened, opened.close(flush=flush)) for opened in topic.logs.values()]
        topic.logs.clear()
        return closing

    def hand_over(
        self, topics: Iterable[Topic], is_lost: Callable[[str, int], bool], *, flush: bool
    ) -> "asyncio.Task[None]":
        """Close the logs of partitions that other nodes lead from now on, in turns: there may be thousands."""
        opened = [(topic, partition, log) for topic in topics for partition, log in topic.logs.items()]
        task = asyncio.get_running_loop().create_task(self._hand_over(opened, is_lost, flush=flush))
        self._handing_over.add(task)
        task.add_done_callback(self._handed_over)
        return task

    async def _hand_over(
        self, opened: list[tuple[Topic, int, PartitionLog]], is_lost: Callable[[str, int], bool], *, flush: bool
    ) -> None:
        async for topic, partition, log_ in in_turns(opened):
            if is_lost(topic.name, partition) and topic.logs.get(partition) is log_:
                del topic.logs[partition]
                self._close(log_, log_.hand_over(flush=flush))

    async def load(self, topic: Topic, partition: int) -> None:
        """Wait until a produce to a partition would work at the node that leads it."""
        name = self._names.partition(topic.name, partition, partitioned=topic.partitioned)
        producer = self._storage.client.producer(name, must_exist=True)
        try:
            with translated():
                await producer.opened()
        finally:
            await producer.close(flush=False)

    def hold(self) -> None:
        """Send nothing again until `proceed`."""
        self._may_proceed = False
        self._storage.may_send.clear()

    def proceed(self) -> None:
        """Send again what is left when all that is handed over is dropped."""
        self._may_proceed = True
        if not self._handing_over:
            self._storage.may_send.set()

    def _handed_over(self, task: "asyncio.Task[None]") -> None:
        self._closed(task)
        self._handing_over.discard(task)
        if self._may_proceed and not self._handing_over:
            self._storage.may_send.set()

    def _close(self, closed: PartitionLog, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        self._storage.metrics.open_partitions.dec()
        self._storage.traffic.leave(closed.traffic)
        task = asyncio.get_running_loop().create_task(work)
        self._closing.add(task)
        task.add_done_callback(self._closed)
        return task

    async def wait_closed(self) -> None:
        """Wait until all that `close` and `hand_over` have begun is done."""
        while self._closing or self._handing_over:
            await asyncio.wait(self._closing | self._handing_over)

    async def sweep(self, topics: Sequence[Topic]) -> None:
        """Close the readers and writers that are no longer used, and show where the logs end."""
        with suppress(KafkaError):
            await self._storage.catch_up_readers.sweep()
        led, ends, held, prefix = 0, list[PartitionEnd](), dict[str, float](), self._storage.label_prefix
        every = [(topic, *one) for topic in topics for one in topic.logs.items()]
        async for topic, partition, opened in in_turns(every):
            await opened.sweep(loop_time())
            if not opened.is_led:
                continue
            led += 1
            held_for = opened.held_for(loop_time())
            if held_for >= _HELD_SECONDS:
                held[prefix + topic.name] = max(held_for, held.get(prefix + topic.name, 0.0))
            end = opened.known_end if opened.traffic.shown and len(ends) < _MOST_ENDS else None
            if end is not None:
                ends.append(PartitionEnd(prefix + topic.name, partition, end, opened.learnt_start))
        partitions = sum(topic.partitions for topic in topics)
        self._storage.metrics.led[prefix] = LedPartitions(led, ends, held, len(topics), partitions)

    def _closed(self, task: "asyncio.Task[None]") -> None:
        self._closing.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.warning("! partition not closed cleanly", extra={"error": str(task.exception())})
