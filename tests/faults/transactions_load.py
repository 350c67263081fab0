"""Transactions under load: producers, copiers and readers at work through whatever happens, and the history of it.

Four producers append to a source, and one of Java's, where it is wanted. Two more take the same transactional id from
each other all the time, one ends its transactions about when their time is over, and one writes without any. Two
copiers read what is committed there and write it to a target with their offsets (read-process-write), readers of both
levels follow all of it, and one asks for the copiers' offsets all the time. Nothing here judges: `transactions_checker`
does.
"""

from __future__ import annotations

import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count, groupby
from pathlib import Path
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.clients.transactions.java import JavaTransactions
from tests.clients.transactions.model import Ended
from tests.faults.clients import Server, words
from tests.faults.processes import let_pass
from tests.faults.transactions_checker import Append, History, Outcome, Place, Poll, Reading, Span, Transaction
from tests.support.java import KAFKA

PRODUCERS, RIVALS, COPIERS, PARTITIONS = 4, 2, 2, 4
TIMEOUT_MS: Final = 10_000
"""Of a transaction: what is left open ends soon."""
_SHORT_TIMEOUT_MS: Final = 1000
_SECONDS: Final = 120.0
"""Nothing may take longer, whatever is killed meanwhile."""
_CALL_SECONDS: Final = 5.0
_ABORTS: Final = 0.2
"""So many of the transactions."""
_MOST: Final = 5
"""Records of a transaction."""
_BATCH: Final = 20
_PACE: Final = 0.01
_RIVALS_PACE: Final = 0.5
_LOOK_EVERY: Final = 0.05
_SETTLED_SECONDS: Final = 60.0
"""After the last end nothing may hold a last stable offset, or a group's, for longer."""
_LEVELS: Final = ("read_committed", "read_uncommitted")
_STAY: Final = {"metadata.recovery.strategy": "none"}
"""librdkafka 2.16 forgets all brokers when all are down at once, as when Pulsar is: its transactions then hang."""
Told = (KafkaException, SystemError)
"""What confluent-kafka raises; the second where a fatal error interrupts a delivery report."""


def _nothing(_: Any) -> None:
    """Each call tells its own errors; without an error_cb a fatal one makes a flush raise a bare SystemError."""


class Worker(threading.Thread, ABC):
    """A client in a thread of its own, which goes on until it is told to end."""

    def __init__(self, name: str, server: Server) -> None:
        super().__init__(name=name, daemon=True)
        self.server = {**words(server), **_STAY}
        self.failure = ""
        """Why it has given up."""
        self.errors: list[str] = []
        """What it was told, and went on from."""
        self._ended = threading.Event()

    @property
    def ended(self) -> bool:
        """Whether it shall end."""
        return self._ended.is_set()

    def run(self) -> None:
        try:
            self.work()
        except Exception as error:  # noqa: BLE001 — told to the test, which fails
            self.failure = f"{type(error).__name__}: {error}"

    def end(self) -> None:
        """End soon; `join` waits for it."""
        self._ended.set()

    @abstractmethod
    def work(self) -> None:
        """Go on until it is `ended`."""


class TransactionalWorker(Worker):
    """One transaction after the other, each noted with what its producer was told of its end."""

    def __init__(self, name: str, server: Server, transactional_id: str) -> None:
        super().__init__(name, server)
        self.transactions: list[Transaction] = []
        self.committed = 0
        self.timeout_ms = TIMEOUT_MS
        self._id = transactional_id
        self._numbers = count()
        self._producer: Any = None

    def value(self) -> str:
        """A value that nobody else writes."""
        return f"{self.name}:{next(self._numbers)}"

    def transact(
        self,
        appends: Sequence[Append],
        *,
        commits: bool = True,
        copied: Mapping[Place, Span] | None = None,
        send_offsets: Callable[[Any], None] = lambda _: None,
    ) -> Outcome:
        """Append these, and end so."""
        if self._producer is None:
            self._renew()
        outcome = self._outcome(appends, commits, send_offsets)
        self.transactions.append(Transaction(self.name, outcome, tuple(appends), dict(copied or {})))
        self.committed += outcome is Outcome.COMMITTED
        return outcome

    def _outcome(self, appends: Sequence[Append], commits: bool, send_offsets: Callable[[Any], None]) -> Outcome:
        """Without a commit that was asked for, nobody can have committed it."""
        asked = False
        try:
            self._producer.begin_transaction()
            for (topic, partition), value, _ in appends:
                self._producer.produce(topic, value, partition=partition)
            self._producer.flush(_SECONDS)
            send_offsets(self._producer)
            asked = commits
            _until_done(self._producer.commit_transaction if commits else self._producer.abort_transaction)
        except Told as error:
            self.errors.append(str(error))
            return self._after(error, asked)
        return Outcome.COMMITTED if commits else Outcome.ABORTED

    def _after(self, error: Exception, asked: bool) -> Outcome:
        """Abort where the client says so: what it then says is believed, for its user would do the work again."""
        if isinstance(error, KafkaException) and error.args[0].txn_requires_abort():
            try:
                _until_done(self._producer.abort_transaction)
            except Told as another:
                self.errors.append(str(another))
            else:
                return Outcome.ABORTED
        self._producer = None
        return Outcome.UNKNOWN if asked else Outcome.ABORTED

    def _renew(self) -> None:
        """A new instance: what the last one had open is aborted, or was committed."""
        config = {
            "transactional.id": self._id,
            "transaction.timeout.ms": self.timeout_ms,
            "linger.ms": 2,
            "log_level": 0,
        }
        until = time.monotonic() + _SECONDS
        while True:
            producer = Producer({**self.server, **config, "error_cb": _nothing})
            try:
                _until_done(producer.init_transactions)
            except Told as error:
                self.errors.append(str(error))
                if time.monotonic() > until:
                    raise
            else:
                self._producer = producer
                return


