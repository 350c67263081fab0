"""How a Fetch waits until it can be answered: for few partitions without a task, which costs more than the answer."""

import asyncio
from typing import Any, Final

from bridge.fetch.pending_fetch import PendingFetch
from bridge.kafka.fetch_wire import Response
from bridge.requests.api import Broker
from bridge.requests.encoded import EncodedBody
from bridge.requests.responses import LongPoll
from bridge.requests.session import Session
from bridge.runtime.futures import FutureWaiter, Outcome, loop_time
from bridge.runtime.scheduler import REQUESTER, Measured, loop_scheduler
from bridge.storage.read.log_end import LogEnd

THROTTLE_MS: Final = 100  # throttle_time_ms, where too many Fetches wait
_LONG_PAUSE_SECONDS: Final = 0.004
"""Shorter ones are not waited for: those of looks that took less than a millisecond."""

Answer = Response | EncodedBody


def answered(fetch: PendingFetch, broker: Broker, session: Session, now: float) -> Answer | LongPoll[Answer]:
    """The answer, or the promise of one; `fetch` is short. `now`: loop time."""
    answer = fetch.look(now)
    if answer is not None:
        return answer
    waits = broker.waiting_fetches.acquire(len(fetch.parts))
    if not waits:
        fetch.wait_no_more(now)
        answer = fetch.look(now)
        if answer is not None:
            return _throttled(answer)
    return LongPoll(_Waiting(fetch, broker, session, counted=waits).future)


async def answered_in_turns(fetch: PendingFetch, broker: Broker, session: Session) -> Answer:
    """The answer to a Fetch of any size."""
    count = len(fetch.parts)
    waits = broker.waiting_fetches.acquire(count)
    if not waits:
        fetch.wait_no_more(loop_time())
    try:
        answer = await _in_turns(fetch, broker, session)
    finally:
        if waits:
            broker.waiting_fetches.release(count)
    return answer if waits else _throttled(answer)


def _throttled(answer: Answer) -> Answer:
    if isinstance(answer, Response):
        answer.throttle_time_ms = THROTTLE_MS
    return answer


async def _in_turns(fetch: PendingFetch, broker: Broker, session: Session) -> Answer:
    loop = asyncio.get_running_loop()
    while True:
        grown = FutureWaiter()
        logs = [part.log for part in fetch.parts if part.log is not None]
        # the waiter is added before looking, so that no record in between is missed
        for log in logs:
            log.end.add_waiter(grown)
        session.pending_reads.set_waiter(grown)
        broker.cluster.add_waiter(grown)
        try:
            answer = await fetch.look_in_turns(loop.time())
            if answer is not None:
                return answer
            timer = loop.call_at(fetch.until, grown.woken)
            try:
                await grown.future
            finally:
                timer.cancel()
        finally:
            broker.cluster.remove_waiter(grown)
            for log in logs:
                log.end.remove_waiter(grown)
        if fetch.pause_seconds > _LONG_PAUSE_SECONDS:
            await asyncio.sleep(fetch.pause_seconds)


class WokenInTurn:
    """A waiter that looks soon after it was woken, in its requester's turn; once, however often it was woken."""

    __slots__ = ("__weakref__", "_looks", "_loop", "_share")

    def __init__(self) -> None:
        """It waits for who runs now."""
        self._loop = asyncio.get_running_loop()
        self._share = REQUESTER.get()
        self._looks = False  # soon

    @property
    def is_over(self) -> bool:
        """Whether it waits for nothing any more."""
        raise NotImplementedError

    @property
    def pause_seconds(self) -> float:
        """How long it waits before it looks; less than some milliseconds counts as none."""
        return 0.0

    def look(self) -> None:
        """Look whether what has happened is enough; it may be woken again from now on."""
        raise NotImplementedError

    def woken(self, by: object) -> None:
        """Look soon."""
        if self._looks:
            return
        self._looks = True
        pause = self.pause_seconds
        if pause > _LONG_PAUSE_SECONDS:
            self._loop.call_later(pause, self._take_turn)
        else:
            self._loop.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        if self.is_over:
            return
        scheduler = loop_scheduler()
        if scheduler.may_run(self._share):
            self._look()
        else:
            scheduler.call_in_turn(self._share, self._in_turn)

    def _in_turn(self) -> None:
        if not self.is_over:
            loop_scheduler().serve(self._share)
            self._look()

    def _look(self) -> None:
        REQUESTER.set(self._share)
        self._looks = False
        with Measured(self._share):  # the answer's way out, too: what is called then begins no request
            self.look()


class _Waiting(WokenInTurn):
    """Looks again when something has happened that it waits for, until there is the answer or it is given up."""

    __slots__ = (
        "_at_all", "_broker", "_counted", "_ends", "_fetch", "_grown", "_session", "_timer", "_until", "future",
    )  # fmt: skip

    def __init__(self, fetch: PendingFetch, broker: Broker, session: Session, *, counted: bool) -> None:
        """`counted`: among the Fetches that wait. Nothing has happened since the first look: it was just now."""
        super().__init__()
        self.future: Outcome[Any] = Outcome()
        self._fetch, self._broker, self._session, self._counted = fetch, broker, session, counted
        self._grown: dict[LogEnd, None] = {}  # ends that have woken it, and will not again
        self._at_all = False  # it is to look at all partitions
        self._ends = [part.log.end for part in fetch.parts if part.log is not None]
        for end in self._ends:
            end.add_waiter(self)
        session.pending_reads.set_waiter(self)
        broker.cluster.add_waiter(self)
        self._wait_until(fetch.until)
        self.future.call_at_once(self._ended)

    def woken(self, by: object) -> None:
        """Look soon: at one log, if it is the end of that which has woken it."""
        if isinstance(by, LogEnd):
            self._grown[by] = None
        else:
            self._at_all = True
        super().woken(by)

    @property
    def is_over(self) -> bool:
        """Whether it has its answer, or is given up."""
        return self.future.done()

    @property
    def pause_seconds(self) -> float:
        """As `PendingFetch.pause_seconds`."""
        return self._fetch.pause_seconds

    def look(self) -> None:
        """Look at the logs that have grown, or at all."""
        grown, self._grown = self._grown, {}
        at_all, self._at_all = self._at_all, False
        try:
            answer = self._fetch.look(self._loop.time(), None if at_all else grown)
        except Exception as error:  # noqa: BLE001 - whatever it is, the connection must get it
            return self.future.set_exception(error)
        if answer is not None:
            return self.future.set_result(answer if self._counted else _throttled(answer))
        for end in grown:
            end.add_waiter(self)
        if self._fetch.until != self._until:
            self._timer.cancel()
            self._wait_until(self._fetch.until)

    def _wait_until(self, until: float) -> None:
        self._until = until
        self._timer = self._loop.call_at(until, self._timed_out)

    def _timed_out(self) -> None:
        self._until = float("-inf")  # it may be early by the precision of the loop's timers, and is set again then
        self.woken(None)

    def _ended(self, _: Outcome[Any]) -> None:
        self._timer.cancel()
        for end in self._ends:
            end.remove_waiter(self)
        self._broker.cluster.remove_waiter(self)
        self._session.pending_reads.set_waiter(None)
        if self._counted:
            self._broker.waiting_fetches.release(len(self._fetch.parts))
