"""Fetches that wait, at logs of the test's own: when they look, at what, and what they leave behind."""

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bridge.config import Settings
from bridge.errors import KafkaError
from bridge.fetch import waiting
from bridge.fetch.partitions import FetchPartition
from bridge.fetch.pending_fetch import PendingFetch
from bridge.kafka import message
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.fetch_messages import READ_COMMITTED
from bridge.kafka.fetch_wire import Request, RequestPartition, RequestTopic, Response
from bridge.kafka.message import ZERO_UUID
from bridge.requests.api import Broker
from bridge.requests.encoded import EncodedBody, SharedResponses
from bridge.requests.responses import LongPoll
from bridge.requests.session import Session
from bridge.runtime.fairness import Quota
from bridge.runtime.futures import Waiter
from bridge.storage.read.log_end import LogEnd
from bridge.telemetry.traffic import Traffic

RECORDS = bytes(80)
SOON_SECONDS = 5.0


class Log:
    """One partition's log. While `is_slow`, what it has is read by a task, which ends when `release` is set."""

    def __init__(self) -> None:
        self.end = LogEnd()
        self.traffic = Traffic()
        self.known_start = 0
        self.left_out = None
        self.is_followed = True
        self.records: list[bytes] = []
        self.is_slow = False
        self.release = asyncio.Event()
        self.looks = 0
        self.looked = asyncio.Event()
        self.fails: Exception | None = None

    def append(self) -> None:
        """One more record, which wakes who waits."""
        self.records.append(RECORDS)
        self.end.advance_readable(len(self.records))

    @property
    def last_stable(self) -> int:
        return self.end.offset

    def read_nowait(self, offset: int, max_bytes: int, until: float, *, committed: bool = False) -> list[bytes] | None:
        self.looks += 1
        self.looked.set()
        if self.fails is not None:
            raise self.fails
        return None if self.is_slow else self.records[offset:]

    async def read(
        self, offset: int, max_bytes: int, timeout_seconds: float, *, committed: bool = False
    ) -> list[bytes]:
        found = self.records[offset:]
        await self.release.wait()
        return found

    def needs_conversion(self, offset: int) -> bool:
        return False


class NoHints:
    """A view that knows no leaders."""

    def leader(self, topic: str, partition: int) -> Any:
        return SimpleNamespace(node=None)


class Cluster:
    """One node, as far as a Fetch asks."""

    def __init__(self) -> None:
        self.snapshot: Any = NoHints()
        self.node_id = 0
        self.waiters: list[Waiter] = []
        self.lost: set[int] = set()
        """Partitions."""

    def check_leader(self, topic: str, partition: int, epoch: int, *, or_follower: bool) -> None:
        if partition in self.lost:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def add_waiter(self, waiter: Waiter) -> None:
        self.waiters.append(waiter)

    def remove_waiter(self, waiter: Waiter) -> None:
        self.waiters.remove(waiter)


@dataclass
class Topics:
    threads: Any = None


@dataclass
class Bench:
    """What Fetches need of a broker."""

    logs: list[Log]
    settings: Settings = field(default_factory=Settings)
    cluster: Cluster = field(default_factory=Cluster)
    topics: Topics = field(default_factory=Topics)
    shared_responses: SharedResponses = field(default_factory=SharedResponses)
    waiting_fetches: Quota = field(default_factory=lambda: Quota(1000))
    remaining: int = 1 << 30
    """Bytes that responses may have."""

    def fetch(
        self, *, wait: float = 10 * SOON_SECONDS, min_bytes: int = 1, committed: bool = False
    ) -> "LongPoll[Any] | Response":
        """A Fetch of all logs from their beginning."""
        session = Session(1, "", "", api_version=12, remaining_response_bytes=lambda: self.remaining)
        wanted = [
            RequestPartition(partition=at, fetch_offset=0, partition_max_bytes=1000) for at in range(len(self.logs))
        ]
        request = Request(
            max_wait_ms=0, min_bytes=min_bytes, isolation_level=READ_COMMITTED * committed,
            topics=[RequestTopic(topic="t", partitions=wanted)],
        )  # fmt: skip
        parts = [
            FetchPartition("t", ZERO_UUID, one, committed=committed, log=cast(Any, log))
            for one, log in zip(wanted, self.logs, strict=True)
        ]
        now = asyncio.get_running_loop().time()
        broker = cast(Broker, self)
        fetch = PendingFetch(request, broker, session, parts, now + wait, self.cluster.snapshot)
        return cast("LongPoll[Any] | Response", waiting.answered(fetch, broker, session, now))

    def waiting(self, **options: Any) -> "asyncio.Future[Any]":
        """The future answer of one that has to wait."""
        poll = self.fetch(**options)
        assert isinstance(poll, LongPoll)
        return cast("asyncio.Future[Any]", poll.future)

    def assert_nothing_is_left(self) -> None:
        assert not any(log.end.has_waiters for log in self.logs)
        assert self.cluster.waiters == []
        assert self.waiting_fetches.left == 1000


def sizes(answer: Any) -> list[int]:
    """Bytes of records in each partition of an answer."""
    if isinstance(answer, EncodedBody):
        answer = message.decode(Response, b"".join(map(bytes, answer.body)), 12, True)
    return [sum(map(len, one.records or ())) for one in answer.responses[0].partitions]


async def answer_of(future: "asyncio.Future[Any]") -> Any:
    return await asyncio.wait_for(future, SOON_SECONDS)


async def turns(count: int = 10) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_what_is_there_is_answered_without_waiting() -> None:
    bench = Bench([Log(), Log()])
    bench.logs[1].append()
    answer = bench.fetch()
    assert isinstance(answer, Response)
    assert sizes(answer) == [0, len(RECORDS)]
    bench.assert_nothing_is_left()


