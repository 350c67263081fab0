"""Random histories of threads that copy records in transactions, with the offsets of what they read.

Each thread has a transactional id; all are of one group, which gives the input to one of them at a time. Two nodes hold
the slots of the coordinator and of the group, which move. A write has three steps: sent, stored, receipt seen. A node
may give up waiting for the receipt, and the write is stored all the same. A node that does not hold the coordinator's
slot follows it, lags, and may miss what a compaction has trimmed. `violations` says what is checked.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
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
    joined,
    timed_out,
)

STEPS: Final = 1000
THREADS: Final = 3
GROUP: Final = "copiers"
INNER: Final = 1 << 40
"""The connection of a node that asks another."""


class Rule(Enum):
    """What can be left out, to see that it is missed."""

    NO_GAP = auto()
    """A follower that finds a gap loads the slot again (I7)."""
    CLOSED = auto()
    """An id whose write has no known outcome is closed until it has one (I6)."""
    FRESH = auto()
    """Of protocol 1: a stamp is of a view as new as the request (I2)."""
    CONNECTIONS = auto()
    """Of protocol 1: at both coordinators only the newest connection counts (I5)."""
    GROUP_CONNECTIONS = auto()
    """The same at the group's coordinator alone (I5)."""
    TAKING = auto()
    """Of protocol 1: a connection from before the slot was taken does not count (I5)."""
    STABLE = auto()
    """OffsetFetch waits for what may still change (`require_stable`)."""
    CONFIRM = auto()
    """No answer from memory alone (I4)."""
    WRITE_AHEAD = auto()
    """Of protocol 2: the group is added before a pending offset is stored (I1)."""
    WHOLE_IDENTITY = auto()
    """The key of a pending offset names its transaction, not its producer alone."""
    UNKNOWN_IS_ASKED = auto()
    """An unknown producer counts as committed after a confirm only (I8)."""
    NEWEST_GENERATION = auto()
    """A member is checked against the newest generation, also one that is not stored yet (I9)."""
    EPOCH_FIRST = auto()
    """An InitProducerId of an older epoch aborts nothing (I10)."""


@dataclass(frozen=True)
class Request:
    """What a thread sends."""

    api: str
    thread: int = -1
    number: int = 0
    named: tuple[int, int] = (-1, -1)
    what: str = ""
    commit: bool = False
    sequence: int = 0
    value: int = 0
    generation: int = 0

    @property
    def goes_to(self) -> str:
        return {"produce": "leader", "offset": "group", "fetch": "group"}.get(self.api, "coordinator")

    @property
    def transactional_id(self) -> str:
        return str(self.thread)


class Answer(NamedTuple):
    """What it is told; `offset` by a fetch, `generation` by the group."""

    error: ErrorCode
    named: tuple[int, int] = (-1, -1)
    offset: int = -1
    generation: int = 0


OK: Final = Answer(ErrorCode.NONE)
MOVED: Final = Answer(ErrorCode.NOT_COORDINATOR)
CLOSED: Final = Answer(ErrorCode.NETWORK_EXCEPTION)
AGAIN: Final = Answer(ErrorCode.CONCURRENT_TRANSACTIONS)
FENCED: Final = Answer(ErrorCode.PRODUCER_FENCED)
NOT_ADDED: Final = Answer(ErrorCode.INVALID_TXN_STATE)
NOT_A_MEMBER: Final = Answer(ErrorCode.ILLEGAL_GENERATION)
GAVE_UP: Final = Answer(ErrorCode.REQUEST_TIMED_OUT)
_RETRIED: Final = (MOVED, CLOSED, AGAIN)

Reply: TypeAlias = Callable[[Answer], None]
Done: TypeAlias = Callable[[bool | None], None]
Program: TypeAlias = Generator[Request, Answer, None]


class Message(NamedTuple):
    """A request under way."""

    thread: Thread
    request: Request
    node: int
    connection: int


class Append(NamedTuple):
    """An entry under way to the output."""

    request: Request
    identity: Identity
    reply: Reply


class Generation(NamedTuple):
    """The group's generation, and the thread that has the input in it."""

    number: int
    thread: int