class Appender(TransactionalWorker):
    """Transactions of some records to some partitions; some are aborted."""

    def __init__(self, name: str, server: Server, source: str, seed: int) -> None:
        super().__init__(name, server, f"{source}-{name}")
        self._source = source
        self._choices = random.Random(seed)

    def work(self) -> None:
        while not self.ended:
            self._transact()
            self._ended.wait(_PACE)

    def _transact(self, before_the_end: Callable[[Any], None] = _nothing) -> None:
        places = [(self._source, self._choices.randrange(PARTITIONS)) for _ in range(_MOST)]
        wanted = places[: self._choices.randint(1, _MOST)]
        commits = self._choices.random() >= _ABORTS
        self.transact([Append(place, self.value()) for place in wanted], commits=commits, send_offsets=before_the_end)


class JavaAppender(Appender):
    """The same with Java's producer, which speaks protocol 2 (KIP-890) where nodes can ask each other."""

    def __init__(self, name: str, server: Server, source: str, seed: int, work: Path) -> None:
        super().__init__(name, server, source, seed)
        self._java = JavaTransactions(KAFKA, str(self.server["bootstrap.servers"]), work)

    def work(self) -> None:
        try:
            super().work()
        finally:
            self._java.close()

    def _outcome(self, appends: Sequence[Append], commits: bool, send_offsets: Callable[[Any], None]) -> Outcome:
        asked = False
        try:
            self._producer.begin()
            for (topic, partition), value, _ in appends:
                self._producer.send(topic, [value], partition)
            asked = commits
            self._producer.commit() if commits else self._producer.abort()
        except Ended as error:
            self.errors.append(str(error))
            return self._given_up(asked)
        return Outcome.COMMITTED if commits else Outcome.ABORTED

    def _given_up(self, asked: bool) -> Outcome:
        try:
            self._producer.abort()
        except Ended as error:
            self.errors.append(str(error))
            self._producer.close()
            self._producer = None
            return Outcome.UNKNOWN if asked else Outcome.ABORTED
        return Outcome.ABORTED

    def _renew(self) -> None:
        until = time.monotonic() + _SECONDS
        while self._producer is None:
            try:
                self._producer = self._java.producer(self._id, self.timeout_ms)
            except Ended as error:
                self.errors.append(str(error))
                if time.monotonic() > until:
                    raise


class Rival(Appender):
    """Another instance with an id that is in use: each fences the one before, wherever that has come to."""

    def __init__(self, name: str, server: Server, source: str, seed: int) -> None:
        super().__init__(name, server, source, seed)
        self._id = f"{source}-rivals"

    def work(self) -> None:
        while not self.ended:
            self._transact(self._perhaps_die)
            if self._choices.random() < _ABORTS:
                self._producer = None
            self._ended.wait(self._choices.uniform(0, _RIVALS_PACE))

    def _perhaps_die(self, _: Any) -> None:
        """In mid-transaction."""
        if self._choices.random() < _ABORTS:
            raise KafkaException(KafkaError(KafkaError._FAIL))


