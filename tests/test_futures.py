import asyncio
from contextlib import suppress

import pytest

from bridge.futures import following, within


def doubled(answer: "asyncio.Future[int]", value: int) -> None:
    answer.set_result(2 * value)


async def test_it_has_what_is_made_of_the_result() -> None:
    source: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    answer = following(source, doubled)
    source.set_result(2)
    assert await answer == 4


async def test_it_fails_and_is_cancelled_with_the_other() -> None:
    failing: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    cancelled: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    answers = following(failing, doubled), following(cancelled, doubled)
    failing.set_exception(ValueError("no"))
    cancelled.cancel()
    with pytest.raises(ValueError, match="no"):
        await answers[0]
    with pytest.raises(asyncio.CancelledError):
        await answers[1]


async def test_what_is_raised_in_the_making_is_its_error() -> None:
    source: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def refuse(answer: "asyncio.Future[int]", value: int) -> None:
        raise KeyError(value)

    answer = following(source, refuse)
    source.set_result(3)
    with pytest.raises(KeyError, match="3"):
        await answer


async def test_cancelling_it_leaves_the_other_alone() -> None:
    source: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    answer = following(source, doubled)
    answer.cancel()
    with suppress(asyncio.CancelledError):
        await answer
    source.set_result(2)
    assert await source == 2


async def test_what_takes_too_long_goes_on() -> None:
    may_end, ended = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        await may_end.wait()
        ended.set()

    with pytest.raises(TimeoutError):
        await within(0, work())
    may_end.set()
    await ended.wait()


async def test_what_is_in_time_gives_its_result_or_its_error() -> None:
    async def work(divisor: int) -> float:
        return 1 / divisor

    assert await within(60_000, work(2)) == 0.5
    with pytest.raises(ZeroDivisionError):
        await within(60_000, work(0))


async def test_what_fails_unseen_troubles_nobody() -> None:
    may_fail, failed = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        await may_fail.wait()
        failed.set()
        raise ValueError

    with pytest.raises(TimeoutError):
        await within(-1, work())
    may_fail.set()
    await failed.wait()
