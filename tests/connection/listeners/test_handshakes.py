"""Handshakes take turns, and one too many ends one that is silent."""

import asyncio

from bridge.connection.listeners import handshakes
from bridge.connection.listeners.handshakes import Handshakes
from bridge.telemetry.metrics import TlsMetrics


class One:
    """A handshake that is told what happens to it."""

    def __init__(self) -> None:
        self.outcomes: list[str] = []
        self.shaken = 0

    def shake(self) -> None:
        self.shaken += 1

    def fail(self, outcome: str, reason: str) -> None:
        self.outcomes.append(outcome)


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_one_too_many_ends_the_oldest_that_is_silent() -> None:
    metrics = TlsMetrics()
    made, ones = Handshakes(metrics, most=3), [One() for _ in range(5)]
    for one in ones[:3]:
        made.begin(one)
    made.ready(ones[0])
    made.begin(ones[3])
    assert [one.outcomes for one in ones] == [[], ["displaced"], [], [], []]
    await turns()
    assert (ones[0].shaken, len(made), metrics.under_way.value) == (1, 3, 3)
    made.abandon()
    assert [one.outcomes for one in ones] == [["stopped"], ["displaced"], ["stopped"], ["stopped"], []]
    assert (len(made), metrics.under_way.value) == (0, 0)


async def test_none_is_ended_while_all_wait_for_their_turn() -> None:
    made, ones = Handshakes(TlsMetrics(), most=2), [One() for _ in range(3)]
    for one in ones:
        made.ready(one)
        made.begin(one)
    assert [one.outcomes for one in ones] == [[], [], []]
    made.abandon()


async def test_a_turn_is_short_and_all_get_one() -> None:
    class Slow(One):
        def shake(self) -> None:
            super().shake()
            until = asyncio.get_running_loop().time() + handshakes._TURN_SECONDS
            while asyncio.get_running_loop().time() < until:
                pass

    made, ones = Handshakes(TlsMetrics()), [Slow() for _ in range(5)]
    for one in ones:
        made.begin(one)
        made.ready(one)
    await turns(1)
    assert sum(one.shaken for one in ones) == 1
    await turns(5)
    assert [one.shaken for one in ones] == [1] * 5
    made.abandon()


async def test_one_that_fails_holds_up_no_other() -> None:
    class Broken(One):
        def shake(self) -> None:
            raise RuntimeError("as told")

    loop, told = asyncio.get_running_loop(), []
    loop.set_exception_handler(lambda _, context: told.append(context["exception"]))
    made, ones = Handshakes(TlsMetrics()), [Broken(), One()]
    for one in ones:
        made.begin(one)
        made.ready(one)
    await turns(4)
    assert ones[1].shaken == 1
    assert len(told) == 1
    made.abandon()


async def test_with_many_that_wait_no_more_are_accepted() -> None:
    made, ones = Handshakes(TlsMetrics()), [One() for _ in range(handshakes._MOST_READY)]
    for one in ones:
        made.begin(one)
        assert not made.is_behind
        made.ready(one)
    assert made.is_behind
    await turns(10)
    assert not made.is_behind
    made.abandon()
