"""The explorer itself: what it keeps of asyncio's promises, what it permutes, and that a seed gives the same run."""

import asyncio
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from bridge.pulsar.pb.PulsarApi_pb2 import MessageMetadata
from tests.schedules.chance import WALL, Chance, controlled
from tests.schedules.explorer import Scenario, run
from tests.schedules.loop import Deadlock, Order, ScheduleLoop, StepLimit
from tests.schedules.world import World, full

_REPOSITORY = Path(__file__).parents[2]


def orders_seen(scene: "Scenario", order: Order = Order.ASYNCIO, seeds: int = 60) -> set[str]:
    """What a scenario leaves in its trace, over some seeds."""
    seen = set()
    for seed in range(seeds):
        outcome = run(scene, seed, order, events=50)
        assert outcome.error is None, outcome.error
        lines = [line.split(None, 2)[2] for line in outcome.events.splitlines() if " seen " in line]
        seen.add(" ".join(lines))
    return seen


def told(world: World, text: str) -> None:
    world.trace("seen", text)


def done(world: World, text: str, _: object) -> None:
    told(world, text)


# --- what is kept -----------------------------------------------------------------------------------------------------


async def three_callbacks(world: World) -> None:
    for name in "abc":
        world.loop.call_soon(told, world, name)
    await asyncio.sleep(0.1)


async def one_future(world: World) -> None:
    future = world.loop.create_future()
    for name in "abc":
        future.add_done_callback(partial(done, world, name))
    future.set_result(None)
    await asyncio.sleep(0.1)


def test_callbacks_run_in_the_order_of_their_registration() -> None:
    assert orders_seen(three_callbacks) == {"a b c"}
    assert len(orders_seen(three_callbacks, Order.ANY)) > 2


def test_the_callbacks_of_one_future_keep_their_order_in_both_modes() -> None:
    assert orders_seen(one_future) == orders_seen(one_future, Order.ANY) == {"a b c"}


async def a_stream(world: World) -> None:
    bridge = world.bridge()
    await bridge.client.start()
    await bridge.admin.create_partitioned("persistent://public/default/t", 1)
    producer = bridge.client.producer(full("t"))
    for number in range(5):
        sent = producer.send(MessageMetadata(), b"%d" % number * 200, 1)
        sent.add_done_callback(partial(done, world, str(number)))
    await producer.close()


def test_bytes_and_receipts_of_a_connection_come_in_order() -> None:
    assert orders_seen(a_stream) == {"0 1 2 3 4"}


# --- what is permuted -------------------------------------------------------------------------------------------------


async def two_questions(world: World) -> None:
    async def ask(name: str) -> None:
        await bridge.client.topics_of_namespace("public/default")
        told(world, name)

    bridge = world.bridge()
    await bridge.client.start()
    await asyncio.gather(ask("a"), ask("b"))


async def a_timer_and_a_thread(world: World) -> None:
    async def thread() -> None:
        await asyncio.to_thread(lambda: None)
        told(world, "thread")

    world.loop.call_later(0.001, told, world, "timer")
    await thread()
    await asyncio.sleep(1)


def test_answers_threads_and_timers_come_in_any_order() -> None:
    assert orders_seen(two_questions) == {"a b", "b a"}
    assert orders_seen(a_timer_and_a_thread) == {"timer thread", "thread timer"}


async def time_goes_by(world: World) -> None:
    before = world.now
    await asyncio.sleep(3600)
    assert 3600 <= world.now - before < 3605
    assert time.time() > WALL + 3600


def test_the_clock_is_virtual() -> None:
    outcome = run(time_goes_by, 0)
    assert outcome.error is None, outcome.error
    assert outcome.steps < 2000