class Offset(NamedTuple):
    """An offset at its place in the group's slot; None: a plain commit."""

    identity: Identity | None
    offset: int
    place: int


_NOBODY: Final = Identity(0, 0, 0)
_NO_GENERATION: Final = Generation(0, -1)


@dataclass(frozen=True)
class GroupRecord:
    """One of the group's slot: a generation, or the offset of a transaction."""

    generation: Generation | None = None
    key: Identity | int = 0
    identity: Identity = _NOBODY
    offset: int = 0


@dataclass
class GroupState:
    """What the group's records make."""

    generation: Generation = _NO_GENERATION
    pending: dict[Identity | int, Offset] = field(default_factory=dict)

    def apply(self, record: GroupRecord, place: int) -> None:
        if record.generation is not None:
            self.generation = record.generation
        else:
            self.pending[record.key] = Offset(record.identity, record.offset, place)

    def in_order(self) -> list[Offset]:
        return sorted(self.pending.values(), key=lambda each: each.place)


@dataclass(eq=False)
class Holding:
    """What a node believes to hold."""

    generation: int
    since: int
    """The newest connection when it was taken."""
    connections: dict[str, int] = field(default_factory=dict)

    def refuses(self, world: World, request: Request, connection: int) -> bool:
        """I5."""
        if world.keeps(Rule.TAKING) and connection <= self.since:
            return True
        if connection < self.connections.get(request.transactional_id, 0):
            return True
        self.connections[request.transactional_id] = connection
        return False


@dataclass(eq=False)
class Coordinating(Holding):
    """The coordinator's slot: its state is the node's view."""

    newest: dict[str, tuple[Write, TransactionRecord]] = field(default_factory=dict)
    """By id what was submitted last and has no receipt yet."""
    closed: dict[str, Write] = field(default_factory=dict)


@dataclass(eq=False)
class GroupHolding(Holding):
    """The group's slot."""

    state: GroupState = field(default_factory=GroupState)
    newest: Generation = _NO_GENERATION
    """Also what is not stored yet."""


@dataclass(eq=False)
class Write:
    """An entry under way to a slot."""

    node: int
    holding: Holding
    done: Done
    entry: Records = ()
    transactional_id: str = ""
    group_record: GroupRecord | None = None
    place: int | None = None
    """Where it is stored."""
    given_up: bool = False


