"""Futures that come out as others do, by callbacks: a task for each would cost as much as what it waits for."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

_S = TypeVar("_S")
_R = TypeVar("_R")


def following(source: "asyncio.Future[_S]", take: "Callable[[asyncio.Future[_R], _S], None]") -> "asyncio.Future[_R]":
    """A future that is cancelled or fails as `source`, whose result `take` makes it of otherwise; what `take` raises is
    its error. Cancelling it leaves `source` alone."""
    answer: asyncio.Future[_R] = asyncio.get_running_loop().create_future()

    def done(source: "asyncio.Future[_S]") -> None:
        if answer.done():
            source.cancelled() or source.exception()  # seen: nobody else asks
        elif source.cancelled():
            answer.cancel()
        elif (error := source.exception()) is not None:
            answer.set_exception(error)
        else:
            try:
                take(answer, source.result())
            except Exception as failure:  # noqa: BLE001 - whatever it is, who waits must be told
                answer.set_exception(failure)

    source.add_done_callback(done)
    return answer


_going_on: set["asyncio.Future[Any]"] = set()


async def within(timeout_ms: int, work: Coroutine[Any, Any, _R]) -> _R:
    """What `work` gives; TimeoutError when it takes longer.

    It then goes on unseen, so that what it changes is not left by halves.
    """
    task = asyncio.ensure_future(work)
    _going_on.add(task)  # the loop itself would let go of it
    task.add_done_callback(_seen)
    return await asyncio.wait_for(asyncio.shield(task), max(timeout_ms, 1) / 1000)


def _seen(task: "asyncio.Future[Any]") -> None:
    _going_on.discard(task)
    task.cancelled() or task.exception()  # nobody may wait any more
