"""Futures that follow others or call at once, work shared by all its callers, and many coroutines run in turns."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Hashable, Iterable, Sequence
from itertools import chain, islice
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar, cast

from bridge.runtime.scheduler import REQUESTER, Metered, loop_scheduler

TURN = 0.002
"""Seconds that one request may hold the event loop at a time."""
_FEW, _AT_ONCE = 16, 256
_LOOK_EVERY = 32
_CHUNK = 512

_K = TypeVar("_K", bound=Hashable)
_S = TypeVar("_S")
_R = TypeVar("_R")


class Waiter(Protocol):
    """Who waits for something that happens elsewhere."""

    def woken(self, by: object) -> None:
        """It has happened; called in the midst of it, so what follows from it is done later."""


class FutureWaiter:
    """A waiter that waits with a future."""

    __slots__ = ("future",)

    def __init__(self) -> None:
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def woken(self, by: object = None) -> None:
        """Let who awaits the future go on."""
        if not self.future.done():
            self.future.set_result(None)


def loop_time() -> float:
    """The event loop's time."""
    return asyncio.get_running_loop().time()


def retrieve_exception(done: "asyncio.Future[Any]") -> None:
    """A callback that retrieves the exception: all callers may be gone, and asyncio would log that it never was."""
    if not done.cancelled():
        done.exception()


def failed(done: "asyncio.Future[Any]") -> bool:
    """Whether it is done without a result."""
    return done.cancelled() or done.exception() is not None


def following(source: "asyncio.Future[_S]", take: "Callable[[asyncio.Future[_R], _S], None]") -> "asyncio.Future[_R]":
    """A future that is cancelled or fails as `source` does. Otherwise `take` sets its result from that of `source`;
    what `take` raises is its exception. Cancelling it does not cancel `source`."""
    answer: asyncio.Future[_R] = asyncio.get_running_loop().create_future()

    def done(source: "asyncio.Future[_S]") -> None:
        if answer.done():
            retrieve_exception(source)
        elif source.cancelled():
            answer.cancel()
        elif (error := source.exception()) is not None:
            answer.set_exception(error)
        else:
            try:
                take(answer, source.result())
            except Exception as failure:  # noqa: BLE001 - whatever it is, the caller must get it
                answer.set_exception(failure)

    source.add_done_callback(done)
    return answer


async def wait_shared(work: "asyncio.Future[_R]", closed: Exception) -> _R:
    """The result of work that others wait for, too. A caller that is cancelled does not cancel it; raises `closed` if
    it is cancelled itself."""
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if work.cancelled() and task is not None and not task.cancelling():
            raise closed from None
        raise


async def in_turns(elements: Iterable[_R]) -> AsyncIterator[_R]:
    """The elements; if there are many, other requests run in between."""
    for number, element in enumerate(elements, 1):
        yield element
        if not number % _LOOK_EVERY:
            await yield_turn()


async def in_chunks(elements: Sequence[_R]) -> AsyncIterator[Sequence[_R]]:
    """The elements in chunks; other requests run in between."""
    for at in range(0, len(elements), _CHUNK):
        if at:
            await yield_turn()
        yield elements[at : at + _CHUNK]


async def yield_turn() -> None:
    """Let other requests run first, if it is their turn."""
    await loop_scheduler().yield_turn(REQUESTER.get())


async def gathered(works: Iterable[Coroutine[Any, Any, _R]]) -> list[_R]:
    """As `asyncio.gather`, of any number: a limited number runs concurrently, and other requests run in between."""
    rest = iter(works)
    first = list(islice(rest, _FEW))
    if len(first) == 1:  # without a task, each of which costs three iterations of the event loop
        return [await first[0]]
    if len(first) < _FEW:
        return list(await asyncio.gather(*first))
    first += islice(rest, _AT_ONCE - _FEW)
    begun = iter(first)
    try:
        return await _gathered_many(chain(begun, rest), len(first))
    finally:
        for work in begun:  # cancelled before its turn came
            work.close()


