"""A share partition that this node leads: reads its records, keeps the time of its locks, and has its state stored."""

import asyncio
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import compress
from math import inf
from typing import Final, NamedTuple
from uuid import UUID

from bridge import codec
from bridge.errors import KafkaError
from bridge.groups.configs import (
    BY_DURATION,
    SHARE_DELIVERIES,
    SHARE_ISOLATION,
    SHARE_LOCK,
    SHARE_LOCKS,
    SHARE_RENEWS,
    SHARE_RESET,
    GroupConfigs,
    duration_ms,
)
from bridge.groups.share.state_records import UNINITIALIZED, ShareWrite
from bridge.kafka.error_codes import ErrorCode
from bridge.runtime.futures import Waiter, loop_time, retrieve_exception
from bridge.shares.persister import Persister, ends, told
from bridge.shares.state import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    Acknowledgement,
    Acquired,
    Limits,
    SharePartition,
    Span,
)
from bridge.storage import entries
from bridge.storage.partition import PartitionLog
from bridge.telemetry import log as logging
from bridge.telemetry.instruments import Gauge
from bridge.telemetry.metrics import ShareMetrics

_log = logging.get(__name__)

_TYPES: Final = {GAP: "gap", ACCEPT: "accept", RELEASE: "release", REJECT: "reject", RENEW: "renew"}
_AGAIN_SECONDS: Final = 1.0
"""After how long a write that has failed is tried again, where nobody else writes meanwhile."""
_UNUSED: Final = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "nobody reads the share partition any more")
MOST_RANGES: Final = 500_000
"""Of all share partitions of a node and namespace, in memory."""
_FEW_RANGES: Final = 16
"""So many each may have, however many there are."""
_READ_BYTES: Final = 1 << 20
"""At a time, however much a member takes: it is given some hundred records, and the next request reads on from them."""
_CONFIRMED_SECONDS: Final = 1.0
"""For how long a leader hands out records by what the coordinator has said last: docs/decisions/036."""


class Name(NamedTuple):
    """What names a share partition."""

    group_id: str
    topic_id: UUID
    partition: int


class Found(NamedTuple):
    """What a member has acquired, and the batches that have it; beside it they may have more."""

    acquired: list[Acquired]
    records: list[bytes]


class RangeBudget:
    """How many ranges the share partitions of this node and namespace have: each is some 200 bytes of memory."""

    def __init__(self, gauge: Gauge) -> None:
        self._count = 0
        self._gauge = gauge

    @property
    def is_full(self) -> bool:
        """Whether there are as many as there may be."""
        return self._count >= MOST_RANGES

    def add(self, count: int) -> None:
        """So many more, or fewer."""
        self._count += count
        self._gauge.inc(count)


class Surroundings(NamedTuple):
    """What share partitions of one namespace have in common."""

    persister: Persister
    configs: GroupConfigs
    metrics: ShareMetrics
    ranges: RangeBudget


