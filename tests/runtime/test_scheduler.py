"""Whose turn it is: by what each has used, with the event loop turning in between."""

import asyncio
import gc
import time
import weakref
from collections.abc import Callable
from functools import partial

import pytest

from bridge.runtime.scheduler import (
    READ_BYTES,
    SLICE_SECONDS,
    LoopScheduler,
    LoopShare,
    Metered,
    ReadAllowance,
    SlicedCalls,
    begin,
    loop_scheduler,
)


def use_up_the_slice() -> None:
    """Keep the event loop as long as one may."""
    until = time.perf_counter() + SLICE_SECONDS
    while time.perf_counter() <= until:
        pass


async def test_no_connection_waits_if_there_is_time() -> None:
    mine, share = loop_scheduler(), LoopShare()
    assert all(mine.may_run(share) for _ in range(10))


async def test_when_the_slice_is_over_others_go_first() -> None:
    mine = loop_scheduler()
    seen: list[str] = []
    assert mine.may_run(LoopShare())
    use_up_the_slice()
    assert not mine.may_run(LoopShare())
    asyncio.get_running_loop().call_soon(seen.append, "the loop")
    await mine.wait_turn(LoopShare())
    assert seen == ["the loop"]


async def test_who_has_used_little_goes_before_who_has_used_much() -> None:
    mine = loop_scheduler()
    order: list[str] = []

    async def served(name: str, used: float) -> None:
        share = LoopShare()
        share.used = used
        await mine.wait_turn(share)
        order.append(name)
        use_up_the_slice()

    mine.may_run(LoopShare())
    use_up_the_slice()
    await asyncio.gather(served("greedy", 3.0), served("busy", 2.0), served("quiet", 0.0))
    assert order == ["quiet", "busy", "greedy"]


async def test_nothing_is_saved_up_by_being_quiet() -> None:
    mine, old, new = loop_scheduler(), LoopShare(), LoopShare()
    old.used = 100.0
    mine.may_run(old)
    mine.may_run(new)
    assert new.used == old.used


async def test_all_get_their_turn_however_many_they_are() -> None:
    mine = loop_scheduler()
    served = 0

    async def one() -> None:
        nonlocal served
        await mine.wait_turn(LoopShare())
        served += 1

    await asyncio.gather(*(one() for _ in range(500)))
    assert served == 500


async def test_one_that_gives_up_keeps_no_other_waiting() -> None:
    mine = loop_scheduler()
    mine.may_run(LoopShare())
    use_up_the_slice()
    waiting = [asyncio.ensure_future(mine.wait_turn(LoopShare())) for _ in range(40)]
    await asyncio.sleep(0)
    for one in waiting[:-1]:
        one.cancel()
    await asyncio.wait(waiting)
    assert [one.cancelled() for one in waiting] == [True] * 39 + [False]


async def test_who_is_called_in_turn_takes_the_turn_of_one_that_waits() -> None:
    mine = loop_scheduler()
    order: list[str] = []
    greedy, quiet = LoopShare(), LoopShare()
    greedy.used = 3.0
    assert not mine.is_busy
    mine.may_run(LoopShare())
    use_up_the_slice()
    assert mine.is_busy
    mine.call_in_turn(greedy, lambda: order.append("greedy"))
    mine.call_in_turn(quiet, lambda: order.append("quiet"))
    assert order == []
    await mine.wait_turn(LoopShare())
    await asyncio.sleep(0)
    assert order == ["quiet", "greedy"]


async def test_what_is_called_in_turn_ends_with_the_slice() -> None:
    mine = loop_scheduler()
    done: list[int] = []

    def work(number: int) -> None:
        use_up_the_slice()
        done.append(number)

    mine.may_run(LoopShare())
    use_up_the_slice()
    for number in range(3):
        mine.call_in_turn(LoopShare(), partial(work, number))
    seen: list[int] = []
    while len(done) < 3:
        seen.append(len(done))
        await asyncio.sleep(0)
    assert sorted(set(seen)) == [0, 1, 2]
    assert min(seen.count(1), seen.count(2)) >= 3  # the loop iterates between two slices