async def gathered_for(keys: Iterable[_K], ask: Callable[[_K], Coroutine[Any, Any, _R]]) -> dict[_K, _R]:
    """The result of `ask` for each key; a key that is there twice is asked for once."""
    once = dict.fromkeys(keys)
    return dict(zip(once, await gathered(map(ask, once)), strict=True))


async def _gathered_many(works: Iterable[Coroutine[Any, Any, _R]], at_once: int) -> list[_R]:
    found: dict[int, _R] = {}
    numbered = enumerate(works)
    scheduler, share = loop_scheduler(), REQUESTER.get()

    async def work_off() -> None:
        while True:
            await scheduler.yield_turn(share)
            number, work = next(numbered, (-1, None))
            if work is None:
                return
            found[number] = await Metered(work, share)

    await asyncio.gather(*(work_off() for _ in range(at_once)))
    return [found[number] for number in range(len(found))]


class Together(asyncio.TaskGroup):
    """Tasks side by side, of which none is left where one fails: `asyncio.TaskGroup`, but it raises the first failure
    itself and not a group."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        failure: BaseException | None = None
        try:
            await super().__aexit__(kind, error, traceback)
        except BaseExceptionGroup as failed:
            failure = failed.exceptions[0]
        if failure is not None:
            try:
                raise failure  # not in the handler: it keeps the cause that it has
            finally:
                del failure  # its traceback has this frame


async def side_by_side(*works: Coroutine[Any, Any, None]) -> None:
    """Run all of them `Together`."""
    async with Together() as tasks:
        for work in works:
            tasks.create_task(work)


class Rest(Generic[_R]):
    """What is left of a coroutine that `started` has begun; to be awaited once, or closed."""

    def __init__(self, work: Coroutine[Any, Any, _R], waited_for: Any) -> None:
        """`waited_for`: what it has yielded: the future that it waits for, or None."""
        self._work, self._waited_for = work, waited_for
        if waited_for is not None:
            waited_for._asyncio_future_blocking = False  # no task has it yet, and others may await it

    def close(self) -> None:
        """It is not wanted any more."""
        self._work.close()

    def __await__(self) -> Generator[Any, Any, _R]:
        work, waited_for = self._work, self._waited_for
        if waited_for is not None:
            waited_for._asyncio_future_blocking = True
        try:
            yield waited_for
        except BaseException as error:  # noqa: BLE001 - the work decides what becomes of it
            try:
                waited_for = work.throw(error)
            except StopIteration as end:
                return cast(_R, end.value)
            return (yield from Rest(work, waited_for).__await__())
        return (yield from work.__await__())


def started(work: Coroutine[Any, Any, _R]) -> "_R | Rest[_R]":
    """The result of a coroutine that has nothing to wait for, or its rest; raises what it raises before it waits.

    It has no task until it waits: `asyncio.timeout` and task groups need one (`own_task`).
    """
    try:
        waited_for = work.send(None)
    except StopIteration as end:
        result: _R = end.value  # without `cast`, which is a call
        return result
    return Rest(work, waited_for)


def at_once(work: Coroutine[Any, Any, _R]) -> _R | None:
    """The result of a coroutine that has nothing to wait for; None where it has: then it is closed at its first wait.

    What it has begun until then is undone or lost, so it begins nothing: `own_task` may be its first wait.
    """
    result = started(work)
    if isinstance(result, Rest):
        result.close()
        return None
    return result


async def own_task() -> None:
    """From here on a coroutine that was `started` has a task."""
    await asyncio.sleep(0)


class SharedQuery(Generic[_R]):
    """Shares queries of something that changes: each caller gets the result of a query that began after its call.

    Two are enough at any time: the one that runs, and the next, for all callers since it began.
    """

    def __init__(self, look: Callable[[], Awaitable[_R]]) -> None:
        self._look = look
        self._running: asyncio.Task[_R] | None = None
        self._next: asyncio.Task[_R] | None = None

    async def look(self) -> _R:
        """The result of a query that begins from now on; raises what it raises."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_task(self._run(self._running))
            self._next.add_done_callback(retrieve_exception)
        return await asyncio.shield(self._next)

    async def _run(self, before: "asyncio.Task[_R] | None") -> _R:
        if before is not None:
            await asyncio.wait((before,))
        self._running, self._next = self._next, None
        return await self._look()


