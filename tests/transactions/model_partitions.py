"""Random histories of one transactional id that writes to two partitions.

Instances of a client fence each other. Two nodes have old views of the coordinator's log, and do not notice that the
other took it over. Requests are delayed, repeated on other connections, and lost; appends are stored late. Retention
takes entries away, and the holder forgets aborted transactions of which nothing is left. `violations` says what is
checked.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, NamedTuple, TypeAlias

from bridge.kafka.error_codes import ErrorCode
from bridge.storage.visibility import Identity, Outcome
from bridge.transactions.state import Change, Status, TransactionRecord
from tests.transactions.model_slot import (
    Log,
    Records,
    View,
    added,
    begin,
    ended,
    entry_of,
    initialized,
    pruned,
    timed_out,
)

STEPS: Final = 400
PARTITIONS: Final = (0, 1)
ID: Final = "writer"
INNER: Final = 1 << 40
"""The connection of a node that asks another."""


class Rule(Enum):
    """What can be left out, to see that it is missed."""

    WRITE_AHEAD = auto()
    """Of protocol 2: the partition is added before its entry is appended (I1)."""
    FRESH = auto()
    """Of protocol 1: an entry is stamped by a view that is as new as the request (I2)."""
    CONFIRM = auto()
    """No answer from memory alone (I4)."""
    CONNECTIONS = auto()
    """Of protocol 1: only the newest connection counts (I5)."""
    TAKING = auto()
    """Of protocol 1: a connection from before the slot was taken does not count (I5)."""
    NOTHING_LEFT = auto()
    """An aborted transaction is forgotten only when no entry of it is left."""
    NOTHING_COMES = auto()
    """Nor can come: in life a day has gone by, here no append of it is under way."""


@dataclass(frozen=True)
class Request:
    """What a client sends."""

    api: str
    named: tuple[int, int] = (-1, -1)
    partition: int = 0
    commit: bool = False
    sequence: int = 0
    value: int = 0


class Answer(NamedTuple):
    """What it is told."""

    error: ErrorCode
    named: tuple[int, int] = (-1, -1)


GAVE_UP: Final = Answer(ErrorCode.REQUEST_TIMED_OUT)
Client: TypeAlias = Generator[Request, Answer, None]


class Message(NamedTuple):
    """A request under way."""

    sender: Instance
    request: Request
    connection: int
    node: int


class Append(NamedTuple):
    """An entry under way to its partition."""

    message: Message
    identity: Identity


@dataclass
class Told:
    """What a client knows of a transaction."""

    values: list[int] = field(default_factory=list)
    outcome: str = "open"
    asked_to_commit: bool = False


class World:
    """Everything: see the module."""

    def __init__(self, seed: int, protocol: int, off: frozenset[Rule] = frozenset()) -> None:
        self.chance, self.protocol, self.off = random.Random(seed), protocol, off
        self.log = Log[Records]()
        begin(self.log, ID, 1, (0, 32_760, 32_765, 32_766)[seed % 4])
        self.partitions: dict[int, list[tuple[Identity, int]]] = {partition: [] for partition in PARTITIONS}
        self.starts = dict.fromkeys(PARTITIONS, 0)
        """What is before is gone."""
        self.retention = random.Random(~seed)
        """Apart, so that what else happens does not hang on it."""
        self.aborted: set[Identity] = set()
        self.prunings = 0
        self.sequences: dict[tuple[int, int], tuple[int, int]] = {}
        """Pulsar's deduplication: by producer and partition the last epoch and sequence."""
        self.connections, self.producer_ids, self.values = 0, 1, 0
        self.messages: list[Message] = []
        self.appends: list[Append] = []
        self.told: list[Told] = []
        self.nodes = [Node(self, number) for number in range(2)]
        self.take(0)
        self.instances = [Instance(self)]
        self.readers = [Reader(self, partition) for partition in PARTITIONS for _ in range(2)]

    def keeps(self, rule: Rule) -> bool:
        return rule not in self.off

    def new_connection(self) -> int:
        self.connections += 1
        return self.connections

    def new_producer_id(self) -> int:
        self.producer_ids += 1
        return self.producer_ids

    def take(self, number: int) -> None:
        """A node becomes the holder; the one before does not notice."""
        node = self.nodes[number]
        node.generation, node.taken_at = self.log.take(number), self.connections
        node.memory = View(self.log)
        node.memory.load()
        node.view.read()

    def run(self) -> set[str]:
        for _ in range(STEPS):
            self._step(self.chance.random())
        for instance in self.instances:
            instance.waiting = None
        while self.appends:
            self._store()
        self.take(0)
        self.nodes[0].time_out()
        for reader in self.readers:
            reader.finish()
        return violations(self)

    def _step(self, drawn: float) -> None:
        self._retain()
        if self.messages and drawn < 0.45:
            self._deliver()
        elif self.appends and drawn < 0.7:
            self._store()
        elif drawn < 0.76:
            for instance in self.instances:
                if instance.waiting is not None and self.chance.random() < 0.3:
                    instance.lose_patience()
        elif drawn < 0.79:
            self.take(self.chance.randrange(2))
        elif drawn < 0.8 and len(self.instances) < 4:
            self.instances.append(Instance(self))
        elif drawn < 0.82:
            self.nodes[self.log.owner].time_out()
        elif drawn < 0.825:
            self.log.trimmed = self.chance.randint(self.log.trimmed, len(self.log.entries))
        else:
            self.chance.choice(self.readers).step(opens=drawn < 0.85)

    def _retain(self) -> None:
        drawn = self.retention.random()
        if drawn < 0.02:
            partition = self.retention.choice(PARTITIONS)
            self.starts[partition] = self.retention.randint(self.starts[partition], len(self.partitions[partition]))
        elif drawn < 0.04:
            self.nodes[self.log.owner].prune()

    def is_left(self, identity: Identity) -> bool:
        """Whether there may ever be an entry of a transaction from now on."""
        stored = (entries[self.starts[partition] :] for partition, entries in self.partitions.items())
        if self.keeps(Rule.NOTHING_LEFT) and any(one == identity for entries in stored for one, _ in entries):
            return True
        return self.keeps(Rule.NOTHING_COMES) and any(append.identity == identity for append in self.appends)

    def _deliver(self) -> None:
        place = self.chance.randrange(len(self.messages)) if self.chance.random() < 0.5 else 0
        connection = self.messages[place].connection
        message = next(each for each in self.messages if each.connection == connection)  # in order
        self.messages.remove(message)
        node = self.nodes[message.node]
        if message.request.api == "produce":
            answer = node.produce(message)
        else:
            answer = node.coordinate(message.request, message.connection)
        if answer is not None:
            self._reply(message, answer)

    def _reply(self, message: Message, answer: Answer) -> None:
        sender = message.sender
        is_lost = self.chance.random() < 0.1
        if is_lost or sender.waiting != message.request or sender.connection != message.connection:
            return
        if answer.error == ErrorCode.NOT_COORDINATOR:
            sender.send()
        else:
            sender.answered(answer)

    def _store(self) -> None:
        """Pulsar stores an append: those of one partition in their order."""
        place = self.chance.randrange(len(self.appends))
        partition = self.appends[place].message.request.partition
        append = next(each for each in self.appends if each.message.request.partition == partition)
        self.appends.remove(append)
        self._reply(append.message, self._stored(append))

    def _stored(self, append: Append) -> Answer:
        request = append.message.request
        producer_id, epoch = request.named
        last = self.sequences.get((producer_id, request.partition))
        place = (epoch, request.sequence)
        if last is not None and place <= last:
            return Answer(ErrorCode.NONE)
        if request.sequence != (last[1] + 1 if last is not None and last[0] == epoch else 0):
            return Answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        self.sequences[producer_id, request.partition] = place
        self.partitions[request.partition].append((append.identity, request.value))
        return Answer(ErrorCode.NONE)