class Latecomer(Appender):
    """Its transactions end about when their time is over."""

    def __init__(self, name: str, server: Server, source: str, seed: int) -> None:
        super().__init__(name, server, source, seed)
        self.timeout_ms = _SHORT_TIMEOUT_MS

    def work(self) -> None:
        while not self.ended:
            self._transact(lambda _: let_pass(self._choices.uniform(0.5, 2) * _SHORT_TIMEOUT_MS / 1000))


class PlainWriter(Worker):
    """An idempotent producer of no transactions; each of its records is one to the checker."""

    def __init__(self, name: str, server: Server, source: str) -> None:
        super().__init__(name, server)
        self._source = source
        self.transactions: list[Transaction] = []

    def work(self) -> None:
        own = {"enable.idempotence": True, "linger.ms": 0, "log_level": 0, "error_cb": _nothing}
        producer = Producer({**self.server, **own})
        for number in count():
            if self.ended:
                return
            append = Append((self._source, number % PARTITIONS), f"{self.name}:{number}")
            told: list[KafkaError | None] = []
            producer.produce(self._source, append.value, partition=append.place[1], on_delivery=_note_in(told))
            producer.flush(_SECONDS)
            if not told or told[0] is not None:
                raise AssertionError(f"{append} is not stored: {told or producer}")
            self.transactions.append(Transaction(self.name, Outcome.COMMITTED, (append,)))
            self._ended.wait(_LOOK_EVERY)


class Copier(TransactionalWorker):
    """A member of a group that copies what is committed, with its offsets; after a refusal it starts over."""

    def __init__(self, name: str, server: Server, source: str, target: str, group: str) -> None:
        super().__init__(name, server, f"{target}-{name}")
        self._source, self._target, self._group = source, target, group

    def work(self) -> None:
        while not self.ended:
            consumer = self._member()
            try:
                self._copy(consumer)
            finally:
                consumer.close()

    def _copy(self, consumer: Any) -> None:
        while not self.ended:
            messages = [one for one in consumer.consume(_BATCH, 0.1) if one.error() is None]
            if messages and self._copied(consumer, messages) is not Outcome.COMMITTED:
                return

    def _copied(self, consumer: Any, messages: Sequence[Any]) -> Outcome:
        spans: dict[Place, Span] = {}
        appends = []
        for message in messages:
            place = (self._source, message.partition())
            first = spans[place].first if place in spans else message.offset()
            spans[place] = Span(first, message.offset() + 1)
            value = message.value().decode()
            appends.append(Append((self._target, message.partition()), f"{value}>{self.value()}", value))
        behind = [TopicPartition(topic, partition, span.last) for (topic, partition), span in spans.items()]

        def send_offsets(producer: Any) -> None:
            metadata = consumer.consumer_group_metadata()
            _until_done(lambda seconds: producer.send_offsets_to_transaction(behind, metadata, seconds))

        return self.transact(appends, copied=spans, send_offsets=send_offsets)

    def _member(self) -> Any:
        own = {"group.id": self._group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        soon = {"session.timeout.ms": 10_000, "heartbeat.interval.ms": 1_000, "fetch.wait.max.ms": 100}
        consumer = Consumer({**self.server, **own, **soon, "log_level": 0, "error_cb": _nothing})
        consumer.subscribe([self._source])
        return consumer


class Follower(Worker):
    """Reads all partitions from their beginning, until it is ended and has come to all ends."""

    def __init__(self, name: str, server: Server, places: Sequence[Place], *, committed: bool) -> None:
        super().__init__(name, server)
        self.committed = committed
        self.polls: list[Poll] = []
        self.count = 0
        self._positions = dict.fromkeys(places, 0)

    @property
    def reading(self) -> Reading:
        """What it was given."""
        return Reading(self.name, self.committed, tuple(self.polls))

    def work(self) -> None:
        level = "read_committed" if self.committed else "read_uncommitted"
        own = {"group.id": "unused", "enable.auto.commit": False, "auto.offset.reset": "error"}
        more = {"isolation.level": level, "enable.partition.eof": True, "fetch.wait.max.ms": 100, "log_level": 0}
        consumer = Consumer({**self.server, **own, **more, "error_cb": _nothing})
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for topic, number in self._positions])
        try:
            while not self.ended:
                self._read(consumer)
            self._read_to_the_ends(consumer)
        finally:
            consumer.close()

    def _read(self, consumer: Any) -> None:
        messages = consumer.consume(500, 0.2)
        for place, of_place in groupby(messages, lambda one: (one.topic(), one.partition())):
            self._note(place, list(of_place))

    def _note(self, place: Place, messages: Sequence[Any]) -> None:
        records: list[tuple[int, str]] = []
        position = self._positions.get(place, 0)
        for message in messages:
            if message.error() is None:
                records.append((message.offset(), message.value().decode()))
                position = message.offset() + 1
            elif message.error().code() == KafkaError._PARTITION_EOF:
                position = message.offset()
            elif message.error().code() == KafkaError._AUTO_OFFSET_RESET:
                raise KafkaException(message.error())
            else:
                self.errors.append(str(message.error()))
        if place in self._positions:
            self.polls.append(Poll(place, tuple(records), position))
            self._positions[place] = position
            self.count += len(records)

    def _read_to_the_ends(self, consumer: Any) -> None:
        """The ends of its level, as they are now."""
        until = time.monotonic() + _SECONDS
        for topic, partition in self._positions:
            _, end = _asked(
                lambda at: consumer.get_watermark_offsets(at, _CALL_SECONDS), TopicPartition(topic, partition)
            )
            while self._positions[topic, partition] < end:
                assert time.monotonic() < until, f"{self.name} at {self._positions}, the end of {partition} is {end}"
                self._read(consumer)


