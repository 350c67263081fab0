import asyncio

import pytest

from bridge.transactions.turns import Turns


class _Crowd:
    """Who has the turn, and who is let go."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.inside: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self._leave: dict[str, asyncio.Event] = {}

    async def come(self, name: str, *, alone: bool) -> None:
        self._leave[name] = asyncio.Event()
        self.tasks[name] = asyncio.ensure_future(self._have(name, alone=alone))
        await _settled()

    async def leave(self, name: str) -> None:
        self._leave[name].set()
        await _settled()

    async def _have(self, name: str, *, alone: bool) -> None:
        async with self.turns.turn(alone=alone):
            self.inside.append(name)
            try:
                await self._leave[name].wait()
            finally:
                self.inside.remove(name)


async def _settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_some_have_it_together_and_others_alone() -> None:
    crowd = _Crowd()
    await crowd.come("a", alone=False)
    await crowd.come("b", alone=False)
    await crowd.come("C", alone=True)
    assert crowd.inside == ["a", "b"]
    await crowd.leave("a")
    assert crowd.inside == ["b"]
    await crowd.leave("b")
    assert crowd.inside == ["C"]
    await crowd.leave("C")
    assert crowd.inside == []


async def test_nobody_overtakes_one_that_waits_to_be_alone() -> None:
    crowd = _Crowd()
    await crowd.come("a", alone=False)
    await crowd.come("B", alone=True)
    await crowd.come("c", alone=False)
    await crowd.come("d", alone=False)
    await crowd.come("E", alone=True)
    assert crowd.inside == ["a"]
    await crowd.leave("a")
    assert crowd.inside == ["B"]
    await crowd.leave("B")
    assert crowd.inside == ["c", "d"]
    await crowd.leave("c")
    await crowd.leave("d")
    assert crowd.inside == ["E"]


@pytest.mark.parametrize("alone", [True, False])
async def test_one_that_gives_up_waiting_lets_the_others_go_on(alone: bool) -> None:
    crowd = _Crowd()
    await crowd.come("a", alone=False)
    await crowd.come("B", alone=True)
    await crowd.come("c", alone=alone)
    crowd.tasks["B"].cancel()
    await _settled()
    assert crowd.inside == (["a"] if alone else ["a", "c"])
    await crowd.leave("a")
    assert crowd.inside == ["c"]
    await crowd.leave("c")
    await crowd.come("d", alone=True)
    assert crowd.inside == ["d"]


async def test_one_whose_turn_comes_as_it_gives_up_gives_it_back() -> None:
    crowd = _Crowd()
    await crowd.come("A", alone=True)
    await crowd.come("B", alone=True)
    await crowd.come("c", alone=False)
    crowd._leave["A"].set()
    await crowd.tasks["A"]
    crowd.tasks["B"].cancel()  # it has the turn, and has not run since
    await _settled()
    assert crowd.inside == ["c"]