class Node:
    """A node of the bridge: it may believe to hold the slot, and it reads it."""

    def __init__(self, world: World, number: int) -> None:
        self._world = world
        self.generation: int | None = None
        self.taken_at = 0
        """The newest connection then."""
        self.memory = View(world.log)
        self.view = View(world.log)
        self._newest_connection = 0

    def coordinate(self, request: Request, connection: int) -> Answer | None:
        """The coordinator's answer; None: the connection is closed."""
        world = self._world
        if self.generation is None:
            return Answer(ErrorCode.NOT_COORDINATOR)
        if request.api != "init" and connection < INNER and not self._admits(connection):
            return None
        record = self.memory.slot.records[ID]
        change = self._change(record, request)
        if change.record is not None:
            if not self._store(record, change):
                return Answer(ErrorCode.NOT_COORDINATOR)
        elif world.keeps(Rule.CONFIRM) and self.generation != world.log.generation:
            self.generation = None
            return Answer(ErrorCode.NOT_COORDINATOR)
        return Answer(change.error, (change.producer_id, change.epoch))

    def _admits(self, connection: int) -> bool:
        world, newest = self._world, self._newest_connection
        if world.keeps(Rule.CONNECTIONS) and connection < newest:
            return False
        self._newest_connection = connection
        return not (world.protocol == 1 and world.keeps(Rule.TAKING) and connection <= self.taken_at)

    def _change(self, record: TransactionRecord, request: Request) -> Change:
        world = self._world
        if request.api == "init":
            return initialized(record, request.named, world.new_producer_id())
        if request.api == "add":
            stored = len(world.partitions[request.partition])
            first = world.chance.randint(0, stored) if world.chance.random() < 0.5 else stored
            return added(record, request.named, request.partition, first, world.protocol)
        return ended(record, request.named, request.commit, world.protocol, world.new_producer_id())

    def _store(self, record: TransactionRecord, change: Change) -> bool:
        """Only the holder's producer can."""
        log = self._world.log
        if self.generation != log.generation:
            self.generation = None
            return False
        log.entries.append(entry_of(self.memory.aborted, ID, record, change))
        self.memory.read()
        if change.aborted is not None:
            self._world.aborted.add(change.aborted)
        return True

    def prune(self) -> None:
        """Forget what nothing is left of; only the holder can."""
        log = self._world.log
        if self.generation == log.generation and (gone := pruned(self.memory.aborted, self._world.is_left)):
            log.entries.append(gone)
            self.memory.read()
            self._world.prunings += 1

    def time_out(self) -> None:
        record = self.memory.slot.records[ID]
        if self.generation is not None and record.status is Status.OPEN:
            self._store(record, timed_out(record, self._world.new_producer_id()))

    def produce(self, message: Message) -> Answer | None:
        """None: the entry is under way."""
        stamp = self._asked(message) if self._world.protocol == 2 else self._stamped(message)
        if isinstance(stamp, Identity):
            self._world.appends.append(Append(message, stamp))
            return None
        return stamp

    def _asked(self, message: Message) -> Identity | Answer | None:
        """Of protocol 2: the coordinator adds the partition."""
        world, request = self._world, message.request
        if world.keeps(Rule.WRITE_AHEAD):
            holder = next(node for node in (self, *world.nodes) if node.generation is not None or node is not self)
            question = Request("add", request.named, request.partition)
            answer = holder.coordinate(question, INNER)
            if answer is None or answer.error != ErrorCode.NONE:
                return answer
        return Identity(*request.named, 0)

    def _stamped(self, message: Message) -> Identity | Answer:
        """Of protocol 1: the table tells which transaction it is."""
        if self._world.keeps(Rule.FRESH):
            self.view.read()
            view = self.view
        else:
            view = self.view if self.generation is None else self.memory
        record, request = view.slot.records.get(ID), message.request
        if record is None or record.producer_id != request.named[0]:
            return Answer(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if record.epoch > request.named[1]:
            return Answer(ErrorCode.PRODUCER_FENCED)
        is_current = record.epoch == request.named[1] and record.status is Status.OPEN
        return record.identity if is_current and record.names("0a", request.partition) else _NOT_ADDED


_NOT_ADDED: Final = Answer(ErrorCode.INVALID_TXN_STATE)


class Instance:
    """One of a producer's instances. It sends one request after the other."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.connection = world.new_connection()
        self.waiting: Request | None = None
        self._tries, self._node = 0, -1
        self._named = (-1, -1)
        self._sequences: Counter[int] = Counter()
        self._program = self._run()
        self._next(None)

    def answered(self, answer: Answer) -> None:
        self._next(answer)

    def _next(self, answer: Answer | None) -> None:
        try:
            self.waiting = next(self._program) if answer is None else self._program.send(answer)
        except StopIteration:
            self.waiting = None
            return
        self._tries = 0
        self.send()

    def send(self) -> None:
        world = self._world
        node = world.chance.randrange(2) if world.chance.random() < 0.3 else world.log.owner
        if node != self._node:
            self._node, self.connection = node, world.new_connection()
        assert self.waiting is not None
        world.messages.append(Message(self, self.waiting, self.connection, node))

    def lose_patience(self) -> None:
        """No answer: again on a new connection, or given up."""
        self.connection = self._world.new_connection()
        self._tries += 1
        if self._tries < 3 or (self.waiting is not None and self.waiting.api == "init"):
            self.send()
        else:
            self._next(GAVE_UP)

    def _run(self) -> Client:
        if not (yield from self._initialize((-1, -1))):
            return
        while True:
            told = Told()
            self._world.told.append(told)
            good = yield from self._write(told)
            if good is None:
                told.outcome = "fenced"
                return
            commit = told.asked_to_commit = good and self._world.chance.random() < 0.6
            answer = yield Request("end", self._named, commit=commit)
            if answer == GAVE_UP:
                told.outcome = "unknown"
                if not (yield from self._initialize(self._named)):
                    return
                continue
            if answer.error != ErrorCode.NONE:
                told.outcome = "unknown"
                return
            told.outcome = "committed" if commit else "aborted"
            if self._world.protocol == 2:
                self._named, self._sequences = answer.named, Counter()
            elif not good and not (yield from self._initialize(self._named)):  # a new epoch (KIP-360)
                return

    def _initialize(self, named: tuple[int, int]) -> Generator[Request, Answer, bool]:
        answer = yield Request("init", named)
        self._named, self._sequences = answer.named, Counter()
        return answer.error == ErrorCode.NONE

    def _write(self, told: Told) -> Generator[Request, Answer, bool | None]:
        """Whether all of it was acknowledged; None: the instance is fenced."""
        chance, added_ones = self._world.chance, set()
        for _ in range(chance.randint(1, 3)):
            partition = chance.choice(PARTITIONS)
            if self._world.protocol == 1 and partition not in added_ones:
                answer = yield Request("add", self._named, partition)
                if answer.error != ErrorCode.NONE:
                    return False if answer == GAVE_UP else None
                added_ones.add(partition)
            self._world.values += 1
            told.values.append(self._world.values)
            sequence = self._sequences[partition]
            self._sequences[partition] += 1
            answer = yield Request("produce", self._named, partition, sequence=sequence, value=self._world.values)
            if answer.error != ErrorCode.NONE:
                return False if answer == GAVE_UP else None
        return True


class Reader:
    """A reader of committed records, on a node that knows of the slot what it has read."""

    def __init__(self, world: World, partition: int) -> None:
        self._world, self._partition = world, partition
        self._view = View(world.log)
        self.position, self.seen = 0, list[int]()
        self.missed: set[int] = set()
        """Offsets that were gone before it came to them."""
        self._open: dict[Identity, int] = {}
        self._end = 0
        self._open_end()

    def _open_end(self) -> None:
        """The end of the partition first, and then what is open."""
        self._end = len(self._world.partitions[self._partition])
        self._view.read()
        self._open = {}
        for _, record in self._view.slot.open_records():
            if record.names("0a", self._partition):
                self._open[record.identity] = record.firsts["0a", self._partition]

    def step(self, opens: bool = False) -> None:
        if opens:
            return self._open_end()
        chance, entries = self._world.chance, self._world.partitions[self._partition]
        if chance.random() < 0.5:
            self._view.read(chance.randint(0, 3))
        if self._end < len(entries) and chance.random() < 0.7:
            self._open.setdefault(entries[self._end][0], self._end)
            self._end += 1
        self._skip_what_is_gone()
        self._open = {each: first for each, first in self._open.items() if self._outcome(each) is Outcome.OPEN}
        last_stable = min([self._end, *self._open.values()])
        while self.position < last_stable:
            identity, value = entries[self.position]
            outcome = self._outcome(identity)
            if outcome is Outcome.OPEN:
                return
            if outcome is Outcome.COMMITTED:
                self.seen.append(value)
            self.position += 1

    def _skip_what_is_gone(self) -> None:
        start = self._world.starts[self._partition]
        if self.position < start:
            self.missed |= set(range(self.position, start))
            self.position, self._end = start, max(start, self._end)

    def finish(self) -> None:
        self._view.read()
        for _ in range(3000):
            if self.position == len(self._world.partitions[self._partition]):
                return
            self.step()

    def _outcome(self, identity: Identity) -> Outcome:
        found = self._view.outcome(identity)
        if found is None:  # asked again, freshly (I8)
            self._view.read()
            found = self._view.outcome(identity)
        return found or Outcome.COMMITTED


def violations(world: World) -> set[str]:
    """What no history may show."""
    final = View(world.log)
    final.load()
    visible = {
        partition: {
            offset: value
            for offset, (identity, value) in enumerate(entries)
            if identity not in world.aborted and final.outcome(identity) in (None, Outcome.COMMITTED)
        }
        for partition, entries in world.partitions.items()
    }
    bad = set()
    for reader in world.readers:
        there = visible[reader._partition]
        if reader.seen != [value for offset, value in there.items() if offset not in reader.missed]:
            bad.add("a reader saw something else than the outcome")
        if reader.position != len(world.partitions[reader._partition]):
            bad.add("last stable offset stuck")
    times = Counter(value for values in visible.values() for value in values.values())
    stored = {value for entries in world.partitions.values() for _, value in entries}
    for told in world.told:
        bad |= _broken_promises(told, times, stored)
    return bad


def _broken_promises(told: Told, times: Counter[int], stored: set[int]) -> set[str]:
    bad, seen = set(), [times[value] for value in told.values]
    if max(seen, default=0) > 1:
        bad.add("duplicate")
    if told.outcome == "committed" and not all(seen):
        bad.add("acknowledged commit lost or torn")
    if not told.asked_to_commit and any(seen):
        bad.add("aborted or never committed, yet visible")
    known = [times[value] for value in told.values if value in stored]
    if any(known) and not all(known):
        bad.add("torn")
    return bad
