import asyncio
import inspect
from contextlib import suppress

import pytest

from bridge.runtime.futures import (
    Cached,
    Rest,
    SharedQuery,
    Together,
    at_once,
    following,
    gathered,
    own_task,
    side_by_side,
    started,
    within,
)


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


# --- looks and answers that are shared ---


async def test_who_asks_gets_a_look_that_began_later_and_two_are_enough() -> None:
    begun: list[asyncio.Future[None]] = []

    async def look() -> None:
        begun.append(asyncio.get_running_loop().create_future())
        await begun[-1]

    shared = SharedQuery(look)
    first = asyncio.ensure_future(shared.look())
    await turns()
    later = [asyncio.ensure_future(shared.look()) for _ in range(10)]
    await turns()
    assert len(begun) == 1
    begun[0].set_result(None)
    await first
    await turns()
    assert len(begun) == 2 and not any(one.done() for one in later)
    begun[1].set_result(None)
    await asyncio.gather(*later)
    assert len(begun) == 2


async def test_a_look_that_fails_fails_for_all_who_shared_it_and_for_no_other_caller() -> None:
    results: list[Exception | None] = [ValueError("first"), None]

    async def look() -> None:
        await asyncio.sleep(0)
        error = results.pop(0)
        if error is not None:
            raise error

    shared = SharedQuery(look)
    outcomes = await asyncio.gather(*(shared.look() for _ in range(3)), return_exceptions=True)
    assert [str(one) for one in outcomes] == ["first"] * 3
    await shared.look()


async def test_an_answer_is_asked_for_once_and_kept_for_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    async def ask() -> int:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0)
        return asked

    loop = asyncio.get_running_loop()
    cached = Cached(ask, 5.0)
    assert await asyncio.gather(*(cached.get() for _ in range(5))) == [1] * 5
    now = loop.time()
    monkeypatch.setattr(loop, "time", lambda: now + 4)
    assert await cached.get() == 1
    monkeypatch.setattr(loop, "time", lambda: now + 6)
    assert await cached.get() == 2
    cached.forget()
    assert await cached.get() == 3


async def test_a_failure_is_not_kept() -> None:
    outcomes: list[Exception | int] = [ValueError("once"), 7]

    async def ask() -> int:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    cached = Cached(ask, 5.0)
    with pytest.raises(ValueError, match="once"):
        await cached.get()
    assert await cached.get() == 7


async def test_a_caller_that_gives_up_takes_the_answer_from_no_other() -> None:
    release = asyncio.Event()

    async def ask() -> int:
        await release.wait()
        return 1

    cached = Cached(ask, 5.0)
    first, second = (asyncio.ensure_future(cached.get()) for _ in range(2))
    await turns()
    first.cancel()
    await turns()
    release.set()
    assert await second == 1


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


# --- what may take longer than its caller waits ---


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


async def test_what_fails_in_the_background_is_not_logged() -> None:
    may_fail, failed = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        await may_fail.wait()
        failed.set()
        raise ValueError

    with pytest.raises(TimeoutError):
        await within(-1, work())
    may_fail.set()
    await failed.wait()


# ---- gathered --------------------------------------------------------------------------------------------------------


async def test_few_and_many_come_in_their_order() -> None:
    async def one(number: int) -> int:
        for _ in range(number % 3):
            await asyncio.sleep(0)
        return number

    for count in (0, 1, 255, 256, 257, 5000):
        assert await gathered(one(number) for number in range(count)) == list(range(count))


async def test_of_many_only_some_are_under_way() -> None:
    here = most = 0
    so_many = asyncio.Event()  # or the first would end before the last has begun, where turns take long

    async def one(number: int) -> None:
        nonlocal here, most
        here += 1
        most = max(most, here)
        if here == 256:
            so_many.set()
        await so_many.wait()
        await asyncio.sleep(0)
        here -= 1

    await gathered(map(one, range(2000)))
    assert most == 256


async def test_many_that_never_wait_leave_others_their_turns() -> None:
    turns = done = 0

    async def one(number: int) -> None:
        nonlocal done
        done += 1
        sum(range(3000))

    async def others() -> None:
        nonlocal turns
        while done < 3000:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.ensure_future(others())
    await gathered(map(one, range(3000)))
    await other
    assert turns >= 5


