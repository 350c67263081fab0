"""What may happen while the last stable offset is asked for."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

from bridge.storage.read.log_end import LogEnd
from bridge.storage.read.stable_offset import StableOffset
from bridge.storage.visibility import OpenTransaction
from tests.storage.outcomes import KnownOutcomes, transaction


class _Search:
    """Finds where each transaction begins, by its time, when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[int, asyncio.Future[int]]] = []

    async def find_published(self, timestamp: int) -> Any:
        found: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.waiting.append((timestamp, found))
        return SimpleNamespace(certain_from=await found)

    def answer(self, index: int, offset: int) -> None:
        self.waiting.pop(index)[1].set_result(offset)


class _Outcomes(KnownOutcomes):
    """Something happens while they are confirmed."""

    meanwhile: Callable[[], Awaitable[None]] | None = None

    async def confirm(self) -> None:
        await super().confirm()
        if self.meanwhile is not None:
            await self.meanwhile()


def stable(outcomes: KnownOutcomes, end: LogEnd, search: Any = None) -> StableOffset:
    """Of a partition without a tail, as where nobody reads."""
    return StableOffset(outcomes, end, lambda: 0, lambda: None, cast(Any, search), "ab" * 16, 0)


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_what_begins_while_outcomes_are_confirmed_is_not_passed() -> None:
    """The leader has its answer from the coordinator, and appends; its own table learns of the transaction later."""
    outcomes, end = _Outcomes(), LogEnd()
    end.advance(100)

    async def appended() -> None:
        end.advance(101)  # the first entry of a transaction that the table does not show yet

    outcomes.meanwhile = appended
    assert await stable(outcomes, end).ask() == 100


async def test_what_begins_while_another_ones_first_entry_is_looked_for_is_not_passed() -> None:
    outcomes, end, search = KnownOutcomes(), LogEnd(), _Search()
    end.advance(100)
    outcomes.named = [OpenTransaction(transaction(1), None, 20_000)]
    asked = asyncio.ensure_future(stable(outcomes, end, search).ask())
    await settle()
    outcomes.named.append(OpenTransaction(transaction(2), None, 30_000))
    end.advance(101)  # its first entry
    outcomes.named.pop(0)  # the other one is decided meanwhile
    search.answer(0, 50)
    assert await asked == 100


async def test_two_who_ask_at_a_time_do_not_forget_what_each_other_has_found() -> None:
    outcomes, end, search = KnownOutcomes(), LogEnd(), _Search()
    end.advance(100)
    one, two, three = (OpenTransaction(transaction(n), None, n * 100_000) for n in (1, 2, 3))
    outcomes.named = [one, two]
    partition = stable(outcomes, end, search)
    first = asyncio.ensure_future(partition.ask())
    await settle()
    search.answer(0, 10)  # `one` begins there
    await settle()
    outcomes.named = [three, one, two]  # of a slot that comes before theirs
    second = asyncio.ensure_future(partition.ask())
    await settle()
    search.answer(0, 20)  # `two`, for the first who asked
    await settle()
    assert await first == 10  # `one` is open all the time
    second.cancel()