class World:
    """Everything: see the module."""

    def __init__(self, seed: int, protocol: int, off: frozenset[Rule] = frozenset()) -> None:
        self.chance, self.protocol, self.off = random.Random(seed), protocol, off
        self._impatience = (0, 0.02, 0.05)[seed % 3]
        """How often clients do not wait for an answer."""
        self.log, self.group_log = Log[Records](), Log[GroupRecord]()
        self.output: list[tuple[Identity, int]] = []
        self.sequences: dict[int, tuple[int, int]] = {}
        self.connections = 0
        self.producer_ids = 100
        self.views = [View(self.log), View(self.log)]
        self.coordinating: list[Coordinating | None] = [None, None]
        self.groups: list[GroupHolding | None] = [None, None]
        self.writes: list[Write] = []
        self.appends: list[Append] = []
        self.messages: list[Message] = []
        if seed % 2:
            for thread in range(THREADS):
                begin(self.log, str(thread), thread + 1, (32_760, 32_766)[seed % 4 // 2])
        self.take(0)
        self.take_group(0)
        self.threads = [Thread(self, number) for number in range(THREADS)]
        self.readers = [Reader(self, node) for node in range(2)]

    def keeps(self, rule: Rule) -> bool:
        return rule not in self.off

    def new_connection(self) -> int:
        self.connections += 1
        return self.connections

    def new_producer_id(self) -> int:
        self.producer_ids += 1
        return self.producer_ids

    # ---- slots and writes --------------------------------------------------------------------------------------------

    def take(self, node: int) -> None:
        self.coordinating[node] = Coordinating(self.log.take(node), self.connections)
        self.views[node].load()

    def take_group(self, node: int) -> None:
        held = GroupHolding(self.group_log.take(node), self.connections, state=self.group_state())
        held.newest = held.state.generation
        self.groups[node] = held

    def group_state(self) -> GroupState:
        state = GroupState()
        for place, record in enumerate(self.group_log.entries):
            state.apply(record, place)
        return state

    def write_on(self, place: int) -> None:
        """A step of a write. One producer's are stored, and their receipts seen, in order."""
        holding = self.writes[place].holding
        write = next(each for each in self.writes if each.holding is holding)
        if write.place is not None:
            self.writes.remove(write)
            self._receipt(write, write.place)
            return
        log = self.log if isinstance(holding, Coordinating) else self.group_log
        if holding.generation != log.generation:
            self.writes.remove(write)
            self.lose(write.node, holding)
            if not write.given_up:
                write.done(False)
            return
        write.place = len(log.entries)
        if write.group_record is None:
            self.log.entries.append(write.entry)
        else:
            self.group_log.entries.append(write.group_record)

    def _receipt(self, write: Write, place: int) -> None:
        holding = write.holding
        if isinstance(holding, Coordinating):
            self.views[write.node].receipt(place, write.entry)
            if holding.closed.get(write.transactional_id) is write:
                del holding.closed[write.transactional_id]
            newest = holding.newest.get(write.transactional_id)
            if newest is not None and newest[0] is write:
                del holding.newest[write.transactional_id]
        elif isinstance(holding, GroupHolding) and write.group_record is not None:
            holding.state.apply(write.group_record, place)
        if not write.given_up:
            write.done(True)

    def lose(self, node: int, holding: Holding) -> None:
        if self.coordinating[node] is holding:
            self.coordinating[node] = None
        if self.groups[node] is holding:
            self.groups[node] = None

    def give_up_a_write(self) -> None:
        writes = [write for write in self.writes if not write.given_up]
        if not writes:
            return
        write = self.chance.choice(writes)
        write.given_up = True
        write.done(None)
        if isinstance(write.holding, Coordinating):
            if self.keeps(Rule.CLOSED):
                write.holding.closed[write.transactional_id] = write
            else:
                write.holding.newest.pop(write.transactional_id, None)

    # ---- what a node knows -------------------------------------------------------------------------------------------

    def follow(self, node: int, entries: int | None = None) -> None:
        """Read some entries, or all; one that holds the slot knows what it has receipts of."""
        holding = self.coordinating[node]
        if holding is not None:
            if holding.generation == self.log.generation:
                return
            self.lose(node, holding)
        self.views[node].read(entries, gaps=not self.keeps(Rule.NO_GAP))

    def outcome(self, node: int, identity: Identity) -> Outcome:
        found = self.views[node].outcome(identity)
        if found is None and self.keeps(Rule.UNKNOWN_IS_ASKED):
            self.follow(node)
            found = self.views[node].outcome(identity)
        return Outcome.COMMITTED if found is None else found

    def is_confirmed(self, node: int, holding: Holding, log: Log[Records] | Log[GroupRecord]) -> bool:
        if self.keeps(Rule.CONFIRM) and holding.generation != log.generation:
            self.lose(node, holding)
            return False
        return True

    # ---- the coordinator ---------------------------------------------------------------------------------------------

    def coordinate(self, node: int, request: Request, connection: int, reply: Reply) -> None:
        holding, key = self.coordinating[node], request.transactional_id
        if holding is None:
            return reply(MOVED)
        if key in holding.closed or self._is_concurrent(holding, request):
            return reply(AGAIN)
        if self.protocol == 1 and connection < INNER and request.api != "init" and self.keeps(Rule.CONNECTIONS):
            if holding.refuses(self, request, connection):
                return reply(CLOSED)
        elif request.api == "init":
            holding.connections[key] = connection
        newest = holding.newest.get(key)
        record = self.views[node].slot.records.get(key) if newest is None else newest[1]
        change = self._change(record, request)
        answer = Answer(change.error, (change.producer_id, change.epoch))
        if change.record is not None:
            return self._submit(node, holding, key, record, change, lambda ok: reply(_answered(ok, answer)))
        if key in holding.newest:
            return reply(AGAIN)
        reply(answer if self.is_confirmed(node, holding, self.log) else MOVED)

    def _is_concurrent(self, holding: Coordinating, request: Request) -> bool:
        """I6: a decision waits for all before it, and nothing is begun before its receipt."""
        newest = holding.newest.get(request.transactional_id)
        return newest is not None and (request.api != "add" or newest[1].status is not Status.OPEN)

    def _change(self, record: TransactionRecord | None, request: Request) -> Change:
        if request.api == "init":
            named, is_open = request.named, record is not None and record.status is Status.OPEN
            if record is not None and is_open and named[0] >= 0 and not self.keeps(Rule.EPOCH_FIRST):
                named = named if named == (record.ended or ())[:2] else (record.producer_id, record.epoch)
            return initialized(record, named, self.new_producer_id())
        if request.api == "end":
            return ended(record, request.named, request.commit, self.protocol, self.new_producer_id())
        if request.what == GROUP:
            return joined(record, request.named, GROUP, self.protocol)
        return added(record, request.named, 0, len(self.output), self.protocol)

    def _submit(
        self, node: int, holding: Coordinating, key: str, record: TransactionRecord | None, change: Change, done: Done
    ) -> None:
        assert change.record is not None
        entry = entry_of(self.views[node].aborted, key, record, change)
        write = Write(node, holding, done, entry, key)

        def is_done(ok: bool | None) -> None:
            newest = holding.newest.get(key)
            if ok is not None and newest is not None and newest[0] is write:
                del holding.newest[key]
            done(ok)

        write.done = is_done
        holding.newest[key] = (write, change.record)
        self.writes.append(write)

    def time_out(self, node: int) -> None:
        holding = self.coordinating[node]
        if holding is None:
            return
        for key, record in list(self.views[node].slot.open_records()):
            if key not in holding.newest and key not in holding.closed and self.chance.random() < 0.5:
                change = timed_out(record, self.new_producer_id())
                self._submit(node, holding, key, record, change, lambda ok: None)

    # ---- the leader of the output ------------------------------------------------------------------------------------

    def _ask(self, node: int, request: Request, what: str, then: Callable[[], None], reply: Reply) -> None:
        """Of protocol 2: the coordinator adds the partition or the group first."""
        asked = next((each for each in (0, 1) if self.coordinating[each] and self.chance.random() < 0.8), node)
        question = replace(request, api="add", what=what)
        self.coordinate(asked, question, INNER, lambda answer: then() if answer.error == 0 else reply(answer))

    def _stamp(self, node: int, request: Request, what: str) -> Identity | Answer:
        """Of protocol 1: the table tells which transaction it is."""
        if self.keeps(Rule.FRESH):
            holding = self.coordinating[node]
            self.follow(node)
            if holding is not None and self.coordinating[node] is None:
                self.follow(node)
        record = self.views[node].slot.records.get(request.transactional_id)
        if record is None or record.producer_id != request.named[0] or record.epoch > request.named[1]:
            return FENCED
        is_named = GROUP in record.groups if what == GROUP else record.names("0a", 0)
        is_current = record.epoch == request.named[1] and record.status is Status.OPEN
        return record.identity if is_current and is_named else NOT_ADDED

    def produce(self, node: int, request: Request, reply: Reply) -> None:
        if self.protocol == 2:
            identity = Identity(*request.named, 0)
            self._ask(node, request, "", lambda: self.appends.append(Append(request, identity, reply)), reply)
            return
        stamp = self._stamp(node, request, "")
        if isinstance(stamp, Identity):
            self.appends.append(Append(request, stamp, reply))
        else:
            reply(stamp)

    def store(self, place: int) -> None:
        """Pulsar stores an append, unless its producer's sequences say that it has it."""
        request, identity, reply = self.appends.pop(place)
        producer_id, epoch = request.named
        last, sequence = self.sequences.get(producer_id), (epoch, request.sequence)
        if last is not None and sequence <= last:
            return reply(OK)
        if request.sequence != (last[1] + 1 if last is not None and last[0] == epoch else 0):
            return reply(Answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER))
        self.sequences[producer_id] = sequence
        self.output.append((identity, request.value))
        reply(OK)

    # ---- the group's coordinator -------------------------------------------------------------------------------------

    def commit_offset(self, node: int, request: Request, connection: int, reply: Reply) -> None:
        holding = self.groups[node]
        if holding is None:
            return reply(MOVED)
        guards = self.keeps(Rule.CONNECTIONS) and self.keeps(Rule.GROUP_CONNECTIONS)
        if self.protocol == 1 and guards and holding.refuses(self, request, connection):
            return reply(CLOSED)
        if self.protocol == 1:
            stamp = self._stamp(node, request, GROUP)
            return self._commit(node, holding, request, stamp, reply) if isinstance(stamp, Identity) else reply(stamp)
        identity = Identity(*request.named, 0)
        if not self.keeps(Rule.WRITE_AHEAD):
            return self._commit(node, holding, request, identity, reply)
        self._ask(node, request, GROUP, lambda: self._commit(node, holding, request, identity, reply), reply)

    def _commit(self, node: int, holding: GroupHolding, request: Request, identity: Identity, reply: Reply) -> None:
        if self.groups[node] is not holding:
            return reply(MOVED)
        generation = holding.newest if self.keeps(Rule.NEWEST_GENERATION) else holding.state.generation
        if generation != (request.generation, request.thread):
            return reply(NOT_A_MEMBER)
        key = identity if self.keeps(Rule.WHOLE_IDENTITY) else identity.producer_id
        record = GroupRecord(key=key, identity=identity, offset=request.value)
        self.writes.append(Write(node, holding, lambda ok: reply(_answered(ok, OK)), group_record=record))

    def fetch_offset(self, node: int, request: Request, reply: Reply) -> None:
        holding = self.groups[node]
        if holding is None or holding.generation != self.group_log.generation:
            self.groups[node] = None
            return reply(MOVED)
        if holding.state.generation != (request.generation, request.thread):
            return reply(NOT_A_MEMBER)
        found = 0
        for pending in holding.state.in_order():
            assert pending.identity is not None
            outcome = self.outcome(node, pending.identity)
            if outcome is Outcome.OPEN:
                self.follow(node)
                outcome = self.outcome(node, pending.identity)
            if outcome is Outcome.OPEN and self.keeps(Rule.STABLE):
                return reply(AGAIN)
            if outcome is Outcome.COMMITTED:
                found = pending.offset
        reply(Answer(ErrorCode.NONE, offset=found))

    def rebalance(self) -> None:
        node = self.group_log.owner
        holding = self.groups[node]
        if holding is not None:
            thread = self.chance.choice(self.threads)
            holding.newest = Generation(holding.newest.number + 1, thread.number)
            record = GroupRecord(generation=holding.newest)
            self.writes.append(Write(node, holding, lambda ok: None, group_record=record))

    def poll(self) -> None:
        """The group gives the input to the thread that waits for it."""
        holding = self.groups[self.group_log.owner]
        if holding is None or holding.state.generation.thread < 0:
            return
        thread = self.threads[holding.state.generation.thread]
        if thread.waiting.api == "poll":
            thread.next(Answer(ErrorCode.NONE, generation=holding.state.generation.number))

    # ---- requests ----------------------------------------------------------------------------------------------------

    def send(self, thread: Thread, request: Request) -> None:
        owners = {"coordinator": self.log.owner, "group": self.group_log.owner}
        right = owners.get(request.goes_to, self.chance.randrange(2))
        node = self.chance.randrange(2) if self.chance.random() < 0.15 else right
        before = thread.connections.get(request.goes_to)
        if before is None or before[0] != node:
            before = thread.connections[request.goes_to] = (node, self.new_connection())
        self.messages.append(Message(thread, request, node, before[1]))

    def deliver(self) -> None:
        """A message arrives: those of one connection in order."""
        if self.chance.random() < 0.4:
            place = self.chance.randrange(len(self.messages))
        else:
            place = -1 if self._impatience and self.chance.random() < 0.5 else 0
        connection = self.messages[place].connection
        self.arrive(next(each for each in self.messages if each.connection == connection))

    def arrive(self, message: Message) -> None:
        self.messages.remove(message)
        request, node = message.request, message.node

        def reply(answer: Answer) -> None:
            if self.chance.random() >= 0.08:
                message.thread.answered(message, answer)

        if request.api == "produce":
            self.produce(node, request, reply)
        elif request.api == "offset":
            self.commit_offset(node, request, message.connection, reply)
        elif request.api == "fetch":
            self.fetch_offset(node, request, reply)
        else:
            self.coordinate(node, request, message.connection, reply)

    # ---- a history ---------------------------------------------------------------------------------------------------

    def run(self) -> set[str]:
        for _ in range(STEPS):
            self._step(self.chance.random())
        return self.end()

    def _step(self, drawn: float) -> None:
        if self.messages and drawn < 0.42:
            self.deliver()
        elif self.writes and drawn < 0.66:
            self.write_on(self.chance.randrange(len(self.writes)))
        elif self.appends and drawn < 0.74:
            self.store(0 if self.chance.random() < 0.8 else self.chance.randrange(len(self.appends)))
        elif drawn < 0.75 + self._impatience:
            self.chance.choice(self.threads).lose_patience()
        elif drawn < 0.85:
            self._trouble(drawn)
        elif drawn < 0.86:
            entries = len(self.log.entries)
            trimmed = (
                entries if self.chance.random() < 0.3 else max(self.log.trimmed, entries - self.chance.randint(0, 6))
            )
            self.log.trimmed = trimmed
        elif drawn < 0.91:
            self.chance.choice(self.readers).read()
        else:
            self.poll()

    def _trouble(self, drawn: float) -> None:
        if drawn < 0.81:
            self.take(self.chance.randrange(2))
        elif drawn < 0.82:
            self.take_group(self.chance.randrange(2))
        elif drawn < 0.83:
            self.give_up_a_write()
        elif drawn < 0.837:
            self.time_out(self.log.owner)
        else:
            self.rebalance()

    def end(self) -> set[str]:
        """All that is under way arrives, and what is open is timed out."""
        while self.appends:
            self.store(0)
        while self.writes:
            self.write_on(0)
        self.take(0)
        self.take_group(0)
        for _ in range(50):
            self.time_out(0)
        while self.writes:
            self.write_on(0)
        for reader in self.readers:
            for _ in range(3):
                self.follow(reader.node)
                reader.read()
        return violations(self)


def _answered(ok: bool | None, answer: Answer) -> Answer:
    return AGAIN if ok is None else answer if ok else MOVED


class Reader:
    """A reader of the committed output."""

    def __init__(self, world: World, node: int) -> None:
        self._world, self.node = world, node
        self.position, self.seen = 0, list[int]()

    def read(self) -> None:
        world = self._world
        if world.chance.random() < 0.7:
            world.follow(self.node, world.chance.randint(0, 3))
        while self.position < len(world.output):
            identity, value = world.output[self.position]
            outcome = world.outcome(self.node, identity)
            if outcome is Outcome.OPEN:
                return
            if outcome is Outcome.COMMITTED:
                self.seen.append(value)
            self.position += 1


class Thread:
    """An application's thread: it takes what the group gives it, and copies records in transactions."""

    def __init__(self, world: World, number: int) -> None:
        self._world, self.number = world, number
        self.connections: dict[str, tuple[int, int]] = {}
        self._requests, self._tries = 0, 0
        self._named, self._sequence = (-1, -1), 0
        self._program = self._run()
        self.waiting = Request("")
        self._wait(next(self._program))

    def next(self, answer: Answer) -> None:
        self._wait(self._program.send(answer))

    def _wait(self, request: Request) -> None:
        self._requests += 1
        self._tries = 0
        self.waiting = replace(request, thread=self.number, number=self._requests)
        if request.api != "poll":
            self._world.send(self, self.waiting)

    def answered(self, message: Message, answer: Answer) -> None:
        target = message.request.goes_to
        if self.waiting != message.request or self.connections.get(target, (0, 0))[1] != message.connection:
            return
        if answer not in _RETRIED:
            return self.next(answer)
        if answer != AGAIN:
            del self.connections[target]
        self._tries += 1
        if self._tries > 12 and self.waiting.api in ("produce", "offset"):
            return self.next(GAVE_UP)
        self._world.send(self, self.waiting)

    def lose_patience(self) -> None:
        """No answer: again on a new connection, or given up."""
        if self.waiting.api == "poll":
            return
        self.connections.pop(self.waiting.goes_to, None)
        self._tries += 1
        if self._tries >= 3 and self.waiting.api != "init":
            return self.next(GAVE_UP)
        self._world.send(self, self.waiting)

    def _run(self) -> Program:
        while True:
            while not (yield from self._initialize((-1, -1))):
                pass
            is_fenced = False
            while not is_fenced:
                polled = yield Request("poll")
                position = yield from self._fetch(polled.generation)
                while position is not None and not is_fenced:
                    is_fenced, position = yield from self._transaction(polled.generation, position)

    def _initialize(self, named: tuple[int, int]) -> Generator[Request, Answer, bool]:
        answer = yield Request("init", named=named)
        self._named, self._sequence = answer.named, 0
        return answer.error == ErrorCode.NONE

    def _fetch(self, generation: int) -> Generator[Request, Answer, int | None]:
        """The committed offset; None: another has the input now."""
        while True:
            answer = yield Request("fetch", generation=generation)
            if answer.error == ErrorCode.NONE:
                return answer.offset
            if answer == NOT_A_MEMBER:
                return None

    def _transaction(self, generation: int, position: int) -> Generator[Request, Answer, tuple[bool, int | None]]:
        """Whether the thread is fenced, and where it goes on; None: what the group says."""
        chance, count = self._world.chance, self._world.chance.randint(1, 2)
        good = yield from self._copy(generation, position, count)
        if good is None:
            return True, None
        commit = good and chance.random() < 0.85
        answer = yield Request("end", named=self._named, commit=commit)
        if answer == GAVE_UP:  # what became of it the committed offset tells
            return not (yield from self._initialize(self._named)), None
        if answer.error != ErrorCode.NONE:
            return True, None
        if self._world.protocol == 2:
            self._named, self._sequence = answer.named, 0
        elif not good and not (yield from self._initialize(self._named)):
            return True, None
        if commit:
            return False, position + count
        return False, None if chance.random() < 0.5 or not good else position

    def _copy(self, generation: int, position: int, count: int) -> Generator[Request, Answer, bool | None]:
        """Whether all of it was acknowledged; None: the thread is fenced."""
        adds = self._world.protocol == 1
        steps = [Request("add")] if adds else []
        steps += [Request("produce", value=position + each, sequence=self._sequence + each) for each in range(count)]
        steps += [Request("add", what=GROUP)] if adds else []
        steps.append(Request("offset", value=position + count, generation=generation))
        for step in steps:
            if step.api == "produce":
                self._sequence += 1
            answer = yield replace(step, named=self._named)
            if answer.error != ErrorCode.NONE:
                return None if answer.error == ErrorCode.PRODUCER_FENCED else False
        return True


def violations(world: World) -> set[str]:
    """What no history may show: each input record is copied once, together with its offset."""
    final = View(world.log)
    final.load()

    def is_committed(identity: Identity | None) -> bool:
        return identity is not None and final.outcome(identity) in (None, Outcome.COMMITTED)

    visible = [value for identity, value in world.output if is_committed(identity)]
    offsets = [pending.offset for pending in world.group_state().in_order() if is_committed(pending.identity)]
    committed, bad = set(range(offsets[-1] if offsets else 0)), set()
    if len(set(visible)) != len(visible):
        bad.add("copied twice")
    if not committed <= set(visible):
        bad.add("offset committed, record missing")
    if not set(visible) <= committed:
        bad.add("record visible, offset not committed")
    for reader in world.readers:
        if reader.position != len(world.output):
            bad.add("last stable offset stuck")
        elif reader.seen != visible:
            bad.add("a reader saw something else than the outcome")
    return bad