class OffsetWatch(Worker):
    """Asks for the group's stable offsets over and over, and once more at the end."""

    def __init__(self, server: Server, group: str, source: str) -> None:
        super().__init__("offsets", server)
        self.told: list[tuple[Place, int]] = []
        self._group = group
        self._wanted = [TopicPartition(source, partition) for partition in range(PARTITIONS)]

    def work(self) -> None:
        consumer = self._consumer()
        try:
            while not self.ended:
                try:
                    self._note(consumer.committed(self._wanted, _CALL_SECONDS))
                except KafkaException as error:
                    self.errors.append(str(error))
                self._ended.wait(_LOOK_EVERY)
            self._note(_asked(self._told_by(consumer), self._wanted))
        finally:
            consumer.close()

    def ask(self, seconds: float) -> None:
        """Ask once, beside the others, until all are stable; AssertionError where one is not in time."""
        consumer = self._consumer()
        until = time.monotonic() + seconds
        try:
            while unstable := [one for one in _asked(self._told_by(consumer), self._wanted) if one.error]:
                assert time.monotonic() < until, f"these offsets are not stable: {unstable}"
                let_pass(_LOOK_EVERY)
        finally:
            consumer.close()

    def _consumer(self) -> Any:
        own = {"group.id": self._group, "isolation.level": "read_committed", "log_level": 0, "error_cb": _nothing}
        return Consumer({**self.server, **own})

    def _told_by(self, consumer: Any) -> Callable[[Any], Any]:
        return lambda wanted: consumer.committed(wanted, _CALL_SECONDS)

    def _note(self, found: Sequence[Any]) -> None:
        self.told += [((one.topic, one.partition), one.offset) for one in found if one.offset >= 0 and not one.error]


