"""Searches for repeated batches that outlive the requests that began them: one for each batch, for all who repeat it.

A search may take longer than a client waits. Begun again with each request, it would never be answered.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.types import ClientClosed
from bridge.runtime.futures import following, loop_time, retrieve_exception
from bridge.storage.append.duplicates import DuplicateFinder
from bridge.storage.append.pending_append import complete_in_order
from bridge.storage.append.preparation import PreparedEntry
from bridge.storage.append.sequences import SequenceRange
from bridge.storage.append.writers import Writer
from bridge.storage.error_mapping import translate
from bridge.telemetry.metrics import StorageMetrics

_KEPT_SECONDS: Final = 60.0  # after the last request: clients repeat theirs within seconds
_MAX_OF_PRODUCER: Final = 5  # that no client waits for; Kafka's clients have no more batches in flight
_MAX_SEARCHES, _MAX_RESULTS = 256, 10_000  # of a process, that no client waits for
_FINAL: Final = frozenset({ErrorCode.DUPLICATE_SEQUENCE_NUMBER, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER})
"""Errors that are the result of a search: another one would have the same."""

Resend: TypeAlias = Callable[[PreparedEntry, SequenceRange, Writer], "asyncio.Future[int]"]
"""Sends a batch under its own sequences: its base offset, once Pulsar has stored it or says that it had."""


class _Repetition:
    """One batch that came again. It holds records only while a client waits."""

    __slots__ = ("_came", "_request", "answer", "asked_at", "clients", "sent", "task")

    def __init__(self) -> None:
        self.answer = self._new_answer()
        self.asked_at = loop_time()
        self.clients = 0
        """The requests that wait for it."""
        self.sent: PreparedEntry | None = None
        """What Pulsar has on its way; its memory is released with the outcome."""
        self.task: asyncio.Task[int] | None = None
        self._came = asyncio.Event()
        self._request: tuple[PreparedEntry, Writer] | None = None

    def join(self, prepared: PreparedEntry, writer: Writer) -> None:
        """Another request has it."""
        self.clients += 1
        self._request = prepared, writer
        self._came.set()

    def leave(self) -> None:
        """A request has its answer, or waits no longer."""
        self.clients -= 1
        self.asked_at = loop_time()
        if not self.clients:
            self._request = None

    async def request(self) -> tuple[PreparedEntry, Writer]:
        """The newest request that waits; the next one if there is none."""
        while self._request is None:
            self._came.clear()
            await self._came.wait()
        return self._request

    def refuse(self, error: KafkaError) -> None:
        """Tell those that wait why they have to come again; what was searched needs no second search."""
        answer, self.answer = self.answer, self._new_answer()
        self._request = None
        answer.set_exception(error.bare())

    @staticmethod
    def _new_answer() -> "asyncio.Future[int]":
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(retrieve_exception)
        return answer


class RepetitionLimit:
    """The repetitions of a process that no client waits for: of too many, the oldest are forgotten."""

    def __init__(self) -> None:
        self._searches: OrderedDict[_Repetition, Callable[[], None]] = OrderedDict()
        self._results: OrderedDict[_Repetition, Callable[[], None]] = OrderedDict()

    def add(self, repetition: _Repetition, forget: Callable[[], None]) -> None:
        """No client waits for this one any more; `forget` ends it."""
        self.discard(repetition)
        is_found = repetition.answer.done()
        idle, most = (self._results, _MAX_RESULTS) if is_found else (self._searches, _MAX_SEARCHES)
        idle[repetition] = forget
        if len(idle) > most:
            _, forget_oldest = idle.popitem(last=False)
            forget_oldest()

    def discard(self, repetition: _Repetition) -> None:
        """A client waits for it, or it is forgotten."""
        self._searches.pop(repetition, None)
        self._results.pop(repetition, None)


class Repetitions:
    """The searches for repeated batches in one partition."""

    def __init__(
        self,
        duplicates: DuplicateFinder,
        resend: Resend,
        on_found: Callable[[int, int, int], None],
        limit: RepetitionLimit,
        metrics: StorageMetrics,
    ) -> None:
        """`on_found`: called with the id, epoch and sequence of a batch that is found without being sent."""
        self._duplicates, self._resend, self._on_found = duplicates, resend, on_found
        self._limit = limit
        self._metrics = metrics
        self._known: dict[int, dict[SequenceRange, _Repetition]] = {}
        self._tasks: set[asyncio.Task[int]] = set()

    def find(
        self, prepared: PreparedEntry, batch: SequenceRange, writer: Writer, before: "asyncio.Future[int] | None"
    ) -> "asyncio.Future[int]":
        """The base offset of a repeated batch, told after `before`. Cancelling the future does not end the search."""
        producer_id = prepared.producer[0]
        of_producer = self._known.setdefault(producer_id, {})
        repetition = of_producer.get(batch)
        if repetition is None:
            repetition = of_producer[batch] = _Repetition()
            light = prepared._replace(data=b"", reservation=None)
            task = asyncio.get_running_loop().create_task(self._search(repetition, light, batch))
            repetition.task = task
            self._tasks.add(task)
            task.add_done_callback(partial(self._ended, producer_id, batch, repetition))
        self._limit.discard(repetition)
        repetition.join(prepared, writer)
        answer: asyncio.Future[int] = following(
            repetition.answer, lambda answer, base: complete_in_order(answer, base, before)
        )
        answer.add_done_callback(lambda _: self._leave(prepared, batch, repetition))
        return answer

    def forget_producer(self, producer_id: int) -> None:
        """It has a newer epoch, and wants nothing of the older one any more."""
        for batch, repetition in list(self._known.get(producer_id, {}).items()):
            self._forget(producer_id, batch, repetition)

    def sweep(self, now: float) -> None:
        """Forget those that no client has asked for lately; `now`: loop time."""
        for producer_id, of_producer in list(self._known.items()):
            for batch, repetition in list(of_producer.items()):
                if not repetition.clients and repetition.asked_at < now - _KEPT_SECONDS:
                    self._forget(producer_id, batch, repetition)

    def close(self) -> None:
        """End all searches; their clients are told that the partition is closed."""
        known, self._known = self._known, {}
        for of_producer in known.values():
            for repetition in of_producer.values():
                self._limit.discard(repetition)
        for task in self._tasks:
            task.cancel()

    async def _search(self, repetition: _Repetition, prepared: PreparedEntry, batch: SequenceRange) -> int:
        """The offset of a duplicate that this process does not remember.

        What Pulsar told when the writer was opened counts also what it had taken and not stored yet. So it gets the
        batch again, under its own sequences: it then says that it holds it, or stores it. The records and the writer
        are those of a client that waits at that moment: the first one may have hung up since.
        """
        near = await self._duplicates.find_near(prepared)
        if near is not None:
            self._on_found(*prepared.producer)
            return near
        while True:
            repetition.sent, writer = await repetition.request()
            sending = self._resend(repetition.sent, batch, writer)
            try:
                return await sending
            except KafkaError as error:
                if error.code in _FINAL:
                    raise
                repetition.refuse(error)
            finally:
                repetition.sent = None

    def _leave(self, prepared: PreparedEntry, batch: SequenceRange, repetition: _Repetition) -> None:
        if repetition.sent is not prepared:
            prepared.release()
        repetition.leave()
        self._note_idle(prepared.producer[0], batch, repetition)

    def _note_idle(self, producer_id: int, batch: SequenceRange, repetition: _Repetition) -> None:
        of_producer = self._known.get(producer_id, {})
        if repetition.clients or of_producer.get(batch) is not repetition:
            return
        self._limit.add(repetition, partial(self._give_up, producer_id, batch, repetition))
        idle = [(one.asked_at, key) for key, one in of_producer.items() if not one.clients]
        if len(idle) > _MAX_OF_PRODUCER:
            _, oldest = min(idle, key=lambda one: one[0])
            self._give_up(producer_id, oldest, of_producer[oldest])

    def _ended(
        self, producer_id: int, batch: SequenceRange, repetition: _Repetition, task: "asyncio.Task[int]"
    ) -> None:
        self._tasks.discard(task)
        repetition.task = None
        error = ClientClosed("the partition") if task.cancelled() else task.exception()
        answer = repetition.answer
        if isinstance(error, KafkaError):
            error = error.bare()  # it may be remembered: not what its traceback refers to
        elif error is not None:
            error = translate(error)
        if answer.done():  # forgotten
            return
        if error is None:
            answer.set_result(task.result())
        else:
            answer.set_exception(error)
            if error.code not in _FINAL:
                self._remove(producer_id, batch, repetition)
        self._note_idle(producer_id, batch, repetition)

    def _give_up(self, producer_id: int, batch: SequenceRange, repetition: _Repetition) -> None:
        if repetition.task is not None:
            self._metrics.searches_given_up.inc()
        self._forget(producer_id, batch, repetition)

    def _forget(self, producer_id: int, batch: SequenceRange, repetition: _Repetition) -> None:
        self._remove(producer_id, batch, repetition)
        repetition.answer.cancel()
        if repetition.task is not None:
            repetition.task.cancel()

    def _remove(self, producer_id: int, batch: SequenceRange, repetition: _Repetition) -> None:
        self._limit.discard(repetition)
        of_producer = self._known.get(producer_id, {})
        if of_producer.get(batch) is repetition:
            del of_producer[batch]
            if not of_producer:
                del self._known[producer_id]
