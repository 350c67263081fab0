"""Shares the event loop among connections by the time they have used: a connection that has used little goes first.

Start-time fair queueing: each connection has a virtual clock that advances by the event loop's time it uses, and the
one whose clock is furthest behind goes next. One that was idle starts at the clock of the last one served, so it goes
before all that have used theirs, and saves nothing up. Between two slices the loop iterates: sockets are read, receipts
and timers come in. If no connection waits, nothing is queued.

What a request without awaits counts is the mean of its connection's last ones. The time of a single one is noise as
much as work: a processor taken away, a collection of garbage. Among a hundred connections, one that is charged twice
its usual time would wait for a whole round of all others.

Appends count less where few wait among many others: together they have up to half of the time. With a hundred consumers
of a topic its one producer would have a hundredth, but what it sends is what they wait for. A client with a few
requests on its way sends no more until one is answered, while the answer to a Fetch that waits its turn grows.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import ContextVar
from functools import partial
from heapq import heappop, heappush
from typing import Any, Generic, TypeVar, cast
from weakref import WeakKeyDictionary

SLICE_SECONDS = 0.001
"""How long work that never awaits may hold the event loop before it iterates: of all connections together."""
READ_BYTES = 512 * 1024
"""Of large requests that one iteration of the loop may read: half a millisecond."""
_ITERATIONS = 3
"""Of the loop between two slices: what takes several, as all that asks Pulsar, waits for no slice before each."""
_USUAL_OF = 16
"""How many requests the running mean of a connection remembers."""
_AT_ONCE = 16
"""How many tasks are woken for one slice; one that is too late for it keeps its place."""

_R = TypeVar("_R")
_clock = time.perf_counter


class LoopShare:
    """One requester's part of the event loop's time."""

    __slots__ = ("__weakref__", "began", "spent", "used", "usual")

    def __init__(self) -> None:
        self.used = 0.0
        """Its virtual clock: seconds."""
        self.usual = 0.0
        """What one of its requests takes: the seconds that count for the next one, a running mean."""
        self.spent = 0.0
        """The seconds it has had, in threads as well."""
        self.began = 0.0
        """When what runs for it now on the event loop began; 0: nothing does."""


REQUESTER: ContextVar[LoopShare] = ContextVar("requester", default=LoopShare())  # noqa: B039 - one for the process's own work
"""On whose behalf something runs: whose time is used, and with whom it takes turns (`fairness`). Tasks inherit it."""


class LoopScheduler:
    """Decides which connection runs next on one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._now = 0.0  # the clock of the last one served
        self._until = 0.0
        self._slicing = False
        self._is_first = False  # what is called now, of its slice
        self._woken = 0  # in this slice
        self._waiting: list[tuple[float, int, bool, Callable[[], object]]] = []
        self._came = 0
        self._appends = 0  # of those that wait

    def may_run(self, share: LoopShare) -> bool:
        """Whether the connection may run now; if not, await `wait_turn`."""
        if not self._slicing:
            self._begin()
        elif self._waiting or _clock() > self._until:
            return False
        self.serve(share)
        return True

    async def wait_turn(self, share: LoopShare) -> None:
        """Wait until it is the connection's turn."""
        share.used = max(share.used, self._now)
        while True:
            woken: asyncio.Future[bool] = self._loop.create_future()
            self._push(share, partial(self._wake, woken))
            if await woken or _clock() <= self._until:
                return self.serve(share)

    @property
    def is_busy(self) -> bool:
        """Whether others wait for their turn, or this one's time is over."""
        return self._slicing and (bool(self._waiting) or _clock() > self._until)

    def call_in_turn(self, share: LoopShare, call: Callable[[], object], *, appends: bool = False) -> None:
        """Call it when it is the connection's turn: that costs less than a task that waits for it. What it does without
        awaiting is done in the slice; it begins with `serve`. `appends`: it is a request that appends records."""
        if share.used < self._now:
            share.used = self._now
        self._push(share, call, appends=appends)

    def count(self, share: LoopShare, *, appends: bool) -> None:
        """Count the time since `share.began` as that of a request of the connection; `appends` as in `call_in_turn`."""
        elapsed = _clock() - share.began
        used = share.usual = share.usual + (elapsed - share.usual) / _USUAL_OF
        if appends:
            others, alike = len(self._waiting) - self._appends, 1 + self._appends
            if others > alike:
                used *= alike / others
        share.used += used
        share.spent += elapsed
        share.began = 0.0

    async def yield_turn(self, share: LoopShare) -> None:
        """Wait only if others should run first."""
        if not self.may_run(share):
            await self.wait_turn(share)

    def serve(self, share: LoopShare) -> None:
        """It is this connection's turn."""
        if share.used < self._now:
            share.used = self._now
        else:
            self._now = share.used

    def _push(self, share: LoopShare, call: Callable[[], object], *, appends: bool = False) -> None:
        self._came += 1
        self._appends += appends
        heappush(self._waiting, (share.used, self._came, appends, call))
        if not self._slicing:
            self._begin()

    def _begin(self) -> None:
        self._slicing = True
        self._until = _clock() + SLICE_SECONDS
        self._loop.call_soon(self._next_slice)

    def _next_slice(self) -> None:
        """The loop has iterated once."""
        if not self._waiting:
            self._slicing = False
            return
        self._until = _clock() + SLICE_SECONDS
        self._is_first, self._woken = True, 0
        try:
            for _ in range(len(self._waiting)):
                _, _, appends, call = heappop(self._waiting)
                self._appends -= appends
                call()
                self._is_first = False
                if self._woken == _AT_ONCE or _clock() > self._until:
                    break
        finally:  # whatever one of them raised
            self._rest(_ITERATIONS)  # tasks that are woken run in the next one

    def _wake(self, waiting: "asyncio.Future[bool]") -> None:
        """The first of a slice runs even if what is called in turn behind it takes all the time, or it never would."""
        if not waiting.done():  # cancelled, with its connection
            self._woken += 1
            waiting.set_result(self._is_first)

    def _rest(self, iterations: int) -> None:
        if iterations:
            self._loop.call_soon(self._rest, iterations - 1)
        else:
            self._next_slice()