def test_no_module_keeps_a_real_clock() -> None:
    import bridge.node.server  # noqa: F401 - and with it all that runs

    clocks: set[object] = {
        time.time,
        time.time_ns,
        time.monotonic,
        time.perf_counter,
        time.process_time,
        time.thread_time,
    }
    with controlled(Chance(0), lambda: 0.0):
        kept = [
            f"{module.__name__}.{name}"
            for module in list(sys.modules.values())
            if module is not None and module.__name__.startswith("bridge.")
            for name, value in vars(module).items()
            if type(value) is type(len) and value in clocks
        ]
    assert not kept


# --- what it notices --------------------------------------------------------------------------------------------------


async def leaves_a_task(world: World) -> None:
    world.loop.leftover = asyncio.ensure_future(asyncio.sleep(1e9))  # type: ignore[attr-defined]


async def leaves_an_error(world: World) -> None:
    async def fails() -> None:
        raise ValueError("an unread error")

    task = asyncio.ensure_future(fails())
    await asyncio.sleep(1)
    del task


async def leaves_a_session(world: World) -> None:
    bridge = world.bridge()
    await bridge.client.start()
    producer = bridge.client.producer("persistent://public/default/left")
    await producer.opened()
    await bridge.stop()
    other = world.bridge()
    await other.client.start()
    other.closed = True


@pytest.mark.parametrize(
    ("scene", "text"),
    [
        (leaves_a_task, "tasks are left"),
        (leaves_an_error, "an unread error"),
        (leaves_a_session, "left on the broker"),
    ],
)
def test_what_is_left_behind_fails_the_run(scene: Scenario, text: str) -> None:
    outcome = run(scene, 1)
    assert outcome.error is not None
    assert text in outcome.error


def test_waiting_for_nothing_is_a_deadlock() -> None:
    loop = ScheduleLoop(Chance(1))
    try:
        with pytest.raises(Deadlock, match="ever happen"):
            loop.run_until_complete(loop.create_future())
    finally:
        loop.close()


def test_turning_round_and_round_is_noticed() -> None:
    async def round_and_round() -> None:
        while True:  # noqa: ASYNC110 - it is the fault that is looked for
            await asyncio.sleep(0)

    loop = ScheduleLoop(Chance(1), most_steps=1000)
    with pytest.raises(StepLimit):
        loop.run_until_complete(round_and_round())
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.close()


async def a_lost_wake_up(world: World) -> None:
    """A fault as it is in books: it looks, yields, and then waits for what has happened meanwhile."""
    ready, wakes = False, world.loop.create_future()

    async def waits() -> None:
        if not ready:
            await asyncio.to_thread(lambda: None)
            await world.within(5, wakes, "being woken")

    async def tells() -> None:
        nonlocal wakes, ready
        await asyncio.sleep(0.001)
        ready, wakes, old = True, world.loop.create_future(), wakes
        old.set_result(None)

    await asyncio.gather(waits(), tells())


def test_a_lost_wake_up_is_found_and_replays() -> None:
    outcomes = [run(a_lost_wake_up, seed) for seed in range(60)]
    failed = [outcome.seed for outcome in outcomes if outcome.error is not None]
    assert 0 < len(failed) < 60
    for seed in failed[:5]:
        again = run(a_lost_wake_up, seed, events=10)
        assert (again.error, again.steps, again.fingerprint) == (
            outcomes[seed].error, outcomes[seed].steps, outcomes[seed].fingerprint
        )  # fmt: skip


# --- replaying --------------------------------------------------------------------------------------------------------


def test_a_seed_gives_the_same_run_in_another_process() -> None:
    program = "from tests.schedules.fingerprints import fingerprints\nprint(*fingerprints(3), sep='\\n')"
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    outputs = {
        subprocess.run(
            (sys.executable, "-c", program),
            env=environment,
            cwd=_REPOSITORY,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for _ in range(2)
    }
    assert len(outputs) == 1
    assert len(outputs.pop().splitlines()) > 10


def test_what_a_run_replaces_is_put_back() -> None:
    before = time.time
    run(partial(time_goes_by), 1)
    assert time.time is before