async def test_a_failure_of_one_of_many_is_told() -> None:
    async def one(number: int) -> int:
        await asyncio.sleep(0)
        if number == 700:
            raise KeyError(number)
        return number

    with pytest.raises(KeyError):
        await gathered(map(one, range(1000)))


async def test_who_gives_up_leaves_nothing_unawaited() -> None:
    async def one(number: int) -> None:
        await asyncio.Event().wait()

    for turns in (0, 1, 3):
        asking = asyncio.ensure_future(gathered(map(one, range(1000))))
        for _ in range(turns):
            await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking


async def test_what_runs_beside_a_failure_has_ended_before_it_is_told() -> None:
    ended = []

    async def go_on() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("cancelled")

    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError("no") from KeyError("why")

    with pytest.raises(ValueError, match="no") as failed:
        await side_by_side(go_on(), fail())
    assert ended == ["cancelled"]
    assert isinstance(failed.value.__cause__, KeyError)


async def test_side_by_side_has_all_results() -> None:
    async def double(number: int) -> int:
        await asyncio.sleep(0)
        return 2 * number

    async with Together() as tasks:
        first, second = tasks.create_task(double(1)), tasks.create_task(double(2))
    assert (first.result(), second.result()) == (2, 4)


# ---- what begins without a task ------------------------------------------------------------------------------------


async def added(*waited_for: "asyncio.Future[int]") -> int:
    return sum([await one for one in waited_for])


async def test_what_waits_for_nothing_has_its_result() -> None:
    assert started(added()) == 0
    with pytest.raises(ZeroDivisionError):
        started(failing())


async def failing() -> int:
    raise ZeroDivisionError


async def test_what_is_wanted_at_once_ends_or_is_closed_where_it_waits() -> None:
    waited_for: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    assert at_once(added()) == 0
    with pytest.raises(ZeroDivisionError):
        at_once(failing())
    work = added(waited_for)
    assert at_once(work) is None
    assert inspect.getcoroutinestate(work) == inspect.CORO_CLOSED
    asyncio.get_running_loop().call_soon(waited_for.set_result, 7)
    assert await added(waited_for) == 7, "others may await the same"


async def test_the_rest_goes_on_in_a_task_of_its_own() -> None:
    loop = asyncio.get_running_loop()
    first, second = loop.create_future(), loop.create_future()
    rest = started(added(first, second))
    assert isinstance(rest, Rest)
    task = loop.create_task(awaited(rest))
    others = [loop.create_task(added(first)) for _ in range(2)]  # await the same
    await asyncio.sleep(0)
    first.set_result(1)
    second.set_result(2)
    assert [await task, *[await other for other in others]] == [3, 1, 1]


async def awaited(rest: Rest[int]) -> int:
    return await rest


async def test_a_cancelled_rest_is_told_and_cancels_what_it_waits_for() -> None:
    told: list[str] = []
    future = asyncio.get_running_loop().create_future()

    async def work() -> int:
        try:
            return int(await future)
        except asyncio.CancelledError:
            told.append("cancelled")
            await asyncio.sleep(0)  # it may wait on
            told.append("and over")
            raise

    rest = started(work())
    assert isinstance(rest, Rest)
    task = asyncio.get_running_loop().create_task(awaited(rest))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert told == ["cancelled", "and over"]
    assert future.cancelled()


async def test_a_rest_that_is_not_wanted_is_closed() -> None:
    told: list[str] = []

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            told.append("closed")

    rest = started(work())
    assert isinstance(rest, Rest)
    rest.close()
    assert told == ["closed"]


async def test_from_its_own_task_on_it_may_have_time_limits() -> None:
    async def work() -> str:
        await own_task()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await asyncio.get_running_loop().create_future()
        return "over"

    rest = started(work())
    assert isinstance(rest, Rest)
    assert await asyncio.get_running_loop().create_task(said(rest)) == "over"


async def said(rest: Rest[str]) -> str:
    return await rest