class SlicedCalls:
    """Calls at once as far as one slice goes, and the rest in later iterations of the loop: when a network fails, ten
    thousand connections are lost in one."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._until = 0.0
        self._slicing = False
        self._waiting: deque[Callable[[], object]] = deque()

    def call(self, work: Callable[[], object]) -> None:
        """Call it, soon if not now."""
        if not self._slicing:
            self._slicing = True
            self._until = _clock() + SLICE_SECONDS
            self._loop.call_soon(self._next_slice)
        elif self._waiting or _clock() > self._until:
            self._waiting.append(work)
            return
        work()

    def _next_slice(self) -> None:
        if not self._waiting:
            self._slicing = False
            return
        until = _clock() + SLICE_SECONDS
        try:
            while self._waiting and _clock() <= until:
                self._waiting.popleft()()
        finally:  # whatever one of them raised
            self._loop.call_soon(self._next_slice)


class ReadAllowance:
    """How much may be read of large requests in one iteration of the loop, by all connections together.

    While their clients send on, the loop would go on reading, and what takes others a dozen iterations took 25 ms.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._left = READ_BYTES
        self._waiting: list[Callable[[], object]] = []

    def take(self, count: int, go_on: Callable[[], object]) -> bool:
        """Count bytes that were read; False when it was the last for this iteration: `go_on` is called in the next."""
        if self._left == READ_BYTES:
            self._loop.call_soon(self._renew)
        self._left -= count
        if self._left > 0:
            return True
        self._waiting.append(go_on)
        return False

    def _renew(self) -> None:
        self._left = READ_BYTES
        waiting, self._waiting = self._waiting, []
        for go_on in waiting:
            go_on()


_of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopScheduler] = WeakKeyDictionary()


def loop_scheduler() -> LoopScheduler:
    """The scheduler of the running event loop."""
    loop = asyncio.get_running_loop()
    found = _of_loops.get(loop)
    if found is None:
        found = _of_loops[loop] = LoopScheduler(loop)
    return found


class Measured:
    """A part of a request that awaits nothing: what a request usually takes counts for its connection."""

    __slots__ = ("_share",)

    def __init__(self, share: LoopShare) -> None:
        self._share = share

    def __enter__(self) -> None:
        begin(self._share)

    def __exit__(self, *_: object) -> None:
        loop_scheduler().count(self._share, appends=False)


def begin(share: LoopShare) -> None:
    """Something runs for this requester from now on."""
    share.began = _clock()


class Metered(Generic[_R]):
    """A coroutine whose time on the event loop counts for a connection; the time it awaits does not."""

    __slots__ = ("_share", "_work")

    def __init__(self, work: Coroutine[Any, Any, _R], share: LoopShare) -> None:
        self._work = work
        self._share = share

    def __await__(self) -> Generator[Any, Any, _R]:
        work, share = self._work, self._share
        argument: Any = None
        error: BaseException | None = None
        while True:
            began = share.began = _clock()
            try:
                # What fails has this frame in its traceback: it must not be among what is named here, nor what has it.
                if error is None:
                    sent, argument = argument, None
                    waited_for = work.send(sent)
                else:
                    thrown, error = error, None
                    try:
                        waited_for = work.throw(thrown)
                    finally:
                        del thrown
            except StopIteration as end:
                return cast(_R, end.value)
            finally:
                elapsed = _clock() - began
                share.used += elapsed
                share.spent += elapsed
                share.began = 0.0
            try:
                argument = yield waited_for
            except BaseException as failure:  # noqa: BLE001 - handed on to the coroutine
                error = failure
            finally:
                del waited_for
