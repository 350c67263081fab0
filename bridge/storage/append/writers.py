"""Idempotent producers' ways into one partition: each writes through a Pulsar producer named after its id.

Pulsar's deduplication keeps, by that name, the last sequence id it has stored: nothing of a producer's past is lost
with this process or a broker. In memory stand only the last batches, as in Kafka, for the offsets of repetitions.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeAlias

from bridge.futures import failed, loop_time, retrieve_exception, wait_shared
from bridge.pulsar.client import PulsarClient
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.producer import Producer
from bridge.pulsar.types import ClientClosed
from bridge.storage.append.sequences import SequencePosition, SequenceRange, Sequences

_REMEMBERED = 5  # batches of a producer; Kafka's clients have no more under way
_MOST_WRITERS = 1000
_IDLE_SECONDS = 600.0


ProducerSequence: TypeAlias = tuple[int, int, int]
"""Where a batch of an idempotent producer begins: id, epoch, sequence; an id of −1: it is no such producer's."""


class User(Protocol):
    """Who sends a producer's batches: a client's connection."""

    @property
    def id(self) -> int:
        """Its number."""

    def on_close(self, key: object, action: Callable[[], None]) -> bool:
        """Call this when the connection is lost, once for each key; False where it is already."""


class Writer:
    """One producer id in one partition."""

    def __init__(self, producer: Producer) -> None:
        self.producer = producer
        self.sequences = Sequences(producer.last_sequence_id)
        self.opened_at = self.used_at = loop_time()
        self.users: set[int] = set()
        """The clients' connections that have sent batches of it and are still there."""
        self.answer: asyncio.Future[int] | None = None
        """The client's, to its newest batch."""
        self._recent: deque[tuple[SequenceRange, asyncio.Future[int]]] = deque(maxlen=_REMEMBERED)

    @property
    def epoch(self) -> int:
        """The epoch of the last batch; −1 before the first."""
        return self.sequences.epoch

    def begin_epoch(self, epoch: int) -> None:
        """A batch of this epoch comes.

        With a new one its client has given up what it sent before: that need not be stored any more, and what becomes
        of it is nothing to this batch.
        """
        if epoch > self.epoch:
            self.answer = None
            self._recent.clear()
            self.producer.supersede()

    async def settled(self) -> None:
        """Wait until all that was sent has its outcome."""
        under_way = [offset for _, offset in self._recent if not offset.done()]
        if under_way:
            await asyncio.wait(under_way)

    def remember(self, batch: SequenceRange, offset: "asyncio.Future[int]") -> None:
        """Take note of a batch that is sent; `offset` is its base offset, once known."""
        self.sequences.append(batch)
        self._recent.append((batch, offset))

    def before(self, *, again: bool) -> "asyncio.Future[int] | None":
        """The answer that one to the next batch depends on: that to the newest, unless it was an offset. A batch that
        comes again, as all do that had none, depends only on one that is still to be given."""
        answer = self.answer
        if answer is None or not answer.done():
            return answer
        return answer if failed(answer) and not again else None

    def offset_of(self, batch: SequenceRange) -> "asyncio.Future[int] | None":
        """The base offset of a repeated batch, where it is among the last ones."""
        for known, offset in self._recent:
            if (known.first, known.last) == (batch.first, batch.last):
                return offset
        return None

    @property
    def busy(self) -> bool:
        """Whether something it sent has no outcome yet."""
        return any(not offset.done() for _, offset in self._recent)


