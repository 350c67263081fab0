"""The writers of one partition's idempotent producers: each is a Pulsar producer named after the producer id.

Pulsar's deduplication keeps the last sequence id stored under that name, so a producer's past outlives this process and
any broker. Memory holds the last batches only, as in Kafka, for the offsets of duplicates.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Protocol, TypeAlias

from bridge.pulsar.client import PulsarClient
from bridge.pulsar.producer import Producer
from bridge.pulsar.types import ClientClosed, PulsarError, Receipt
from bridge.runtime.futures import failed, loop_time, retrieve_exception, wait_shared
from bridge.storage.append.sequences import SequencePosition, SequenceRange, Sequences

_MAX_REMEMBERED_BATCHES = 5  # of a producer; Kafka's clients have no more in flight
_MAX_WRITERS = 1000
_IDLE_SECONDS = 600.0


ProducerSequence: TypeAlias = tuple[int, int, int]
"""Where a batch of an idempotent producer begins: id, epoch, sequence; −1 as the id of any other batch."""


class ClientSession(Protocol):
    """The client's connection that sends a producer's batches."""

    @property
    def id(self) -> int:
        """The connection's number."""

    def on_close(self, key: object, action: Callable[[], None]) -> bool:
        """Call this when the connection is lost, once for each key; False where it is already."""

    def off_close(self, key: object) -> None:
        """Nothing is to be called for this key any more."""


class Writer:
    """The Pulsar producer of one producer id in one partition."""

    def __init__(self, producer: Producer) -> None:
        self.producer = producer
        self.sequences = Sequences(producer.last_sequence_id)
        self.opened_at = self.used_at = loop_time()
        self.sessions: dict[int, ClientSession] = {}
        """The open client connections that have sent its batches."""
        self.abandoned = False
        """They are all lost: the name is released with the last outcome, for the client may use another bridge."""
        self.failed_epoch = -1
        """Of a batch that has failed: this writer sends nothing more of that epoch, and is dropped a moment later."""
        self.last_answer: asyncio.Future[int] | None = None
        """The client's future of its newest batch."""
        self.sent_again: set[asyncio.Future[Receipt]] = set()
        """Repeated batches on their way to Pulsar."""
        self._recent: deque[tuple[SequenceRange, asyncio.Future[int]]] = deque(maxlen=_MAX_REMEMBERED_BATCHES)

    @property
    def epoch(self) -> int:
        """The epoch of the last batch; −1 before the first."""
        return self.sequences.epoch

    def begin_epoch(self, epoch: int) -> bool:
        """A batch of this epoch was received; whether it is a new one.

        With a new epoch the client has given up what it sent before. That need not be stored any more, and its outcome
        does not matter to this batch.
        """
        if epoch <= self.epoch:
            return False
        self.last_answer = None
        self._recent.clear()
        self.producer.supersede()
        return True

    async def wait_for_outcomes(self) -> None:
        """Wait until all that was sent has its outcome."""
        under_way = [offset for _, offset in self._recent if not offset.done()]
        if under_way:
            await asyncio.wait(under_way)

    def note_sent(self, batch: SequenceRange, offset: "asyncio.Future[int]") -> None:
        """A batch is sent; `offset` becomes its base offset."""
        self.sequences.append(batch)
        self._recent.append((batch, offset))

    def previous_answer(self, *, is_retry: bool) -> "asyncio.Future[int] | None":
        """The future that the next batch's depends on: that of the newest batch, unless it has its offset. A batch that
        is sent again, as all without an offset are, depends on a pending one only."""
        answer = self.last_answer
        if answer is None or not answer.done():
            return answer
        return answer if failed(answer) and not is_retry else None

    def offset_of(self, batch: SequenceRange) -> "asyncio.Future[int] | None":
        """The base offset of a duplicate, if it is among the last batches."""
        for known, offset in self._recent:
            if (known.first, known.last) == (batch.first, batch.last):
                return offset
        return None

    @property
    def has_pending(self) -> bool:
        """Whether any of its batches has no outcome yet."""
        return bool(self.sent_again) or any(not offset.done() for _, offset in self._recent)


