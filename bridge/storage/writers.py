"""Idempotent producers' ways into one partition: each writes through a Pulsar producer named after its id (DESIGN D7).

Pulsar's deduplication keeps, by that name, the last sequence id it has stored: nothing of a producer's past is lost
with this process or a broker. In memory stand only the last batches, as in Kafka, for the offsets of repetitions.
"""

import asyncio
from collections import OrderedDict, deque

from bridge.pulsar.client import PulsarClient
from bridge.pulsar.producer import Producer
from bridge.storage.sequences import Place, Range, Sequences

_REMEMBERED = 5  # batches of a producer; Kafka's clients have no more under way
_MOST_WRITERS = 1000
_IDLE_SECONDS = 600.0


class Writer:
    """One producer id in one partition."""

    def __init__(self, producer: Producer) -> None:
        self.producer = producer
        self.sequences = Sequences(producer.last_sequence_id)
        self.used_at = 0.0
        self.answer: asyncio.Future[int] | None = None
        """The client's, to its newest batch."""
        self._recent: deque[tuple[Range, asyncio.Future[int]]] = deque(maxlen=_REMEMBERED)

    def remember(self, batch: Range, offset: "asyncio.Future[int]") -> None:
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

    def offset_of(self, batch: Range) -> "asyncio.Future[int] | None":
        """The base offset of a repeated batch, where it is among the last ones."""
        for known, offset in self._recent:
            if (known.first, known.last) == (batch.first, batch.last):
                return offset
        return None

    @property
    def busy(self) -> bool:
        """Whether something it sent has no outcome yet."""
        return any(not offset.done() for _, offset in self._recent)


def failed(answer: "asyncio.Future[int]") -> bool:
    """Whether an answer that is given is none with an offset."""
    return answer.cancelled() or answer.exception() is not None


class Writers:
    """The writers of one partition, opened when first needed."""

    def __init__(self, topic: str, client: PulsarClient) -> None:
        self._topic = topic
        self._client = client
        self._writers: OrderedDict[int, Writer] = OrderedDict()
        self._opening: dict[int, asyncio.Future[Writer]] = {}
        self._closing: dict[int, asyncio.Task[None]] = {}

    def get(self, producer_id: int) -> Writer | None:
        """The writer, if it is open."""
        return self._writers.get(producer_id)

    def use(self, producer_id: int) -> Writer | None:
        """The writer, if it is open, which it stays for some time now."""
        writer = self._writers.get(producer_id)
        if writer is not None:
            self._writers.move_to_end(producer_id)
            writer.used_at = asyncio.get_running_loop().time()
        return writer

    async def open(self, producer_id: int) -> Writer:
        """The writer, opened if need be: what Pulsar knows of the producer is known then."""
        writer = self.use(producer_id)
        if writer is None:
            # opened once however many ask; all go on in the order they came
            opening = self._opening.get(producer_id)
            if opening is None:
                opening = self._opening[producer_id] = asyncio.ensure_future(self._open(producer_id))
                opening.add_done_callback(lambda _: self._opening.pop(producer_id, None))
            writer = await asyncio.shield(opening)
            self.use(producer_id)
        return writer

    def last(self) -> list[tuple[int, Place]]:
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

    def sweep(self) -> None:
        """Close those that nobody has used for long, and the oldest of too many."""
        before = asyncio.get_running_loop().time() - _IDLE_SECONDS
        for producer_id, writer in list(self._writers.items()):
            if not writer.busy and (writer.used_at < before or len(self._writers) > _MOST_WRITERS):
                self.drop(producer_id, writer)

    async def close(self) -> None:
        """Close all."""
        for producer_id, writer in list(self._writers.items()):
            self.drop(producer_id, writer)
        for opening in list(self._opening.values()):
            opening.cancel()
        if self._closing:
            await asyncio.wait(self._closing.values())

    async def _open(self, producer_id: int) -> Writer:
        closing = self._closing.get(producer_id)
        if closing is not None:  # Pulsar takes a name once at a time
            await asyncio.wait((closing,))
        producer = self._client.producer(self._topic, name=f"kafka-producer-{producer_id}", must_exist=True)
        try:
            await producer.opened()
        except BaseException:
            await producer.close(flush=False)
            raise
        writer = self._writers[producer_id] = Writer(producer)
        return writer
