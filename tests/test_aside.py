"""Work beside the event loop: one piece at a time, by turns of who asks."""

import asyncio
import threading

import pytest

from bridge.aside import Aside
from bridge.fairness import ASKER


async def test_work_is_done_in_another_thread_and_told() -> None:
    assert await Aside().run(threading.get_ident) != threading.get_ident()


async def test_what_the_work_raises_is_raised() -> None:
    def fail() -> None:
        raise ValueError("told")

    with pytest.raises(ValueError, match="told"):
        await Aside().run(fail)


class Gate:
    """Work that waits until it may go on."""

    def __init__(self) -> None:
        self.running = 0
        self.most = 0
        self.done: list[str] = []
        self.opened = threading.Event()

    def work(self, name: str) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        self.opened.wait(10)
        self.done.append(name)
        self.running -= 1


async def test_one_piece_is_done_at_a_time_and_askers_take_turns() -> None:
    aside, gate = Aside(), Gate()

    async def ask(asker: str, number: int) -> None:
        ASKER.set(asker)
        await aside.run(gate.work, f"{asker}{number}")

    asking = [asyncio.ensure_future(ask("a", number)) for number in range(3)]
    asking.append(asyncio.ensure_future(ask("b", 0)))
    await asyncio.sleep(0)
    gate.opened.set()
    await asyncio.gather(*asking)
    assert gate.most == 1
    assert gate.done.index("b0") <= 2, "behind what was begun, and one of the other's at most"


async def test_who_gives_up_before_its_turn_has_nothing_done() -> None:
    aside, gate = Aside(), Gate()
    first = asyncio.ensure_future(aside.run(gate.work, "first"))
    second = asyncio.ensure_future(aside.run(gate.work, "second"))
    await asyncio.sleep(0)
    second.cancel()
    gate.opened.set()
    await first
    with pytest.raises(asyncio.CancelledError):
        await second
    assert gate.done == ["first"]


async def test_a_place_is_taken_until_the_thread_is_done() -> None:
    aside, gate = Aside(), Gate()
    first = asyncio.ensure_future(aside.run(gate.work, "first"))
    second = asyncio.ensure_future(aside.run(gate.work, "second"))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    assert gate.most <= 1
    gate.opened.set()
    await second
    assert gate.done == ["first", "second"]
    assert gate.most == 1