class Cached(Generic[_R]):
    """A result that is valid for some seconds, queried once for all callers."""

    def __init__(self, ask: Callable[[], Awaitable[_R]], seconds: float) -> None:
        self._ask = ask
        self._seconds = seconds
        self._answer: asyncio.Task[_R] | None = None
        self._until = float("-inf")

    @property
    def is_current(self) -> bool:
        """Whether there is a result that is valid now."""
        answer = self._answer
        return answer is not None and answer.done() and not failed(answer) and loop_time() <= self._until

    async def get(self) -> _R:
        """The result; raises what the query raised, which is not cached."""
        answer = self._answer
        if answer is None or (answer.done() and not self.is_current):
            answer = self._answer = asyncio.get_running_loop().create_task(self._fetch())
            answer.add_done_callback(retrieve_exception)
        return await asyncio.shield(answer)

    def latest(self) -> _R | None:
        """The result, if there is one that is valid now."""
        return self._answer.result() if self._answer is not None and self.is_current else None

    def forget(self) -> None:
        """The next call queries again."""
        self._answer = None

    async def _fetch(self) -> _R:
        answer = await self._ask()
        self._until = asyncio.get_running_loop().time() + self._seconds
        return answer


_going_on: set["asyncio.Future[Any]"] = set()


async def within(timeout_ms: int, work: Coroutine[Any, Any, _R]) -> _R:
    """The result of `work`; TimeoutError when it takes longer.

    It then goes on in the background, so that a change is not left half done.
    """
    task = asyncio.ensure_future(work)
    _going_on.add(task)  # the event loop keeps only a weak reference
    task.add_done_callback(_going_on.discard)
    task.add_done_callback(retrieve_exception)
    return await asyncio.wait_for(asyncio.shield(task), max(timeout_ms, 1) / 1000)


class Outcome(asyncio.Future[_R]):
    """A future that can call at once when it is done: in the midst of what makes it done, which is to have nothing left
    to do then. The event loop's next iteration, for which callbacks of other futures wait, costs as much as they do."""

    _calls: "Sequence[Callable[[Outcome[_R]], object]]" = ()  # of the class: a constructor would take most of the time

    def call_at_once(self, call: "Callable[[Outcome[_R]], object]") -> None:
        """Call it when this is done, now if it is, before the callbacks of `add_done_callback`."""
        if self.done():
            self._call(call)
        else:
            self._calls = (*self._calls, call)

    def set_result(self, result: _R, /) -> None:
        """As any future's, and call."""
        super().set_result(result)
        if self._calls:
            self._call_all()

    def set_exception(self, exception: type | BaseException, /) -> None:
        """As any future's, and call."""
        super().set_exception(exception)
        self._call_all()

    def cancel(self, msg: Any = None) -> bool:
        """As any future's, and call."""
        cancelled = super().cancel(msg)
        if cancelled:
            self._call_all()
        return cancelled

    def _call_all(self) -> None:
        calls, self._calls = self._calls, ()
        for call in calls:
            self._call(call)

    def _call(self, call: "Callable[[Outcome[_R]], object]") -> None:
        try:
            call(self)
        except Exception as error:  # noqa: BLE001 - who has made it done is not to blame
            message = "a call at a future's outcome failed"
            self.get_loop().call_exception_handler({"message": message, "exception": error, "future": self})


def call_when_done(future: "asyncio.Future[_R]", call: "Callable[[asyncio.Future[_R]], object]") -> None:
    """Call at once if the future can do that, else in the event loop's next iteration after it is done."""
    if isinstance(future, Outcome):
        future.call_at_once(call)
    else:
        future.add_done_callback(call)