class TransactionsLoad:
    """All of them at work."""

    def __init__(self, server: Server, prefix: str, seed: int = 0, java: Path | None = None) -> None:
        """`java`: where Java's producer may work, if it shall."""
        self._server = server
        self._lookers: dict[str, Any] = {}
        self.topics = (f"{prefix}-source", f"{prefix}-target")
        source, target = self.topics
        group = f"{prefix}-copiers"
        self.places = [(topic, partition) for topic in self.topics for partition in range(PARTITIONS)]
        self.appenders = [Appender(f"p{n}", server, source, seed * PRODUCERS + n) for n in range(PRODUCERS)]
        if java is not None:
            self.appenders.append(JavaAppender("java", server, source, seed, java))
        self.rivals = [Rival(f"r{n}", server, source, seed * PRODUCERS + n) for n in range(RIVALS)]
        self.latecomer = Latecomer("late", server, source, seed)
        self.plain = PlainWriter("plain", server, source)
        self.copiers = [Copier(f"c{number}", server, source, target, group) for number in range(COPIERS)]
        self.followers = [
            Follower(name, server, self.places, committed=name != "all")
            for name in ("committed 1", "committed 2", "all")
        ]
        self.offsets = OffsetWatch(server, group, source)

    @property
    def workers(self) -> list[Worker]:
        """Everybody."""
        return [*self.writers, *self.followers, self.offsets]

    @property
    def writers(self) -> list[TransactionalWorker | PlainWriter]:
        """Those whose records the others read."""
        return [*self.appenders, *self.rivals, self.latecomer, self.plain, *self.copiers]

    def start(self) -> None:
        """Create the topics, and begin."""
        admin = AdminClient(words(self._server))
        created = admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in self.topics])
        for future in created.values():
            future.result(30)
        for worker in self.workers:
            worker.start()

    def more(self, number: int = 5, seconds: float = _SECONDS) -> None:
        """Wait until each producer has committed so many more, a copier too, and each reader was given as many."""
        marks = {worker.name: worker.committed + number for worker in self.appenders}
        copies = self._copies() + number
        read = {follower.name: follower.count + number for follower in self.followers}

        def reached() -> bool:
            return (
                all(worker.committed >= marks[worker.name] for worker in self.appenders)
                and self._copies() >= copies
                and all(follower.count >= read[follower.name] for follower in self.followers)
            )

        until = time.monotonic() + seconds
        while not reached():
            assert not self._failures(), self._failures()
            assert time.monotonic() < until, f"not {number} more within {seconds} s: {self}"
            let_pass(_LOOK_EVERY)

    def stop(self) -> History:
        """End all transactions, read to the ends, read all again with readers that come late."""
        _end(self.writers)
        self._wait_until_stable()
        late = [Follower(f"late {level}", self._server, self.places, committed=level) for level in (True, False)]
        for follower in late:
            follower.start()
        _end([*self.followers, *late, self.offsets])
        assert not self._failures(), self._failures()
        transactions = [one for worker in self.writers for one in worker.transactions]
        readings = tuple(follower.reading for follower in (*self.followers, *late))
        return History(tuple(transactions), readings, (), tuple(self.offsets.told))

    def _wait_until_stable(self) -> None:
        """Nothing is open any more: both levels have the same ends, and the group's offsets are told as stable."""
        until = time.monotonic() + _SETTLED_SECONDS
        for place in self.places:
            while (ends := {level: self._end(place, level) for level in _LEVELS})[_LEVELS[0]] != ends[_LEVELS[1]]:
                assert time.monotonic() < until, f"after {_SETTLED_SECONDS:.0f} s the ends of {place} are {ends}"
                let_pass(_LOOK_EVERY)
        self.offsets.ask(max(until - time.monotonic(), _CALL_SECONDS))

    def _end(self, place: Place, level: str) -> int:
        if level not in self._lookers:
            own = {"group.id": "unused", "isolation.level": level, "log_level": 0, "error_cb": _nothing}
            self._lookers[level] = Consumer({**words(self._server), **own})
        looker = self._lookers[level]
        return int(_asked(lambda at: looker.get_watermark_offsets(at, _CALL_SECONDS), TopicPartition(*place))[1])

    def abandon(self) -> None:
        """Let every thread end, whatever state it is in."""
        for worker in self.workers:
            worker.end()

    def _copies(self) -> int:
        return sum(copier.committed for copier in self.copiers)

    def _failures(self) -> dict[str, str]:
        return {worker.name: worker.failure for worker in self.workers if worker.failure}

    def __str__(self) -> str:
        transactional = (*self.appenders, *self.rivals, self.latecomer, *self.copiers)
        committed = {one.name: f"{one.committed}/{len(one.transactions)}" for one in transactional}
        read = {one.name: one.count for one in self.followers}
        errors = {one.name: one.errors[-1] for one in self.workers if one.errors}
        return f"committed {committed}, read {read}, errors {errors}"


@contextmanager
def transactions_load(
    server: Server, prefix: str, seed: int = 0, java: Path | None = None
) -> Iterator[TransactionsLoad]:
    """A load that is under way."""
    running = TransactionsLoad(server, prefix, seed, java)
    try:
        running.start()
        running.more()
        yield running
    finally:
        running.abandon()


def _end(workers: Sequence[Worker]) -> None:
    for worker in workers:
        worker.end()
    for worker in workers:
        worker.join(_SECONDS)
        assert not worker.is_alive(), f"{worker.name} does not come to its end: {worker.errors[-3:]}"
        assert not worker.failure, f"{worker.name}: {worker.failure}"


def _until_done(call: Callable[[float], object]) -> None:
    """Again while the client says that it may be called again."""
    until = time.monotonic() + _SECONDS
    while True:
        try:
            call(_CALL_SECONDS)
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > until:
                raise
        else:
            return


def _asked(ask: Callable[[Any], Any], wanted: Any) -> Any:
    """Ask until there is an answer: a node may have been killed."""
    until = time.monotonic() + _SECONDS
    while True:
        try:
            return ask(wanted)
        except KafkaException:
            if time.monotonic() > until:
                raise
            let_pass(_LOOK_EVERY)


def _note_in(told: list[KafkaError | None]) -> Callable[[KafkaError | None, Any], None]:
    return lambda error, _: told.append(error)
