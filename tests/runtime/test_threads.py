"""What takes long is done in threads: a few at once, in turns, and nothing is left of who gives up."""

import asyncio
import contextvars
import threading
from collections import defaultdict

import pytest

from bridge.runtime.scheduler import REQUESTER, LoopShare
from bridge.runtime.threads import WorkerThreads


class Held:
    """Work that stays in its thread until it may go on."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self.threads: set[int] = set()
        self.most = 0
        self._inside = 0
        self._lock = threading.Lock()
        self._go_on = threading.Semaphore(0)
        self._entered = threading.Semaphore(0)

    def __call__(self, name: str) -> str:
        with self._lock:
            self.began.append(name)
            self.threads.add(threading.get_ident())
            self._inside += 1
            self.most = max(self.most, self._inside)
        self._entered.release()
        assert self._go_on.acquire(timeout=30)
        with self._lock:
            self._inside -= 1
        return name

    async def entered(self, count: int) -> None:
        for _ in range(count):
            assert await asyncio.to_thread(self._entered.acquire, timeout=30)

    def let_go(self, count: int) -> None:
        self._go_on.release(count)


_ASKERS: defaultdict[object, LoopShare] = defaultdict(LoopShare)


def asked_by(asker: str, threads: WorkerThreads, held: Held) -> "asyncio.Task[str]":
    context = contextvars.copy_context()
    context.run(REQUESTER.set, _ASKERS[asker])
    return asyncio.get_running_loop().create_task(threads.run(held, asker), context=context)


async def test_no_more_than_the_places_are_taken_and_none_on_the_loop() -> None:
    threads, held = WorkerThreads(2), Held()
    held.let_go(20)
    done = await asyncio.gather(*(asked_by(str(number), threads, held) for number in range(20)))
    assert done == [str(number) for number in range(20)]
    assert held.most <= 2
    assert threading.get_ident() not in held.threads


async def test_one_waits_behind_its_own_and_not_behind_another_s_many() -> None:
    threads, held = WorkerThreads(1), Held()
    many = [asked_by("many", threads, held) for _ in range(50)]
    await held.entered(1)
    few = asked_by("few", threads, held)
    await asyncio.sleep(0)
    held.let_go(51)
    await asyncio.gather(*many, few)
    assert held.began.index("few") <= 2


async def test_the_place_of_who_gives_up_is_taken_until_the_thread_ends() -> None:
    threads, held = WorkerThreads(1), Held()
    given_up = asked_by("given up", threads, held)
    await held.entered(1)
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    never_began = asked_by("never", threads, held)
    after = asked_by("after", threads, held)
    await asyncio.sleep(0)
    never_began.cancel()
    assert held.began == ["given up"]
    held.let_go(2)
    assert await after == "after"
    assert held.began == ["given up", "after"]
    assert held.most == 1


async def test_what_the_work_raises_is_raised() -> None:
    def fail() -> None:
        raise ValueError("told")

    with pytest.raises(ValueError, match="told"):
        await WorkerThreads(1).run(fail)


async def test_a_place_that_is_not_used_is_free_again() -> None:
    def refuse() -> None:
        raise LookupError

    threads, held = WorkerThreads(1, on_turn=refuse), Held()
    for _ in range(2):
        with pytest.raises(LookupError):
            await threads.run(held, "refused")
    assert held.began == []