class LedPartition:
    """One partition of a share group, from `open` on, until it is `closed`."""

    def __init__(
        self,
        name: Name,
        log: PartitionLog,
        epoch: int,
        around: Surroundings,
        on_closed: Callable[["LedPartition"], None],
    ) -> None:
        """`epoch`: that of its leader; `on_closed`: called once, when its state is not the one that counts any more."""
        self.name = name
        self.log = log
        self.users = 0
        """Requests that go on here."""
        self.readers = 0
        """Sessions that are open and have read it."""
        self.epoch = epoch
        """Of this leader."""
        self._around = around
        self._on_closed = on_closed
        self._state = SharePartition(0)
        self._ranges = 0  # as the budget counts them
        self._state_epoch = self._q = 0
        self._confirmed_at = -inf  # by the coordinator: that this state is the one that counts
        self._doubts = 0
        self._confirming: asyncio.Task[None] | None = None
        self._error: KafkaError | None = None
        self._waiters: dict[Waiter, None] = {}
        self._saying: list[asyncio.Future[None]] = []  # whose acknowledgements go with the next write
        self._write: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._again: asyncio.TimerHandle | None = None
        self._reading = asyncio.Lock()
        self._read_task: asyncio.Task[list[bytes]] | None = None  # of the log, where memory does not have it
        self._read_at: tuple[int, bool] = (-1, False)  # from where, and whether of committed records alone
        self._read_until = -inf  # loop time up to which it is waited for, by whomever
        self._is_read_left = False  # nobody has waited for its end

    @property
    def limits(self) -> Limits:
        """By the group's configs, as they are now; what was never delivered is not, where there are too many ranges."""
        number, group_id = self._around.configs.number, self.name.group_id
        is_full = self._around.ranges.is_full and len(self._state.ranges) > _FEW_RANGES
        locks = 0 if is_full else number(group_id, SHARE_LOCKS)
        return Limits(number(group_id, SHARE_DELIVERIES), locks, number(group_id, SHARE_LOCK) / 1000)

    @property
    def acquired(self) -> int:
        """How many offsets members have."""
        return self._state.acquired

    @property
    def is_closed(self) -> bool:
        """Whether it is of no use any more."""
        return self._error is not None

    async def open(self) -> None:
        """Read the state, and find out where to begin if no leader has yet; KafkaError as consumers are told it."""
        try:
            asked = self._asks()
            read = await self._around.persister.read(*self.name, self.epoch)
            self._confirmed(*asked)
            self._state_epoch, self._q = read.state_epoch, read.q
            start = await self._first_offset() if read.start == UNINITIALIZED else read.start
            self._state = SharePartition(start, read.batches)
            if read.start == UNINITIALIZED:
                self._q += 1
                write = ShareWrite(self._state_epoch, self.epoch, self._q, *self._state.begin_write())
                await self._around.persister.write(*self.name, write)
        except KafkaError as error:
            raise told(error) from None
        self._count_ranges()

    def doubt(self) -> None:
        """Hand out nothing until the coordinator, asked from now on, says that this state is the one that counts."""
        self._doubts += 1
        self._confirmed_at = -inf

    def close_unused(self) -> None:
        """Close it if nobody reads it, and nothing is lost by that; who reads it again opens it again."""
        is_used = self.readers or self.users or self._waiters or self._write is not None
        if not is_used and self._state.is_idle:
            self.close(_UNUSED)

    def close(self, error: KafkaError) -> None:
        """Use it no more; who waits is told. What is being written is stored, or not."""
        if self._error is not None:
            return
        self._error = error.bare()
        for timer in (self._timer, self._again, self._confirming, self._read_task):
            if timer is not None:
                timer.cancel()
        saying, self._saying = self._saying, []
        for one in saying:
            _fail(one, self._error)
        self._count_ranges()
        self._on_closed(self)
        self._wake()

    # ---- members -----------------------------------------------------------------------------------------------------

    def acknowledge(self, member: str, said: Sequence[Acknowledgement]) -> "asyncio.Future[None]":
        """Done when it is stored, or renewed; KafkaError at once where it may not be (`SharePartition.acknowledge`)."""
        self._check()
        self._expire_now()
        renews = self._around.configs.value(self.name.group_id, SHARE_RENEWS) == "true"
        if not renews and any(one.type == RENEW for one in said):
            text = "Renewing acquisition locks is not enabled for the group."
            raise KafkaError(ErrorCode.INVALID_RECORD_STATE, text)
        start = self._state.start
        is_news = self._state.acknowledge(member, said, self.limits, loop_time())
        for one in said:
            self._around.metrics.acknowledged[_TYPES[one.type]].inc(max(one.last - max(one.first, start) + 1, 0))
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(retrieve_exception)
        if is_news:
            self._saying.append(answer)
        else:
            answer.set_result(None)
        self._go_on()
        return answer

    def release(self, member: str, *, counts: bool) -> None:
        """Give what a member has to others, as `SharePartition.release`."""
        if self._error is None and self._state.release(member, self.limits, counts=counts):
            self._changed()

    async def acquire(
        self, member: str, most: int, max_bytes: int, timeout_seconds: float, is_wanted: Callable[[], bool],
        *, is_strict: bool = False, until: float = inf,
    ) -> Found | None:  # fmt: skip
        """Give a member what can be had; None: nothing at present, `add_waiter` tells when to look again.

        `most`: about how many records, or how many at most where `is_strict`; `is_wanted`: asked when the records are
        there; `until`: loop time up to which records that are not in memory are waited for. KafkaError of reading.
        """
        async with self._reading:
            while True:
                self._check()
                limits = self.limits
                self._expire_now()
                self._state.move_start(self.log.known_start)
                position = self._state.position(limits)
                read = [] if position is None else await self._read(position, max_bytes, timeout_seconds, until)
                self._check()
                is_doubted = self._confirmed_at == -inf and not self._is_confirmed()  # perhaps another state has more
                if is_doubted or not read or position is None or not is_wanted() or not self._is_confirmed():
                    self._go_on()
                    return None
                spans = list(map(_spans, read))
                every = [one for within in spans for one in within]
                acquired = self._state.acquire(member, position, every, most, limits, loop_time(), is_strict=is_strict)
                self._around.metrics.delivered.inc(sum(one.last - one.first + 1 for one in acquired))
                self._go_on()
                if acquired:
                    firsts = [one.first for one in acquired]
                    has_any = (_has_any(within, firsts, acquired) for within in spans)
                    return Found(acquired, list(compress(read, has_any)))
                if self._state.position(limits) == position:
                    return None

    def add_waiter(self, waiter: Waiter) -> None:
        """Wake it, once, when more can be acquired, or the partition is closed; the log's end wakes for itself."""
        self._waiters[waiter] = None

    def remove_waiter(self, waiter: Waiter) -> None:
        """Forget it."""
        self._waiters.pop(waiter, None)

    # ---- within ------------------------------------------------------------------------------------------------------

    @property
    def _is_committed(self) -> bool:
        return self._around.configs.value(self.name.group_id, SHARE_ISOLATION) == "read_committed"

    async def _first_offset(self) -> int:
        reset = self._around.configs.value(self.name.group_id, SHARE_RESET)
        if reset == "earliest":
            return await self.log.earliest()
        if reset.startswith(BY_DURATION):
            ago = duration_ms(reset.removeprefix(BY_DURATION)) or 0
            found = await self.log.at_time(max(int(time.time() * 1000) - ago, 0))
            if found is not None:
                return found.offset
        return await self.log.latest(committed=self._is_committed)

    async def _read(self, position: int, max_bytes: int, timeout_seconds: float, until: float) -> list[bytes]:
        committed, max_bytes = self._is_committed, min(max_bytes, _READ_BYTES)
        found = self.log.read_nowait(position, max_bytes, committed=committed)
        if found is not None:
            return found
        task, where = self._read_task, (position, committed)
        if task is not None and self._read_at != where:
            task.cancel()
            task = None
        if task is None:
            reading = self._read_stored(position, max_bytes, timeout_seconds, committed)
            task = self._read_task = asyncio.get_running_loop().create_task(reading, name="read a share partition")
            self._read_at, self._read_until = where, loop_time() + timeout_seconds
            self._is_read_left = False
            task.add_done_callback(self._has_read)
        # it goes on by itself: one partition that Pulsar does not answer for keeps no other from its member
        await asyncio.wait((task,), timeout=max(min(until, self._read_until) - loop_time(), 0))
        if not task.done():
            self._is_read_left = True
            return []
        return [] if task.cancelled() else task.result()  # cancelled: the partition was closed

    def _has_read(self, task: "asyncio.Task[list[bytes]]") -> None:
        retrieve_exception(task)
        if self._read_task is task:
            self._read_task = None
            is_found = not task.cancelled() and (task.exception() is not None or bool(task.result()))
            if is_found and self._is_read_left:  # who has given it up finds it in memory, or asks again
                self._wake()

    async def _read_stored(self, position: int, max_bytes: int, timeout_seconds: float, committed: bool) -> list[bytes]:
        try:
            return await self.log.read(position, max_bytes, timeout_seconds, committed=committed)
        except KafkaError as error:
            if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            start = await self.log.earliest()
            if start <= position:  # offsets were altered to beyond the end: as in Kafka there is nothing yet
                return []
            self._state.move_start(start)
            return await self.log.read(start, max_bytes, timeout_seconds, committed=committed)

    def _is_confirmed(self) -> bool:
        """Whether that was so a short time ago; else the coordinator is asked, and who waits is woken."""
        if loop_time() - self._confirmed_at < _CONFIRMED_SECONDS:
            return True
        if self._confirming is None:
            self._confirming = asyncio.get_running_loop().create_task(self._confirm(), name="confirm share state")
        return False

    def _asks(self) -> tuple[float, int]:
        """What `_confirmed` is to be told when the coordinator, which is asked now, has answered."""
        return loop_time(), self._doubts

    def _confirmed(self, asked_at: float, doubts: int) -> None:
        """The coordinator has said that this state counts; that is worth nothing if it was asked before a doubt."""
        if doubts == self._doubts:
            self._confirmed_at = asked_at

    async def _confirm(self) -> None:
        asked, failure = self._asks(), None
        try:
            await self._around.persister.check(*self.name, self._state_epoch, self.epoch)
        except KafkaError as error:
            failure = error
        finally:
            self._confirming = None
        if failure is None:
            self._confirmed(*asked)
            self._wake()
        elif ends(failure):
            self.close(told(failure))  # else it is asked again when a member looks again

    def _check(self) -> None:
        if self._error is not None:
            raise self._error.bare()

    def _changed(self) -> None:
        """There may be more to acquire."""
        self._go_on()
        self._wake()

    def _expire_now(self) -> None:
        """What has run out of its lock is there for all; who waits is told only then, for it looks itself."""
        if self._count_expired():
            self._wake()

    def _count_expired(self) -> int:
        count = self._state.expire(self.limits, loop_time())
        self._around.metrics.expired.inc(count)
        return count

    def _go_on(self) -> None:
        """Set what goes on by itself; nobody is woken, or one that looks in vain would wake itself without end."""
        self._set_timer()
        self._count_ranges()
        self._around.metrics.given_up.inc(self._state.take_given_up())
        if self._state.has_news and self._write is None and self._error is None:
            self._write = asyncio.get_running_loop().create_task(self._write_all(), name="write share state")

    def _count_ranges(self) -> None:
        """Tell the budget how many there are; none once it is closed."""
        count = len(self._state.ranges) if self._error is None else 0
        self._around.ranges.add(count - self._ranges)
        self._ranges = count

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        deadline = self._state.deadline
        at_work = self._error is None and deadline < inf
        self._timer = asyncio.get_running_loop().call_at(deadline, self._expire) if at_work else None

    def _expire(self) -> None:
        self._count_expired()
        self._changed()

    def _wake(self) -> None:
        if self._error is not None or self._state.position(self.limits) is not None:
            waiters, self._waiters = self._waiters, {}
            for waiter in waiters:
                waiter.woken(self)

    async def _write_all(self) -> None:
        """Have what has changed stored, until nothing is left; one write at a time."""
        try:
            while self._state.has_news and self._error is None:
                saying, self._saying = self._saying, []
                if not await self._write_once(saying):
                    break
        finally:
            self._write = None
        if self._error is None and self._state.has_news:
            self._again = asyncio.get_running_loop().call_later(_AGAIN_SECONDS, self._changed)
        self.close_unused()

    async def _write_once(self, saying: "Sequence[asyncio.Future[None]]") -> bool:
        self._q += 1
        write = ShareWrite(self._state_epoch, self.epoch, self._q, *self._state.begin_write())
        asked = self._asks()
        try:
            await self._around.persister.write(*self.name, write)
        except KafkaError as error:
            self._around.metrics.write_errors.inc()
            _log.warning("! share state not stored", extra={**self.name._asdict(), "reason": str(error)})
            self._state.failed(self.limits, loop_time())
            for one in saying:
                _fail(one, told(error))
            if ends(error):
                self.close(told(error))
            self._set_timer()
            self._wake()
            return False
        except BaseException:
            self.close(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
            for one in saying:
                _fail(one, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
            raise
        self._confirmed(*asked)
        self._state.written()
        self._count_ranges()
        for one in saying:
            if not one.done():
                one.set_result(None)
        self._wake()
        return True


def _fail(answer: "asyncio.Future[None]", error: KafkaError) -> None:
    if not answer.done():
        answer.set_exception(error.bare())


def _spans(data: bytes) -> list[Span]:
    headers = [codec.read_header(one) for one in entries.split(memoryview(data))]
    return [(one.base_offset, one.base_offset + one.last_offset_delta) for one in headers]


def _has_any(spans: Sequence[Span], firsts: Sequence[int], acquired: Sequence[Acquired]) -> bool:
    """Whether any of these offsets is acquired; `firsts`: of what is, which is in order."""
    at = bisect_right(firsts, spans[-1][1]) - 1
    return at >= 0 and acquired[at].last >= spans[0][0]