async def test_who_waits_gets_its_turn_beside_calls_that_fill_each_slice() -> None:
    mine = loop_scheduler()
    share = LoopShare()
    called = 0

    def fill() -> None:
        nonlocal called
        called += 1
        use_up_the_slice()
        mine.call_in_turn(share, fill)

    mine.may_run(share)
    mine.call_in_turn(share, fill)
    waiting = asyncio.ensure_future(mine.wait_turn(LoopShare()))
    while called < 20 and not waiting.done():
        share.used += SLICE_SECONDS
        await asyncio.sleep(0)
    assert waiting.done()
    mine._waiting.clear()


async def order_of(
    connections: int, appending: int, takes: Callable[[int], float], monkeypatch: pytest.MonkeyPatch
) -> list[int]:
    """In which order connections are served that always have a request that waits, the first of them appends.

    `takes`: the seconds of the request of this number, by a clock of the test's own.
    """
    now = 0.0
    monkeypatch.setattr("bridge.runtime.scheduler._clock", lambda: now)
    mine = loop_scheduler()
    shares = [LoopShare() for _ in range(connections)]
    order: list[int] = []

    def serve(index: int) -> None:
        nonlocal now
        mine.serve(shares[index])
        begin(shares[index])
        now += takes(len(order))
        mine.count(shares[index], appends=index < appending)
        order.append(index)
        if len(order) < 10_000:
            queue(index)

    def queue(index: int) -> None:
        mine.call_in_turn(shares[index], partial(serve, index), appends=index < appending)

    for index in range(connections):
        queue(index)
    while mine.is_busy:  # noqa: ASYNC110 - the loop iterates between two slices
        await asyncio.sleep(0)
    return order


