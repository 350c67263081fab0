"""What holds the event loop is measured, and named."""

import asyncio
import logging
import time
from pathlib import Path
from typing import Any

import pytest

import bridge
from bridge.runtime.watchdog import Watchdog
from bridge.telemetry.instruments import Histogram


@pytest.fixture(autouse=True)
def its_lines_are_kept(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "bridge.runtime.watchdog")


def code_of_ours(where: str) -> Any:
    """A function that holds the loop, as if it stood in this file of the bridge."""
    scope: dict[str, Any] = {"time": time}
    source = "def hold(seconds):\n    time.sleep(seconds)\n"
    exec(compile(source, str(Path(bridge.__file__).parent / where), "exec"), scope)  # noqa: S102
    return scope["hold"]


async def held(seconds: float, where: str) -> Histogram:
    histogram = Histogram()
    watchdog = Watchdog(histogram)
    watchdog.start()
    try:
        await asyncio.sleep(0.05)
        # a busy machine holds the loop, too: that is told before, and no event tells it
        while watchdog._place is not None or time.monotonic() > watchdog._due:  # noqa: ASYNC110 - see above
            await asyncio.sleep(0)
        code_of_ours(where)(seconds)
        await asyncio.sleep(0.05)
    finally:
        watchdog.stop()
    return histogram


def told_of_it(caplog: pytest.LogCaptureFixture) -> dict[str, Any]:
    """The line about our code, beside those about what a busy machine holds, other tests' bridges among it."""
    held = [vars(one)["fields"] for one in caplog.records if one.message == "! event loop held"]
    (found,) = [fields for fields in held if fields["code"].endswith(" hold")]
    return dict(found)


async def test_a_hold_is_counted_and_its_api_and_place_are_told(caplog: pytest.LogCaptureFixture) -> None:
    histogram = await held(0.3, "apis/made_up.py")
    assert histogram.total >= 0.2
    told = told_of_it(caplog)
    assert (told["api"], told["code"]) == ("made_up", "apis/made_up.py:2 hold")
    assert told["seconds"] >= 0.2


async def test_what_is_of_no_api_is_told_by_its_place(caplog: pytest.LogCaptureFixture) -> None:
    await held(0.3, "storage/made_up.py")
    told = told_of_it(caplog)
    assert (told["api"], told["code"]) == ("", "storage/made_up.py:2 hold")


async def test_it_counts_until_it_is_stopped() -> None:
    histogram = Histogram()
    watchdog = Watchdog(histogram)
    watchdog.start()
    await asyncio.sleep(0.2)
    watchdog.stop()
    ticks = sum(histogram.counts)
    assert ticks > 0
    await asyncio.sleep(0.05)
    assert sum(histogram.counts) == ticks