class Writers:
    """The writers of one partition, opened when first used."""

    def __init__(self, topic: str, client: PulsarClient, may_send: asyncio.Event | None = None) -> None:
        self._topic = topic
        self._client = client
        self._may_send = may_send
        self._writers: OrderedDict[int, Writer] = OrderedDict()
        self._opening: dict[int, asyncio.Future[Writer]] = {}
        self._producers: dict[int, Producer] = {}  # of those that are being opened
        self._closing: dict[int, asyncio.Task[None]] = {}
        self._closed = False

    def get(self, producer_id: int) -> Writer | None:
        """The writer, if it is open: not one whose name another client of Pulsar has taken since."""
        writer = self._writers.get(producer_id)
        if writer is not None and writer.producer.closing:
            self.drop(producer_id, writer)
            return None
        return writer

    def use(self, producer_id: int, session: ClientSession | None) -> Writer | None:
        """The writer, if it is open. It stays open for some time, at most as long as its clients' connections."""
        writer = self.get(producer_id)
        if writer is not None:
            self._writers.move_to_end(producer_id)
            writer.used_at = loop_time()
            if session is not None and session.id not in writer.sessions:
                release = partial(self.release, producer_id, session.id)
                if session.on_close((self._topic, producer_id), release):
                    writer.sessions[session.id] = session
                writer.abandoned = not writer.sessions
        return writer

    async def open(self, batch: ProducerSequence, session: ClientSession | None) -> Writer:
        """The writer, opened if need be: then what Pulsar knows of the producer is known.

        A gap before the batch is not trusted before Pulsar was asked after the batch was received: the name may have
        been lost unnoticed, and another bridge may have written what is missing.
        """
        producer_id, epoch, sequence = batch
        came = loop_time()
        writer = self.use(producer_id, session)
        if writer is not None and writer.sequences.is_gap(epoch, sequence):
            await writer.wait_for_outcomes()
            if writer.opened_at < came and writer.sequences.is_gap(epoch, sequence):
                self.drop(producer_id, writer)
            writer = self.use(producer_id, session)
        while writer is None:  # again where it was swept, or lost its name, before it was used here
            if self._closed:
                raise ClientClosed("the partition")
            # opened once for all callers, which continue in their order
            opening = self._opening.get(producer_id)
            if opening is None:
                opening = self._opening[producer_id] = asyncio.ensure_future(self._open(producer_id))
                opening.add_done_callback(partial(self._opened, producer_id))
            await wait_shared(opening, ClientClosed("the partition"))
            writer = self.use(producer_id, session)
        return writer

    def _opened(self, producer_id: int, opening: "asyncio.Future[Writer]") -> None:
        self._opening.pop(producer_id, None)
        retrieve_exception(opening)

    def last_error(self, producer_id: int, other: Producer | None) -> PulsarError | None:
        """Why a writer is not open at present; `other`: the producer of all that are not idempotent."""
        producer = other if producer_id < 0 else self._producers.get(producer_id)
        return None if producer is None else producer.last_error

    def release(self, producer_id: int, session_id: int) -> None:
        """A client's connection is lost. Without any, the name is released: the client may use another bridge."""
        writer = self._writers.get(producer_id)
        if writer is not None:
            writer.sessions.pop(session_id, None)
            writer.abandoned = not writer.sessions
            self.drop_abandoned(producer_id, writer)

    def keep_until(self, producer_id: int, writer: Writer, sent: "asyncio.Future[Receipt]") -> None:
        """Keep the writer, even if its clients hang up, until what was sent again has its outcome."""

        def outcome_known(sent: "asyncio.Future[Receipt]") -> None:
            writer.sent_again.discard(sent)
            self.drop_abandoned(producer_id, writer)

        if not sent.done():
            writer.sent_again.add(sent)
            sent.add_done_callback(outcome_known)

    def drop_abandoned(self, producer_id: int, writer: Writer) -> None:
        """Close a writer whose client connections are lost, once nothing of it is on its way."""
        if writer.abandoned and not writer.has_pending:
            self.drop(producer_id, writer)

    def last_positions(self) -> list[tuple[int, SequencePosition]]:
        """The producers whose writers are open, and the last position of each."""
        found = ((producer_id, writer.sequences.last) for producer_id, writer in self._writers.items())
        return [(producer_id, last) for producer_id, last in found if last is not None]

    def drop(self, producer_id: int, writer: Writer) -> None:
        """Close a writer whose sends fail, or that is idle: for the next batch Pulsar is asked again what is stored."""
        if self._writers.get(producer_id) is writer:
            self._close(producer_id, writer.producer.close(flush=False))

    def _close(self, producer_id: int, closing: Coroutine[Any, Any, None]) -> None:
        for session in self._writers.pop(producer_id).sessions.values():
            session.off_close((self._topic, producer_id))  # it has so many actions: the next ones need room
        task = self._closing[producer_id] = asyncio.get_running_loop().create_task(closing)
        task.add_done_callback(lambda _: self._closing.pop(producer_id, None))

    def sweep(self, now: float) -> None:
        """Close the idle ones, those without connections, and the oldest of too many; `now`: loop time."""
        before = now - _IDLE_SECONDS
        for producer_id, writer in list(self._writers.items()):
            unused = not writer.sessions or writer.used_at < before or len(self._writers) > _MAX_WRITERS
            if unused and not writer.has_pending:
                self.drop(producer_id, writer)

    def hand_over(self, seconds: float) -> None:
        """Close all at once but for what is on its way to Pulsar, which has so many seconds for its outcome."""
        self._closed = True
        for producer_id, writer in list(self._writers.items()):
            self._close(producer_id, writer.producer.hand_over(seconds))
        for opening in self._opening.values():
            opening.cancel()

    async def close(self) -> None:
        """Close all; none is opened afterwards."""
        self._closed = True
        for producer_id, writer in list(self._writers.items()):
            self.drop(producer_id, writer)
        opening = list(self._opening.values())
        for one in opening:
            one.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        if self._closing:
            await asyncio.wait(self._closing.values())

    async def _open(self, producer_id: int) -> Writer:
        closing = self._closing.get(producer_id)
        if closing is not None:  # Pulsar accepts a name once at a time
            await asyncio.wait((closing,))
        producer = self._client.producer(
            self._topic, name=f"kafka-producer-{producer_id}", must_exist=True, may_send=self._may_send
        )
        self._producers[producer_id] = producer
        try:
            await producer.opened()
        except BaseException:
            await producer.close(flush=False)
            raise
        finally:
            del self._producers[producer_id]
        writer = self._writers[producer_id] = Writer(producer)
        return writer