async def test_it_looks_only_at_the_logs_that_have_grown() -> None:
    bench = Bench([Log() for _ in range(20)])
    answer = bench.waiting(min_bytes=3 * len(RECORDS))
    for at in (3, 7, 3):
        bench.logs[at].looked.clear()
        bench.logs[at].append()
        # a Fetch pauses between two looks for as long as one has taken, which is the machine's matter
        await asyncio.wait_for(bench.logs[at].looked.wait(), SOON_SECONDS)
    found = sizes(await answer_of(answer))
    assert (found[3], found[7], sum(found)) == (2 * len(RECORDS), len(RECORDS), 3 * len(RECORDS))
    assert [log.looks for log in bench.logs] == [3 if at == 3 else 2 if at == 7 else 1 for at in range(20)]
    bench.assert_nothing_is_left()


@pytest.mark.parametrize("turn", range(6))
async def test_records_that_come_as_a_read_ends_are_not_missed(turn: int) -> None:
    """The read has found nothing; before it is looked at, a record comes, and wakes no waiter once more."""
    bench = Bench([Log()])
    (log,) = bench.logs
    log.is_slow = True
    answer = bench.waiting()
    await turns()
    log.is_slow = False  # what comes from now on is in memory
    log.release.set()
    await turns(turn)
    log.append()
    assert sizes(await answer_of(answer)) == [len(RECORDS)]
    bench.assert_nothing_is_left()


@pytest.mark.parametrize("min_bytes", [1, 1000])
async def test_it_ends_with_what_there_is_at_its_deadline(min_bytes: int) -> None:
    bench = Bench([Log(), Log()])
    answer = bench.waiting(wait=0.05, min_bytes=min_bytes)
    if min_bytes > 1:
        bench.logs[0].append()
    assert sizes(await answer_of(answer)) == [len(RECORDS) if min_bytes > 1 else 0, 0]
    bench.assert_nothing_is_left()


async def test_one_that_is_given_up_leaves_nothing() -> None:
    bench = Bench([Log(), Log()])
    answer = bench.waiting(wait=0.01)
    bench.logs[0].append()  # and a look is due
    answer.cancel()
    bench.assert_nothing_is_left()
    looks = [log.looks for log in bench.logs]
    await asyncio.sleep(0.05)
    assert [log.looks for log in bench.logs] == looks


async def test_one_whose_leader_is_another_leaves_nothing() -> None:
    bench = Bench([Log(), Log()])
    answer = bench.waiting()
    bench.cluster.snapshot = NoHints()
    bench.cluster.lost = {1}
    for waiter in list(bench.cluster.waiters):
        waiter.woken(bench.cluster)
    found = (await answer_of(answer)).responses[0].partitions
    assert [one.error_code for one in found] == [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER]
    bench.assert_nothing_is_left()


async def test_a_fault_is_the_answer() -> None:
    bench = Bench([Log()])
    answer = bench.waiting()
    bench.logs[0].fails = RuntimeError("as told")
    bench.logs[0].append()
    with pytest.raises(RuntimeError, match="as told"):
        await answer_of(answer)
    bench.assert_nothing_is_left()


async def test_who_may_not_wait_is_answered_at_once_and_throttled() -> None:
    bench = Bench([Log(), Log()], waiting_fetches=Quota(3))
    waiting = bench.waiting()
    answer = bench.fetch()
    assert isinstance(answer, Response)
    assert answer.throttle_time_ms > 0
    assert bench.waiting_fetches.left == 1
    waiting.cancel()
    assert bench.waiting_fetches.left == 3


async def test_those_that_wait_for_the_same_records_share_an_answer() -> None:
    bench = Bench([Log()])
    waiting = [bench.waiting() for _ in range(5)]
    bench.logs[0].append()
    answers = [await answer_of(one) for one in waiting]
    assert len({id(answer) for answer in answers}) == 1
    assert bench.logs[0].traffic.bytes_out == 5 * len(RECORDS)
    assert bench.logs[0].looks == len(waiting) + 1
    bench.assert_nothing_is_left()


async def test_without_room_for_an_answer_it_waits_for_records_all_the_same() -> None:
    """Clients that do not read their answers take all the room. Who is at the end would else ask again at once, and
    again, for as long as they do not."""
    bench = Bench([Log()], remaining=0)
    answer = bench.waiting()
    await turns()
    assert not answer.done()
    bench.logs[0].append()
    assert sizes(await answer_of(answer)) == [len(RECORDS)]
    bench.assert_nothing_is_left()


class Undecided(Log):
    """A log with one record, which lies before what is in memory, of a transaction that is open."""

    def __init__(self) -> None:
        super().__init__()
        self.is_open = self.is_slow = True
        self.reads = 0
        self.append()

    @property
    def last_stable(self) -> int:
        return 0 if self.is_open else self.end.offset

    async def read(
        self, offset: int, max_bytes: int, timeout_seconds: float, *, committed: bool = False
    ) -> list[bytes]:
        self.reads += 1
        await asyncio.sleep(0)
        assert committed
        return [] if self.is_open else [RECORDS]


async def test_what_is_not_in_memory_is_read_as_soon_as_its_transaction_is_decided() -> None:
    log = Undecided()
    bench = Bench([log])
    answer = bench.waiting(committed=True)
    await turns()
    for _ in range(3):  # something happens there, and the transaction is still open
        log.end.wake_waiters()
        await turns()
    assert log.reads == 1
    assert not answer.done()
    log.is_open = False
    log.end.wake_waiters()  # as `StableOffset._decided`
    assert sizes(await answer_of(answer)) == [len(RECORDS)]
    bench.assert_nothing_is_left()
