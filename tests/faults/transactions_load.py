"""Transactions under load: producers, copiers and readers at work through whatever happens, and the history of it.

Four producers append to a source, two copiers read what is committed there and write it to a target with their offsets
(read-process-write), readers of both levels follow all of it, and one asks for the copiers' offsets all the time.
Nothing here judges: `transactions_checker` does.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count, groupby
from typing import Any, Final

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.clients.transactions.aio import drop, open_producer, send_all
from tests.faults.processes import let_pass
from tests.faults.transactions_checker import Append, History, Outcome, Place, Poll, Reading, Span, Transaction

PRODUCERS, COPIERS, PARTITIONS = 4, 2, 4
TIMEOUT_MS: Final = 10_000
"""Of a transaction: what is left open ends soon."""
_SECONDS: Final = 120.0
"""Nothing may take longer, whatever is killed meanwhile."""
_CALL_SECONDS: Final = 5.0
_ABORTS: Final = 0.2
"""So many of the transactions."""
_MOST: Final = 5
"""Records of a transaction."""
_BATCH: Final = 20
_AIO_SECONDS: Final = 30.0
_PACE: Final = 0.01
_LOOK_EVERY: Final = 0.05
Told = (KafkaException, SystemError)
"""What confluent-kafka raises; the second where a fatal error interrupts a delivery report."""


class Worker(threading.Thread, ABC):
    """A client in a thread of its own, which goes on until it is told to end."""

    def __init__(self, name: str, server: str) -> None:
        super().__init__(name=name, daemon=True)
        self.server = {"bootstrap.servers": server}
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
    """Has transactions, each noted with what its producer was told of its end."""

    def __init__(self, name: str, server: str) -> None:
        super().__init__(name, server)
        self.transactions: list[Transaction] = []
        self.committed = 0

    def note(self, transaction: Transaction) -> None:
        """One has ended, or may have."""
        self.transactions.append(transaction)
        self.committed += transaction.outcome is Outcome.COMMITTED


class Appender(TransactionalWorker):
    """Transactions of some records to some partitions by librdkafka, some aborted, each noted with how it ended."""

    def __init__(self, name: str, server: str, source: str, seed: int) -> None:
        super().__init__(name, server)
        self._source, self._id = source, f"{source}-{name}"
        self._choices = random.Random(seed)
        self._numbers = count()
        self._producer: Any = None

    def work(self) -> None:
        while not self.ended:
            places = [(self._source, self._choices.randrange(PARTITIONS)) for _ in range(_MOST)]
            wanted = places[: self._choices.randint(1, _MOST)]
            commits = self._choices.random() >= _ABORTS
            self.transact([Append(place, self.value()) for place in wanted], commits=commits)
            self._ended.wait(_PACE)

    def value(self) -> str:
        """A value that nobody else writes."""
        return f"{self.name}:{next(self._numbers)}"

    def transact(self, appends: Sequence[Append], *, commits: bool) -> None:
        """Append these, and end so."""
        if self._producer is None:
            self._renew()
        outcome = self._outcome(appends, commits)
        self.note(Transaction(self.name, outcome, tuple(appends)))

    def _outcome(self, appends: Sequence[Append], commits: bool) -> Outcome:
        """Without a commit that was asked for, nobody can have committed it."""
        asked = False
        try:
            self._producer.begin_transaction()
            for (topic, partition), value, _ in appends:
                self._producer.produce(topic, value, partition=partition)
            self._producer.flush(_SECONDS)
            asked = commits
            _until_done(self._producer.commit_transaction if commits else self._producer.abort_transaction)
        except Told as error:
            self.errors.append(str(error))
            return self._after(error, asked)
        return Outcome.COMMITTED if commits else Outcome.ABORTED

    def _after(self, error: Exception, asked: bool) -> Outcome:
        """Abort where the client can: what it then says is believed, for its user would do the work again."""
        told = error.args[0]
        if isinstance(told, KafkaError) and (told.txn_requires_abort() or told.retriable()):
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
        config = {"transactional.id": self._id, "transaction.timeout.ms": TIMEOUT_MS, "linger.ms": 2, "log_level": 0}
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


class Copier(TransactionalWorker):
    """A member of a group that copies what is committed, with its offsets, by aiokafka.

    Its transactional ids follow the partitions: who gets one fences who had it, and only then asks how far that one
    came. librdkafka 2.16 is no use here: its send_offsets_to_transaction never returns where its coordinator is killed.
    """

    def __init__(self, name: str, server: str, source: str, target: str, group: str) -> None:
        super().__init__(name, server)
        self._address, self._source, self._target, self._group = server, source, target, group
        self._numbers = count()
        self._producers: dict[Any, Any] = {}
        self._done: dict[Any, int] = {}
        """Behind the last records that this one has copied."""

    def work(self) -> None:
        asyncio.run(self._work())

    async def _work(self) -> None:
        while not self.ended:
            consumer = AIOKafkaConsumer(
                self._source, bootstrap_servers=self._address, group_id=self._group, auto_offset_reset="earliest",
                enable_auto_commit=False, isolation_level="read_committed", heartbeat_interval_ms=1_000,
                session_timeout_ms=10_000, fetch_max_wait_ms=100,
            )  # fmt: skip
            try:
                await consumer.start()
                await self._copy(consumer)
            except (AioKafkaError, TimeoutError) as error:
                self._told(error)
            finally:
                await _soon(consumer.stop())
                for partition in list(self._producers):
                    await drop(self._producers.pop(partition))

    async def _copy(self, consumer: Any) -> None:
        while not self.ended:
            polled = await consumer.getmany(timeout_ms=100, max_records=_BATCH)
            for partition in self._producers.keys() - consumer.assignment():
                await drop(self._producers.pop(partition))
            for partition, records in polled.items():
                if partition not in self._producers:
                    await self._take(consumer, partition)
                elif records[0].offset < self._done.get(partition, 0):
                    # after a rebalance it begins where the group was while the last transaction was still open
                    consumer.seek(partition, self._done[partition])
                elif await self._copied(partition, records):
                    self._done[partition] = records[-1].offset + 1
                else:
                    await drop(self._producers.pop(partition))

    async def _take(self, consumer: Any, partition: Any) -> None:
        """From where the group has come to; what was polled comes again."""
        async with asyncio.timeout(_AIO_SECONDS):
            transactional_id = f"{self._target}-{partition.partition}"
            self._producers[partition] = await open_producer(self._address, transactional_id, TIMEOUT_MS)
            self._done[partition] = int(await consumer.committed(partition) or 0)
            if partition in consumer.assignment():
                consumer.seek(partition, self._done[partition])

    async def _copied(self, partition: Any, records: Sequence[Any]) -> bool:
        """One transaction; whether its end is known, and it was a commit."""
        values = [record.value.decode() for record in records]
        place = (self._target, partition.partition)
        appends = tuple(Append(place, f"{value}>{self.name}:{next(self._numbers)}", value) for value in values)
        span = Span(records[0].offset, records[-1].offset + 1)
        outcome = await self._outcome(self._producers[partition], partition, appends, span)
        copied = {(self._source, partition.partition): span}
        self.note(Transaction(f"{self.name}/{partition.partition}", outcome, appends, copied))
        return outcome is Outcome.COMMITTED

    async def _outcome(self, producer: Any, partition: Any, appends: Sequence[Append], span: Span) -> Outcome:
        asked = False
        try:
            async with asyncio.timeout(_AIO_SECONDS):
                await producer.begin_transaction()
                await send_all(producer, self._target, [append.value for append in appends], partition.partition)
                await producer.send_offsets_to_transaction({partition: span.last}, self._group)
                asked = True
                await producer.commit_transaction()
        except (AioKafkaError, TimeoutError) as error:
            self._told(error)
            return Outcome.UNKNOWN if asked else Outcome.ABORTED
        return Outcome.COMMITTED

    def _told(self, error: Exception) -> None:
        self.errors.append(f"{type(error).__name__}: {error}")


async def _soon(work: Coroutine[Any, Any, None]) -> None:
    with suppress(AioKafkaError, TimeoutError):
        async with asyncio.timeout(_CALL_SECONDS):
            await work


class Follower(Worker):
    """Reads all partitions from their beginning, until it is ended and has come to all ends."""

    def __init__(self, name: str, server: str, places: Sequence[Place], *, committed: bool) -> None:
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

    def __init__(self, server: str, group: str, source: str) -> None:
        super().__init__("offsets", server)
        self.told: list[tuple[Place, int]] = []
        self._group = group
        self._wanted = [TopicPartition(source, partition) for partition in range(PARTITIONS)]

    def work(self) -> None:
        own = {"group.id": self._group, "isolation.level": "read_committed", "log_level": 0, "error_cb": _nothing}
        consumer = Consumer({**self.server, **own})
        try:
            while not self.ended:
                try:
                    self._note(consumer.committed(self._wanted, _CALL_SECONDS))
                except KafkaException as error:
                    self.errors.append(str(error))
                self._ended.wait(_LOOK_EVERY)
            self._note(_asked(lambda wanted: consumer.committed(wanted, _CALL_SECONDS), self._wanted))
        finally:
            consumer.close()

    def _note(self, found: Sequence[Any]) -> None:
        self.told += [((one.topic, one.partition), one.offset) for one in found if one.offset >= 0 and not one.error]


class TransactionsLoad:
    """All of them at work."""

    def __init__(self, server: str, prefix: str, seed: int = 0) -> None:
        self._server = server
        self._topics = (f"{prefix}-source", f"{prefix}-target")
        source, target = self._topics
        group = f"{prefix}-copiers"
        self.places = [(topic, partition) for topic in self._topics for partition in range(PARTITIONS)]
        self.appenders = [Appender(f"p{n}", server, source, seed * PRODUCERS + n) for n in range(PRODUCERS)]
        self.copiers = [Copier(f"c{number}", server, source, target, group) for number in range(COPIERS)]
        self.followers = [
            Follower(name, server, self.places, committed=name != "all")
            for name in ("committed 1", "committed 2", "all")
        ]
        self.offsets = OffsetWatch(server, group, source)

    @property
    def workers(self) -> list[Worker]:
        """Everybody."""
        return [*self.appenders, *self.copiers, *self.followers, self.offsets]

    def start(self) -> None:
        """Create the topics, and begin."""
        admin = AdminClient({"bootstrap.servers": self._server})
        created = admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in self._topics])
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
        _end([*self.appenders, *self.copiers])
        late = [Follower(f"late {level}", self._server, self.places, committed=level) for level in (True, False)]
        for follower in late:
            follower.start()
        _end([*self.followers, *late, self.offsets])
        assert not self._failures(), self._failures()
        transactions = [one for worker in (*self.appenders, *self.copiers) for one in worker.transactions]
        readings = tuple(follower.reading for follower in (*self.followers, *late))
        return History(tuple(transactions), readings, (), tuple(self.offsets.told))

    def abandon(self) -> None:
        """Let every thread end, whatever state it is in."""
        for worker in self.workers:
            worker.end()

    def _copies(self) -> int:
        return sum(copier.committed for copier in self.copiers)

    def _failures(self) -> dict[str, str]:
        return {worker.name: worker.failure for worker in self.workers if worker.failure}

    def __str__(self) -> str:
        committed = {one.name: f"{one.committed}/{len(one.transactions)}" for one in (*self.appenders, *self.copiers)}
        read = {one.name: one.count for one in self.followers}
        errors = {one.name: one.errors[-1] for one in self.workers if one.errors}
        return f"committed {committed}, read {read}, errors {errors}"


@contextmanager
def transactions_load(server: str, prefix: str, seed: int = 0) -> Iterator[TransactionsLoad]:
    """A load that is under way."""
    running = TransactionsLoad(server, prefix, seed)
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


def _nothing(_: Any) -> None:
    """Each call tells its own errors; without an error_cb a fatal one makes a flush raise a bare SystemError."""
