"""Runs one coroutine on an event loop whose clock is virtual: hours pass at once, and always in the same order."""

from collections.abc import Callable, Coroutine
from typing import Any

from tests.schedules.chance import Chance
from tests.schedules.loop import ScheduleLoop


def on_a_virtual_clock(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run it to its end; it leaves no task behind."""
    loop = ScheduleLoop(Chance(1), most_steps=5_000_000)
    try:
        loop.run_until_complete(work())
    finally:
        loop.close()
