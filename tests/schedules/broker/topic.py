"""One topic of the model broker: who produces to it, who consumes from it, and what is between a send and its receipt.

The rules are Pulsar 4.0's (`PersistentTopic`, `AbstractTopic.incrementTopicEpochIfNeeded` and `internalAddProducer`,
`Producer`, `MessageDeduplication`); the numbers are measured. What an entry goes through:

    send ─▶ judged by deduplication ─▶ counted ─▶ on its way ─▶ stored ─┬─▶ receipt, after a delay
              │                                                         └─▶ consumers with permits, after another delay
              └─ a duplicate: receipt without a place, at once

Receipt and delivery race. Unloads and crashes lose what is on its way, or a part of it, by the seed.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Final

from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.protocol import parse_body
from bridge.pulsar.types import EARLIEST, Position
from tests.schedules.broker.consumers import Consumers
from tests.schedules.broker.ledgers import Ledgers, Stored, Verdict
from tests.schedules.broker.producers import Producer, Refusal

if TYPE_CHECKING:
    from tests.schedules.broker.peer import Peer
    from tests.schedules.broker.server import Broker

_NOT_STORED: Final = (1 << 64) - 1


class State(Enum):
    """Whether the broker serves a topic now."""

    UNLOADED = "unloaded"
    LOADING = "loading"
    LOADED = "loaded"
    CLOSING = "closing"
    DELETED = "deleted"


@dataclass(slots=True, eq=False)
class _Add:
    """A send on its way to the ledger."""

    producer: Producer
    sequence: int
    highest: int
    count: int
    index: int
    body: bytes
    metadata: pb.MessageMetadata


@dataclass(slots=True)
class _Loading:
    waiting: list[Callable[[Refusal | None], None]] = field(default_factory=list)


class Topic:
    """See the module."""

    def __init__(self, name: str, broker: "Broker", properties: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.short = name.rpartition("/")[2]
        self.properties = dict(properties or {})
        self.policies: dict[str, object] = {}
        self.log = Ledgers(broker.ledger_ids)
        self.state = State.UNLOADED
        self.producers: dict[str, Producer] = {}
        self.consumers = Consumers(self, broker)
        self._broker = broker
        self._trace = broker.trace
        self._adding: deque[_Add] = deque()
        self._stored_at = 0.0
        self._receipts_at: dict[Peer, float] = {}
        self._loading = _Loading()
        self._loads = 0  # events of a former load do nothing
        self._most_entries = broker.chance.choice((3, 10, 50, 50))
        self._rolling_over = False
        self._epoch: int | None = None
        self._has_exclusive = False
        self._claimant: Producer | None = None
        """Whose epoch was sent to the metadata store last."""
        self._waiting: deque[tuple[Producer, Callable[[Refusal | None], None]]] = deque()

    # --- loading and unloading --------------------------------------------------------------------------------------

    def when_loaded(self, then: Callable[[Refusal | None], None]) -> None:
        """Call back when the topic is loaded, which this begins if need be; with a refusal where it cannot be now."""
        if self.state is State.LOADED:
            then(None)
        elif self.state in (State.CLOSING, State.DELETED):
            then(Refusal(pb.ServiceNotReady, "Topic is temporarily unavailable"))
        else:
            self._loading.waiting.append(then)
            if self.state is State.UNLOADED:
                self.state = State.LOADING
                self._broker.after("load", self._loaded, self._loads)

    def _loaded(self, load: int) -> None:
        if load != self._loads:
            return
        self.log.load()
        self.log.deduplicates = self._broker.deduplicates or self._broker.namespace.has_deduplication(self)
        self.state = State.LOADED
        self._trace("pulsar", "= %s loaded, next index %d", self.short, self.log.counter + 1)
        waiting, self._loading = self._loading.waiting, _Loading()
        for then in waiting:
            then(None)

    def go_by_policies(self) -> None:
        """The broker does so some time after it has answered a change."""
        self.log.deduplicates |= self._broker.namespace.has_deduplication(self)

    def unload(self, then: Callable[[], None] = lambda: None) -> None:
        """Let go of the topic: its clients are told, what is on its way is lost from some entry on."""
        if self.state is not State.LOADED:
            then()
            return
        self._trace("pulsar", "= %s unloads", self.short)
        self.state = State.CLOSING
        self._cut_off(receipts=True)
        for producer in list(self.producers.values()):
            producer.connection.close_producer(producer)
            self._remove(producer)
        self._refuse_waiting()
        self._has_exclusive = False  # also one whose epoch is being stored: the next load is another object
        self.consumers.close()
        self._broker.after("unload", self._unloaded, self._loads, then)

    def _unloaded(self, load: int, then: Callable[[], None]) -> None:
        if load == self._loads and self.state is State.CLOSING:
            self.state = State.UNLOADED
        then()

    def crash(self) -> None:
        """The broker's process is gone."""
        self._cut_off(receipts=False)
        self.producers.clear()
        self._waiting.clear()
        self.consumers.forget()
        self._has_exclusive = False
        self._receipts_at.clear()
        self._loading = _Loading()
        if self.state is not State.DELETED:
            self.state = State.UNLOADED

    def delete(self) -> None:
        """The topic is deleted under its clients' hands."""
        self._trace("pulsar", "= %s deleted", self.short)
        self._cut_off(receipts=False)
        for producer in list(self.producers.values()):
            producer.connection.close_producer(producer)
            self._remove(producer)
        self._refuse_waiting()
        self.consumers.close()
        waiting, self._loading = self._loading.waiting, _Loading()
        self.state = State.DELETED
        for then in waiting:
            then(Refusal(pb.ServiceNotReady, "Topic is temporarily unavailable"))

    def _cut_off(self, *, receipts: bool) -> None:
        """What is on its way to the ledger is stored up to some entry, perhaps with receipts, and lost from there."""
        self._loads += 1
        adding, self._adding = self._adding, deque()
        for add in list(adding)[: self._broker.chance.randint(0, len(adding))]:
            self._store(add, receipt=receipts and self._broker.chance.often(0.5))
        self._trace("pulsar", "= %s cut off with %d sends on their way", self.short, len(adding))
        self._rolling_over = False

    def _refuse_waiting(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        for _, then in waiting:
            then(Refusal(pb.ServiceNotReady, "Topic is temporarily unavailable"))

    # --- who may produce --------------------------------------------------------------------------------------------

    def add_producer(self, producer: Producer, then: Callable[[Refusal | None], None]) -> None:
        """Let a producer in, or say why not."""
        producer.topic = self
        mode = producer.access_mode
        if mode == pb.Shared:
            if self._has_exclusive or self._waiting:
                then(Refusal(pb.ProducerBusy, "Topic has an existing exclusive producer"))
            else:
                self._add_by_name(producer, then)
            return
        taken = self._has_exclusive or bool(self._waiting) or bool(self.producers)
        if mode == pb.ExclusiveWithFencing:
            self._fence_out()
        elif mode == pb.WaitForExclusive and (self._has_exclusive or self.producers):
            self._waiting.append((producer, then))
            return
        elif taken:
            then(Refusal(pb.ProducerFenced, "Topic has an existing exclusive or shared producer"))
            return
        self._take_exclusively(producer, then)

    def _take_exclusively(self, producer: Producer, then: Callable[[Refusal | None], None]) -> None:
        """The new topic epoch goes to the metadata store; only then is this producer among the topic's."""
        if producer.topic_epoch is not None and producer.topic_epoch < (-1 if self._epoch is None else self._epoch):
            then(Refusal(pb.ProducerFenced, "Topic epoch has already moved"))
            return
        self._has_exclusive, self._claimant = True, producer
        self._broker.after("epoch", self._epoch_stored, self._loads, producer, then)

    def _epoch_stored(self, load: int, producer: Producer, then: Callable[[Refusal | None], None]) -> None:
        if load != self._loads:
            self._has_exclusive = self._has_exclusive and self._claimant is not producer
            then(Refusal(pb.ServiceNotReady, "Topic is temporarily unavailable"))
            return
        if producer.topic_epoch is None:
            producer.topic_epoch = 0 if self._epoch is None else self._epoch + 1
        self._epoch = producer.topic_epoch
        self._add_by_name(producer, then)

    def _fence_out(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        for _, then in waiting:
            then(Refusal(pb.ProducerFenced, "Fenced out"))
        for producer in list(self.producers.values()):
            self._trace("pulsar", "= %s fences %s out", self.short, producer.name)
            self.close_producer(producer, partial(producer.connection.forget_producer, producer))

    def _add_by_name(self, producer: Producer, then: Callable[[Refusal | None], None]) -> None:
        """A name is one session's: the old one's connection is asked for a sign of life (apache/pulsar#21155)."""
        old = self.producers.get(producer.name)
        if self.state is not State.LOADED:
            then(Refusal(pb.ServiceNotReady, "Topic is temporarily unavailable"))
        elif old is None:
            self.producers[producer.name] = producer
            then(None)
        elif old.connection is producer.connection and old.id == producer.id and old.epoch < producer.epoch:
            self._remove(old)
            self._add_by_name(producer, then)
        elif old.connection is producer.connection:
            then(self._busy(producer))
        else:
            old.connection.check_alive(
                lambda alive: then(self._busy(producer)) if alive else self._add_by_name(producer, then)
            )

    def _busy(self, producer: Producer) -> Refusal:
        self._trace("pulsar", "= %s refuses %s: the name is taken", self.short, producer.name)
        return Refusal(pb.ProducerBusy, f"Producer with name '{producer.name}' is already connected to topic")

    def close_producer(self, producer: Producer, then: Callable[[], None]) -> None:
        """Close in order: the name is free when everything sent before has its outcome."""
        producer.closed = True
        if producer.pending:
            producer.when_drained = lambda: self._drained(producer, then)
        else:
            self._drained(producer, then)

    def _drained(self, producer: Producer, then: Callable[[], None]) -> None:
        self._remove(producer)
        then()

    def drop_producer(self, producer: Producer) -> None:
        """Its connection is gone: the name is free at once, whatever is on its way."""
        producer.closed = True
        self._remove(producer)

    def _remove(self, producer: Producer) -> None:
        producer.closed = True
        if self.producers.get(producer.name) is not producer:
            return
        del self.producers[producer.name]
        if self._has_exclusive or not self.producers:
            self._has_exclusive = False
            if self._waiting:
                nearest, then = self._waiting.popleft()
                self._take_exclusively(nearest, then)

    # --- producing --------------------------------------------------------------------------------------------------

    def publish(self, producer: Producer, send: pb.CommandSend, body: bytes) -> None:
        """An entry has come."""
        highest = max(send.highest_sequence_id, send.sequence_id)
        if producer.closed or self.state is not State.LOADED:
            producer.connection.send_error(producer, highest, pb.PersistenceError, "Producer is closed")
            return
        limit = self.policies.get("maxMessageSize")
        if isinstance(limit, int) and len(body) > limit:
            producer.connection.send_error(producer, highest, pb.NotAllowedError, "Exceed maximum message size")
            return
        verdict = self.log.judge(producer.name, send.sequence_id, highest)
        first, what = send.sequence_id, verdict.value
        self._trace("pulsar", "< send %s %s %d…%d: %s", self.short, producer.name, first, highest, what)
        if verdict is Verdict.STORED:
            self._receipt(producer, send.sequence_id, highest, _NOT_STORED, _NOT_STORED)
        elif verdict is Verdict.UNKNOWN:
            text = "Cannot determine whether the message is a duplicate at this time"
            producer.connection.send_error(producer, highest, pb.PersistenceError, text)
        else:
            metadata = parse_body(memoryview(body)).metadata
            index = self.log.count(send.num_messages)
            add = _Add(producer, send.sequence_id, highest, send.num_messages, index, body, metadata)
            producer.pending += 1
            self._adding.append(add)
            self._schedule_store()

    def _schedule_store(self) -> None:
        now = self._broker.loop.now
        self._stored_at = max(self._stored_at, now + self._broker.chance.delay("store")) + 1e-9
        self._broker.at(self._stored_at, self._store_next, self._loads)

    def _go_on(self) -> None:
        for _ in range(len(self._adding)):
            self._schedule_store()

    def _store_next(self, load: int) -> None:
        """The oldest send on its way is stored, as far as there is a ledger to store it in."""
        if load != self._loads or not self._adding or self._rolling_over or self.log.is_closing:
            return
        if len(self.log.ledgers[-1].entries) >= self._most_entries:
            self._rolling_over = True
            self._broker.after("roll over", self._rolled_over, load)
            return
        add = self._adding.popleft()
        fills = len(self.log.ledgers[-1].entries) + 1 == self._most_entries
        position = self._store(add, receipt=not fills)
        if fills:
            self.log.is_closing = True
            self._broker.after("close", self._ledger_closed, load, add, position)

    def _ledger_closed(self, load: int, add: _Add, position: Position) -> None:
        if load != self._loads:
            return
        self.log.is_closing = False
        self._receipt(add.producer, add.sequence, add.highest, position.ledger, position.entry)
        self._go_on()

    def _rolled_over(self, load: int) -> None:
        if load != self._loads:
            return
        self._rolling_over = False
        self.log.roll_over()
        self._trace("pulsar", "= %s begins ledger %d", self.short, self.log.ledgers[-1].id)
        self._go_on()

    def _store(self, add: _Add, *, receipt: bool) -> Position:
        at_ms = self._broker.wall_ms()
        entry = Stored(
            EARLIEST, add.index, add.count, add.body, add.producer.name, add.sequence, add.highest, at_ms, add.metadata
        )
        position = self.log.store(entry)
        self._trace("pulsar", "= %s stores %s at %d…%d", self.short, position, entry.base, entry.index)
        producer = add.producer
        producer.pending -= 1
        if receipt:
            self._receipt(producer, add.sequence, add.highest, position.ledger, position.entry)
        if not producer.pending and producer.when_drained is not None:
            producer.when_drained()
        self.consumers.wake()
        return position

    def _receipt(self, producer: Producer, sequence: int, highest: int, ledger: int, entry: int) -> None:
        """Receipts of what is stored leave in order, after a while; those of duplicates at once, before them."""
        connection, now = producer.connection, self._broker.loop.now
        receipt = pb.CommandSendReceipt(producer_id=producer.id, sequence_id=sequence, highest_sequence_id=highest)
        receipt.message_id.ledger_id, receipt.message_id.entry_id = ledger, entry
        if ledger == _NOT_STORED:
            connection.send_receipt(receipt, producer.name)
            return
        at = now + self._broker.chance.delay("receipt")
        at = self._receipts_at[connection] = max(self._receipts_at.get(connection, 0.0), at) + 1e-9
        self._broker.at(at, connection.send_receipt, receipt, producer.name)

    def fail_writes(self) -> None:
        """The bookies refuse what is on its way: all of it has an error, and the producers have to come back."""
        if self.state is not State.LOADED:
            return
        adding, self._adding = self._adding, deque()
        for add in adding:
            add.producer.pending -= 1
            self.log.counter -= add.count
            add.producer.connection.send_error(add.producer, add.highest, pb.PersistenceError, "Bookie failed")
        self._loads += 1
        self._rolling_over = self.log.is_closing = False
        for producer in list(self.producers.values()):
            producer.connection.close_producer(producer)
            self._remove(producer)
        self.log.forget_pushed()
        self.log.roll_over()
