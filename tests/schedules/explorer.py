"""Runs a scenario under many schedules: one for each seed, each of which replays.

    @schedules(300)
    async def test_what_must_hold(world: World) -> None: ...

is a test that runs the scenario 300 times. `--schedule-seed 17` runs it once, with this seed and the trace of what
happened; `--schedule-factor 10` ten times as often. What fails prints the seed, the error, the newest events and how to
replay it. Seeds run in a child process whose `PYTHONHASHSEED` is 0: sets of strings have an order there that does not
change from one process to the next. Where the variable is 0 already they run right here, for a debugger.
"""

import asyncio
import gc
import importlib
import logging
import os
import traceback
from collections.abc import Callable, Coroutine
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from typing import Any

import pytest

from tests.schedules.chance import Chance, controlled
from tests.schedules.loop import Order, ScheduleLoop, pending
from tests.schedules.trace import BridgeLog, Trace
from tests.schedules.world import World

Scenario = Callable[[World], Coroutine[Any, Any, None]]
_EVENTS = 120
_ENOUGH_FAILURES = 3


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one schedule ended."""

    seed: int
    error: str | None
    steps: int
    fingerprint: float
    events: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Which seeds to run, and how."""

    seeds: tuple[int, ...]
    order: Order
    events: int = _EVENTS
    most_failures: int = _ENOUGH_FAILURES


def run(scenario: Scenario, seed: int, order: Order = Order.ASYNCIO, events: int = 0) -> Outcome:
    """One schedule; with `events`, its newest ones."""
    chance = Chance(seed)
    loop = ScheduleLoop(chance, order)
    trace = Trace(lambda: loop.now)
    complaints: list[str] = []
    loop.set_exception_handler(lambda _, context: complaints.append(_complaint(context)))
    handler = BridgeLog(trace)
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.DEBUG if events else logging.CRITICAL)
    if events:
        trace.on = True
        root.addHandler(handler)
    error = None
    gc.disable()
    try:
        with controlled(chance, lambda: loop.now):
            error = _run(scenario, chance, loop, trace)
            gc.collect(1)
            error = error or ("\n".join(complaints) if complaints else None)
            fingerprint = loop.now + chance.random()
            _abandon(loop)
    finally:
        gc.enable()
        root.removeHandler(handler)
        root.setLevel(level)
    return Outcome(seed, error, loop.steps, fingerprint, trace.last(events) if events else "")


def _run(scenario: Scenario, chance: Chance, loop: ScheduleLoop, trace: Trace) -> str | None:
    async def whole() -> None:
        world = World(chance, loop, trace)
        await scenario(world)
        await world.end()

    try:
        loop.run_until_complete(whole())
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - whatever it is, it belongs to this seed
        return _told(error)
    left = asyncio.all_tasks(loop)
    return f"tasks are left when all is closed\n{pending(loop)}" if left else None


def _told(error: BaseException) -> str:
    """The error, and where in the scenario and the bridge it arose."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/asyncio/" not in frame.filename]
    shown = [f"    {frame.filename.split('/schedules/')[-1]}:{frame.lineno} {frame.line}" for frame in frames[-6:]]
    text = "".join(traceback.format_exception_only(error)).rstrip()
    return "\n".join([text, *shown])


def _complaint(context: dict[str, Any]) -> str:
    error = context.get("exception")
    text = f"{context.get('message')} {context.get('handle') or context.get('task') or context.get('future') or ''}"
    return text if error is None else f"{text}\n{_told(error)}"


def _abandon(loop: ScheduleLoop) -> None:
    """Let go of a loop, whatever still waits in it."""
    loop.set_exception_handler(lambda _, context: None)
    for task in asyncio.all_tasks(loop):
        task.cancel()
    for _ in range(50):
        if not asyncio.all_tasks(loop):
            break
        loop.call_soon(loop.stop)
        with suppress(BaseException):  # it has failed already, and how has been told
            loop.run_forever()
    loop.close()


def must_pass(scenario: Scenario, seeds: int) -> None:
    """Run so many seeds; fail with the events of the first that fails."""
    for seed in range(seeds):
        if run(scenario, seed).error is not None:
            again = run(scenario, seed, events=60)
            pytest.fail(f"seed {seed}: {again.error}\n{again.events}", pytrace=False)


def explore(module: str, name: str, plan: Plan) -> tuple[int, int, list[Outcome]]:
    """Run the seeds; how many ran, with how many steps, and those that failed, each run again with its events."""
    scenario: Scenario = getattr(importlib.import_module(module), name).scenario
    gc.collect()
    gc.freeze()
    failed: list[Outcome] = []
    ran = steps = 0
    for seed in plan.seeds:
        outcome = run(scenario, seed, plan.order)
        ran += 1
        steps += outcome.steps
        if outcome.error is not None:
            again = run(scenario, seed, plan.order, plan.events)
            if (again.fingerprint, again.steps) != (outcome.fingerprint, outcome.steps):
                text = f"{outcome.error}\nDOES NOT REPLAY: {again.error}"
                again = Outcome(seed, text, again.steps, 0.0, again.events)
            failed.append(again)
            if len(failed) >= plan.most_failures:
                break
    return ran, steps, failed


def schedules(count: int) -> Callable[[Scenario], Callable[..., None]]:
    """Make a test of a scenario; see the module."""

    def decorate(scenario: Scenario) -> Callable[..., None]:
        name, module = scenario.__name__, scenario.__module__

        def test(schedule_plan: Callable[[int], Plan], schedule_runner: Any) -> None:
            plan = schedule_plan(count)
            ran, _, failed = schedule_runner(module, name, plan)
            if failed:
                pytest.fail(report(module, name, ran, failed), pytrace=False)

        test.__name__ = test.__qualname__ = name
        test.__module__ = module
        test.__doc__ = scenario.__doc__
        test.scenario = scenario  # type: ignore[attr-defined]
        return test

    return decorate


def report(module: str, name: str, ran: int, failed: list[Outcome]) -> str:
    """What to tell of a scenario that failed."""
    first = failed[0]
    others = "".join(f"\nseed {one.seed}: {(one.error or '').splitlines()[0]}" for one in failed[1:])
    path = module.replace(".", "/") + ".py"
    return (
        f"{len(failed)} of {ran} schedules failed; the first with seed {first.seed}:\n{first.error}{others}\n"
        f"--- the last events of seed {first.seed}\n{first.events}\n"
        f"--- replay: .venv/bin/python -m pytest {path} -k {name} --schedule-seed {first.seed}"
    )


class Runner:
    """Runs seeds in a child process that lives as long as the session."""

    def __init__(self) -> None:
        self._here = os.environ.get("PYTHONHASHSEED") == "0"
        self._pool: ProcessPoolExecutor | None = None

    def __call__(self, module: str, name: str, plan: Plan) -> tuple[int, int, list[Outcome]]:
        """As `explore`."""
        work = partial(explore, module, name, plan)
        if self._here:
            return work()
        if self._pool is None:
            self._pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
            os.environ["PYTHONHASHSEED"] = "0"
            try:
                self._pool.submit(int).result()  # the child is there
            finally:
                del os.environ["PYTHONHASHSEED"]
        return self._pool.submit(work).result()

    def close(self) -> None:
        """End the child."""
        if self._pool is not None:
            self._pool.shutdown()