class Writers:
    """The writers of one partition, opened when first needed."""

    def __init__(self, topic: str, client: PulsarClient) -> None:
        self._topic = topic
        self._client = client
        self._writers: OrderedDict[int, Writer] = OrderedDict()
        self._opening: dict[int, asyncio.Future[Writer]] = {}
        self._producers: dict[int, Producer] = {}  # of those that are being opened
        self._closing: dict[int, asyncio.Task[None]] = {}
        self._closed = False

    def get(self, producer_id: int) -> Writer | None:
        """The writer, if it is open: not one whose name Pulsar has given to somebody else since."""
        writer = self._writers.get(producer_id)
        if writer is not None and writer.producer.closing:
            self.drop(producer_id, writer)
            return None
        return writer

    def use(self, producer_id: int, user: User | None) -> Writer | None:
        """The writer, if it is open, which it stays for some time now, and no longer than its users."""
        writer = self.get(producer_id)
        if writer is not None:
            self._writers.move_to_end(producer_id)
            writer.used_at = loop_time()
            if user is not None and user.id not in writer.users:
                release = partial(self.release, producer_id, user.id)
                if user.on_close((self._topic, producer_id), release):
                    writer.users.add(user.id)
        return writer

    async def open(self, batch: ProducerSequence, user: User | None) -> Writer:
        """The writer, opened if need be: what Pulsar knows of the producer is known then.

        A gap before the batch is not believed before Pulsar was asked since the batch came: the name may have been lost
        without our knowing, and another bridge have written what is missing.
        """
        producer_id, epoch, sequence = batch
        came = loop_time()
        writer = self.use(producer_id, user)
        if writer is not None and writer.sequences.is_gap(epoch, sequence):
            await writer.settled()
            if writer.opened_at < came and writer.sequences.is_gap(epoch, sequence):
                self.drop(producer_id, writer)
            writer = self.use(producer_id, user)
        if writer is None:
            if self._closed:
                raise ClientClosed("the partition")
            # opened once however many ask; all go on in the order they came
            opening = self._opening.get(producer_id)
            if opening is None:
                opening = self._opening[producer_id] = asyncio.ensure_future(self._open(producer_id))
                opening.add_done_callback(partial(self._opened, producer_id))
            writer = await wait_shared(opening, ClientClosed("the partition"))
            self.use(producer_id, user)
        return writer

    def _opened(self, producer_id: int, opening: "asyncio.Future[Writer]") -> None:
        self._opening.pop(producer_id, None)
        retrieve_exception(opening)

    def is_taken(self, producer_id: int) -> bool:
        """Whether the writer cannot be opened because somebody else writes as this producer."""
        producer = self._producers.get(producer_id)
        return producer is not None and producer.last_error is not None and producer.last_error.code == pb.ProducerBusy

    def release(self, producer_id: int, user: int) -> None:
        """A client's connection is gone. Without any, the name is free for another bridge that its client turns to."""
        writer = self._writers.get(producer_id)
        if writer is not None:
            writer.users.discard(user)
            if not writer.users and not writer.busy:
                self.drop(producer_id, writer)

    def last(self) -> list[tuple[int, SequencePosition]]:
        """The producers whose writers are open, and the last place that each has taken."""
        found = ((producer_id, writer.sequences.last) for producer_id, writer in self._writers.items())
        return [(producer_id, place) for producer_id, place in found if place is not None]

    def drop(self, producer_id: int, writer: Writer) -> None:
        """Close a writer whose sends fail, or that is idle: the next batch asks Pulsar anew what is stored."""
        if self._writers.get(producer_id) is writer:
            del self._writers[producer_id]
            task = asyncio.get_running_loop().create_task(writer.producer.close(flush=False))
            self._closing[producer_id] = task
            task.add_done_callback(lambda _: self._closing.pop(producer_id, None))

    def sweep(self, now: float) -> None:
        """Close those that nobody uses, or has used for long, and the oldest of too many; `now`: loop time."""
        before = now - _IDLE_SECONDS
        for producer_id, writer in list(self._writers.items()):
            unused = not writer.users or writer.used_at < before or len(self._writers) > _MOST_WRITERS
            if unused and not writer.busy:
                self.drop(producer_id, writer)

    async def close(self) -> None:
        """Close all; none is opened any more."""
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
        if closing is not None:  # Pulsar takes a name once at a time
            await asyncio.wait((closing,))
        producer = self._client.producer(self._topic, name=f"kafka-producer-{producer_id}", must_exist=True)
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
