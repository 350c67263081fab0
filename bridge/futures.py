"""Futures that come out as others do, by callbacks: a task for each would cost as much as what it waits for."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

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