@pytest.mark.parametrize(
    ("appending", "others", "least", "most"),
    [
        pytest.param(1, 100, 0.4, 0.5, id="a hundred consumers wait for one producer"),
        pytest.param(5, 100, 0.4, 0.5, id="and for five"),
        pytest.param(1, 1, 0.5, 0.5, id="one of each"),
        pytest.param(50, 1, 50 / 51, 50 / 51, id="one consumer of many producers"),
        pytest.param(20, 20, 0.5, 0.5, id="as many of each"),
    ],
)
async def test_appends_that_wait_among_many_others_have_up_to_half_of_the_time(
    appending: int, others: int, least: float, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes as long."""
    order = await order_of(appending + others, appending, lambda _: 0.0001, monkeypatch)
    called = [order.count(index) for index in range(appending + others)]
    assert least - 0.01 <= sum(called[:appending]) / len(order) <= most + 0.01
    for alike in (called[:appending], called[appending:]):
        assert max(alike) - min(alike) <= 2


async def test_who_is_interrupted_once_is_not_behind_by_many_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections alike, each with a request that waits: one in 40 takes ten times as long, as where a collection of
    garbage comes in its midst."""
    alike = 20
    order = await order_of(alike, 0, lambda number: 0.00005 if number % 41 else 0.0005, monkeypatch)
    settled = order[2000:]  # at first no connection has a usual time
    last: dict[int, int] = {}
    gaps = []
    for at, index in enumerate(settled):
        gaps.append(at - last.get(index, at))
        last[index] = at
    assert max(gaps) <= 3 * alike


async def test_what_takes_several_iterations_waits_for_one_slice_at_most() -> None:
    mine = loop_scheduler()
    slices = 0

    async def greedy() -> None:
        nonlocal slices
        share = LoopShare()
        while slices < 100:
            await mine.wait_turn(share)
            slices += 1
            use_up_the_slice()

    others = [asyncio.ensure_future(greedy()) for _ in range(3)]
    await asyncio.sleep(0)
    began = slices
    for _ in range(12):
        await asyncio.sleep(0)
    assert slices - began <= 5
    for one in others:
        one.cancel()
    await asyncio.wait(others)


async def test_what_is_too_much_for_a_slice_is_called_later_in_order() -> None:
    loop = asyncio.get_running_loop()
    mine = SlicedCalls(loop)
    called: list[int] = []

    def call(number: int) -> None:
        called.append(number)
        use_up_the_slice()
        if number == 2:
            raise ValueError("one of them fails")

    told: list[object] = []
    loop.set_exception_handler(lambda _, context: told.append(context["exception"]))
    for number in range(5):
        mine.call(partial(call, number))
    assert called == [0]
    for seen in (1, 2, 3, 4, 5):
        await asyncio.sleep(0)
        assert called == list(range(min(seen + 1, 5)))
    assert [str(one) for one in told] == ["one of them fails"]
    await asyncio.sleep(0)
    mine.call(partial(called.append, 5))
    assert called[-1] == 5


async def test_large_requests_are_read_as_far_as_one_iteration_allows() -> None:
    mine = ReadAllowance(asyncio.get_running_loop())
    resumed: list[str] = []
    assert mine.take(READ_BYTES - 1, lambda: resumed.append("first"))
    assert not mine.take(1, lambda: resumed.append("second"))
    assert not mine.take(1, lambda: resumed.append("third"))
    assert resumed == []
    await asyncio.sleep(0)
    assert resumed == ["second", "third"]
    assert mine.take(READ_BYTES - 1, lambda: None)


async def test_only_the_time_on_the_loop_counts() -> None:
    share = LoopShare()
    others = asyncio.Event()

    async def work() -> str:
        await others.wait()
        return "done"

    async def burn() -> None:
        use_up_the_slice()
        others.set()

    doing = asyncio.ensure_future(Metered(work(), share))
    await burn()
    assert await doing == "done"
    assert 0 < share.used < SLICE_SECONDS


async def test_errors_and_cancelling_reach_the_metered_work() -> None:
    share = LoopShare()
    told: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            told.append("cancelled")
            raise

    doing = asyncio.ensure_future(_awaited(Metered(work(), share)))
    await asyncio.sleep(0)
    doing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await doing
    assert told == ["cancelled"]

    async def fail() -> None:
        raise ValueError

    with pytest.raises(ValueError):
        await Metered(fail(), share)


async def _awaited(work: Metered[None]) -> None:
    await work


async def test_each_loop_has_its_own() -> None:
    assert loop_scheduler() is loop_scheduler()
    assert isinstance(loop_scheduler(), LoopScheduler)
    other = asyncio.new_event_loop()
    try:
        assert await asyncio.to_thread(other.run_until_complete, _mine()) is not loop_scheduler()
    finally:
        other.close()


async def _mine() -> LoopScheduler:
    return loop_scheduler()


@pytest.mark.parametrize("cancelled", [False, True])
async def test_what_fails_leaves_no_garbage_to_be_found(cancelled: bool) -> None:
    """What it has in memory would stay until it is found."""
    held: list[weakref.ref[asyncio.Event]] = []

    async def fail(sources: "list[asyncio.Future[None]]") -> None:
        large = asyncio.Event()
        held.append(weakref.ref(large))
        await sources.pop()  # this frame is in the error's traceback, too

    gc.collect()
    gc.disable()
    try:
        source: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        doing = asyncio.ensure_future(_awaited(Metered(fail([source]), LoopShare())))
        await asyncio.sleep(0)
        if cancelled:
            doing.cancel()
        else:
            source.set_exception(ValueError("no"))
        await asyncio.wait((doing,))
        if not cancelled:
            doing.exception()  # retrieved; an assertion would keep it
        del doing, source
        await asyncio.sleep(0)
        assert held[0]() is None
    finally:
        gc.enable()
