"""An event loop without I/O, whose clock is virtual and whose order is chosen by a seed where asyncio leaves it open.

What asyncio promises, and a program may rely on (documentation of `asyncio.loop.call_soon` and of futures):

 1. Callbacks of `call_soon` run in the order in which they were registered, each once, and none before its caller has
    returned. A future's callbacks, and the wake-ups of tasks that wait for it, are registered by `call_soon` when it
    is done, in the order in which they were added.
 2. What one callback or one step of a task does, up to its next `await` that waits, nothing comes between.
 3. A timer does not run before its time. Bytes of one connection come in order, cut anywhere.

What it leaves open is when everything else comes in between: bytes and ends of different connections, timers that are
due, results of threads, and how long a round of callbacks takes. A loop runs rounds. What is ready at the beginning of
a round is run in that round, and what that registers is run in the next. Between two rounds the loop asks for what has
come from outside. asyncio's own loop puts that behind the callbacks that are ready, timers last; uvloop runs it before
them, timers first. Both are lawful, so both orders are tried. Whatever order this loop shows in its first mode, a real
loop can show.

`Order.ASYNCIO`, the default, permutes exactly that: the moments at which outside events are met, between rounds of
callbacks that are first in, first out. With network, broker and threads at random delays, and a clock that moves
between rounds, this is what differs between two runs of a real process.

`Order.ANY` runs the ready callbacks of a round, and those that they register, in any order at all, except that the
callbacks of one future keep theirs and a connection's events theirs. A real loop does not show these orders: a task
that overtakes another here would need an `await` less there. What fails only so relies on how many turns of the loop
something takes. That breaks with the next `await` that is put in, so it is worth knowing and is no fault yet.

Other promises of the loop: when nothing is ready the clock jumps to the next timer or outside event; when there is none
of these either, nothing will ever happen, and `Deadlock` says who waits. Threads (`asyncio.to_thread`) run inline, at a
later time. Futures and tasks hash by numbers of the run, so that sets of them have an order that the seed gives.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from enum import Enum
from functools import partial
from typing import Any

from tests.schedules.chance import Chance

PROCESS: ContextVar[str] = ContextVar("process")
"""Which process of a scenario runs this: tasks and timers have it from who has made them."""
START = 1000.0
"""The clock at the beginning: no machine has been up for 0 seconds."""
_ROUND_SECONDS = (0.000_001, 0.000_02, 0.000_2)
_PAUSE_SECONDS = 1.5
_LOOK_SECONDS = 1e-9


class Order(Enum):
    """Which callbacks may be permuted; see the module."""

    ASYNCIO = "asyncio"
    ANY = "any"


class Deadlock(AssertionError):
    """Nothing is ready and nothing is to come, but the run is not over."""


class StepLimit(AssertionError):
    """The run takes far more callbacks than any sound one: something turns round and round."""


class _Future(asyncio.Future[Any]):
    """Hashes by a number of the run."""

    def __init__(self, number: int, *, loop: "ScheduleLoop") -> None:
        self._number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class _Task(asyncio.Task[Any]):
    """Hashes by a number of the run."""

    def __init__(self, number: int, coro: Any, **options: Any) -> None:
        self._number = number  # the task is in a set before it is made
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self._number


class ScheduleLoop(asyncio.BaseEventLoop):
    """See the module."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]
    _stopping: bool
    _timer_cancelled_count: int

    def __init__(self, chance: Chance, order: Order = Order.ASYNCIO, most_steps: int = 300_000) -> None:
        self._now = START
        super().__init__()
        self.set_debug(False)
        self.steps = 0
        self._tasks = 0
        self.order = order
        self._chance = chance
        self._most_steps = most_steps
        self._outside: list[tuple[float, float, Callable[..., None], tuple[Any, ...]]] = []
        self._arrived: list[asyncio.Handle] = []
        self._round_seconds = chance.choice(_ROUND_SECONDS)
        self._pauses = chance.choice((0.0, 0.0, 0.0005))
        self.set_task_factory(self._make_task)  # type: ignore[arg-type]
        self._stopped: dict[str, list[asyncio.Handle]] = {}

    @property
    def now(self) -> float:
        """The virtual clock, for those who are not in the loop."""
        return self._now

    # --- what runs outside of the loop ------------------------------------------------------------------------------

    def after(self, seconds: float, callback: Callable[..., None], *args: Any) -> None:
        """Have something happen outside, in the kernel, a thread or another process, so many seconds from now."""
        heapq.heappush(self._outside, (self._now + seconds, self._chance.random(), callback, args))

    def arrive(self, callback: Callable[..., object], *args: Any) -> None:
        """From outside: the loop is to run this between two rounds, as it does with bytes that have come."""
        context = getattr(getattr(callback, "__self__", None), "context", None)  # a connection's: of who has made it
        self._arrived.append(asyncio.Handle(callback, args, self, context))

    # --- processes that are stopped ---------------------------------------------------------------------------------

    def stop_process(self, name: str) -> None:
        """SIGSTOP: from now on nothing runs that tasks and timers of this process have registered (`PROCESS`)."""
        self._stopped.setdefault(name, [])

    def continue_process(self, name: str) -> None:
        """SIGCONT: what was ready meanwhile runs now."""
        self._ready.extend(self._stopped.pop(name, []))

    def _is_stopped(self, handle: asyncio.Handle) -> bool:
        held = self._stopped.get(handle._context.get(PROCESS, ""))  # type: ignore[attr-defined]
        if held is None:
            return False
        held.append(handle)
        return True

    # --- what asyncio asks of a loop --------------------------------------------------------------------------------

    def time(self) -> float:
        """The virtual clock; it moves with each look at it, so that timers set one after another are due so."""
        self._now += _LOOK_SECONDS
        return self._now

    def create_future(self) -> asyncio.Future[Any]:
        """A future whose place in a set the seed gives."""
        return _Future(self._chance.getrandbits(60), loop=self)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Run it later in one go, as a thread does that nothing else looks at, and tell of it later still."""
        answer: asyncio.Future[Any] = self.create_future()
        self.after(self._chance.delay("thread"), self._work, answer, partial(func, *args))
        return answer

    def _work(self, answer: asyncio.Future[Any], func: Callable[[], Any]) -> None:
        try:
            outcome = partial(_resolve, answer, func())
        except Exception as error:  # noqa: BLE001 - who waits is told
            outcome = partial(_reject, answer, error)
        self.after(self._chance.delay("thread"), self.arrive, outcome)

    def _make_task(self, loop: "ScheduleLoop", coro: Any, **options: Any) -> asyncio.Task[Any]:
        self._tasks += 1
        options["name"] = options.get("name") or f"Task-{self._tasks}"
        return _Task(self._chance.getrandbits(60), coro, loop=loop, **options)

    def _write_to_self(self) -> None:
        """No sleeper that has to be woken is left."""

    def _run_once(self) -> None:
        self._meet_outside()
        ready = self._ready
        for _ in range(len(ready)):
            if self.order is Order.ASYNCIO:
                handle = ready.popleft()
            elif ready:
                handle = self._pick()
            if self._stopped and self._is_stopped(handle):
                continue
            if not handle.cancelled():
                self.steps += 1
                handle._run()
        if self.steps > self._most_steps:
            raise StepLimit(f"{self.steps} callbacks\n{pending(self)}")

    # --- the clock and the order ------------------------------------------------------------------------------------

    def _meet_outside(self) -> None:
        """Move the clock, let happen what is due, and put what arrived before or behind what is ready."""
        chance, outside = self._chance, self._outside
        while self._scheduled and self._scheduled[0].cancelled():
            heapq.heappop(self._scheduled)._scheduled = False  # type: ignore[attr-defined]
            self._timer_cancelled_count -= 1
        if self._ready or self._stopping:
            self._now += self._round_seconds * 2 * chance.random()
            if self._pauses and chance.random() < self._pauses:
                self._now += _PAUSE_SECONDS * chance.random()
        else:
            self._jump()
        now = self._now
        while outside and outside[0][0] <= now:
            _, _, callback, args = heapq.heappop(outside)
            callback(*args)
        timers = self._due() if self._scheduled and self._scheduled[0].when() <= now else []
        if not self._arrived and not timers:
            return
        arrived, self._arrived = self._arrived, []
        if chance.random() < 0.5:  # as uvloop
            self._ready.extendleft(reversed([*timers, *arrived]))
        else:  # as asyncio
            self._ready.extend([*arrived, *timers])

    def _jump(self) -> None:
        """Nothing is ready: the clock goes to the next thing that is to happen."""
        times = [self._outside[0][0]] if self._outside else []
        if self._scheduled:
            times.append(self._scheduled[0].when())
        if not times:
            raise Deadlock(f"nothing will ever happen\n{pending(self)}")
        self._now = max(self._now, min(times))

    def _due(self) -> list[asyncio.Handle]:
        """The timers whose time has come."""
        due: list[asyncio.Handle] = []
        while self._scheduled and self._scheduled[0].when() <= self._now:
            timer = heapq.heappop(self._scheduled)
            timer._scheduled = False  # type: ignore[attr-defined]
            if timer.cancelled():
                self._timer_cancelled_count -= 1
            else:
                due.append(timer)
        return due

    def _pick(self) -> asyncio.Handle:
        """Any of the ready callbacks, but of one future's or connection's the first."""
        chosen = self._ready[self._chance.randrange(len(self._ready))]
        group = _group(chosen)
        for at, handle in enumerate(self._ready):
            if handle is chosen or (group is not None and _group(handle) is group):
                del self._ready[at]
                return handle
        raise AssertionError("the chosen one is among them")


def _group(handle: asyncio.Handle) -> object | None:
    """What a callback must keep its place among: the future that it is called with, or the connection it belongs to."""
    args = handle._args
    if args and isinstance(args[0], asyncio.Future):
        return args[0]
    owner = getattr(handle._callback, "__self__", None)  # type: ignore[attr-defined]
    return owner if isinstance(owner, asyncio.BaseTransport | asyncio.BaseProtocol) else None


def _resolve(answer: asyncio.Future[Any], result: Any) -> None:
    if not answer.done():
        answer.set_result(result)


def _reject(answer: asyncio.Future[Any], error: BaseException) -> None:
    if not answer.done():
        answer.set_exception(error)


def pending(loop: asyncio.AbstractEventLoop) -> str:
    """The tasks that are not done and where each waits."""
    tasks = sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name())
    if not tasks:
        return "no task is pending"
    return "pending tasks:\n" + "\n".join(f"  {task.get_name()}: {_place(task.get_coro())}" for task in tasks)


def _place(waiting: Any) -> str:
    """The innermost functions of a coroutine that waits."""
    frames = []
    while waiting is not None and (frame := getattr(waiting, "cr_frame", None)) is not None:
        frames.append(f"{frame.f_code.co_qualname}:{frame.f_lineno}")
        waiting = waiting.cr_await
    return " > ".join(frames[-5:]) or repr(waiting)
