"""Who is called at once, and who in the event loop's next iteration."""

import asyncio

import pytest

from bridge.runtime.futures import Outcome, call_when_done


async def test_an_outcome_calls_at_once_in_the_order_of_those_who_asked() -> None:
    outcome: Outcome[int] = Outcome()
    seen: list[object] = []
    outcome.add_done_callback(lambda one: seen.append(("later", one.result())))
    outcome.call_at_once(lambda one: seen.append(("first", one.result())))
    call_when_done(outcome, lambda one: seen.append(("second", one.result())))
    assert not seen
    outcome.set_result(7)
    assert seen == [("first", 7), ("second", 7)]
    outcome.call_at_once(lambda one: seen.append(("done before", one.result())))
    assert len(seen) == 3
    assert await outcome == 7  # which does not wait, as it is done
    await asyncio.sleep(0)
    assert seen[-1] == ("later", 7)


async def test_an_outcome_calls_when_it_fails_or_is_cancelled_and_only_once() -> None:
    failing, cancelled = Outcome[int](), Outcome[int]()
    seen: list[asyncio.Future[int]] = []
    for one in (failing, cancelled):
        one.call_at_once(seen.append)
    failing.set_exception(ValueError("no"))
    assert cancelled.cancel()
    assert not cancelled.cancel()
    assert not failing.cancel()
    assert seen == [failing, cancelled]
    assert isinstance(failing.exception(), ValueError)
    with pytest.raises(asyncio.CancelledError):
        await cancelled


async def test_a_task_that_is_cancelled_cancels_the_outcome_it_waits_for() -> None:
    outcome: Outcome[int] = Outcome()
    seen: list[object] = []
    outcome.call_at_once(seen.append)

    async def wait() -> int:
        return await outcome

    waiting = asyncio.ensure_future(wait())
    await asyncio.sleep(0)
    waiting.cancel()
    assert seen == [outcome]
    await asyncio.wait((waiting,))
    assert waiting.cancelled()


async def test_a_call_that_fails_keeps_no_other_from_being_called() -> None:
    outcome: Outcome[int] = Outcome()
    seen: list[object] = []
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))

    def fail(_: object) -> None:
        raise ValueError("a caller's")

    outcome.call_at_once(fail)
    outcome.call_at_once(seen.append)
    outcome.set_result(1)
    assert seen == [outcome]
    assert [str(one) for one in told] == ["a caller's"]


async def test_other_futures_call_in_the_next_iteration() -> None:
    plain: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    seen: list[object] = []
    call_when_done(plain, seen.append)
    plain.set_result(1)
    assert not seen
    await asyncio.sleep(0)
    assert seen == [plain]
