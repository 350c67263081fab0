"""Requests that await nothing: all that holds for those that do, and no task."""

import asyncio
from collections.abc import Callable

import pytest

from bridge.connection.runner import RequestRunner
from bridge.runtime.scheduler import LoopScheduler, LoopShare
from tests.connection import harness, test_client, test_draining, test_login, test_throttling
from tests.connection.harness import ECHO, LATER, POLL, PRODUCE, connected, request, serving

pytestmark = pytest.mark.timeout(60)

for _module in (test_client, test_draining, test_login, test_throttling):
    for _name, _test in list(vars(_module).items()):
        if _name.startswith("test_"):
            globals()[_name] = _test


@pytest.fixture(autouse=True)
def begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "AT_ONCE", True)


async def test_there_is_a_task_only_for_what_waits() -> None:
    async with serving() as bench, connected(bench) as client:
        here = asyncio.all_tasks()
        client.send(request(LATER, 1), request(ECHO, 2))
        await bench.begun(2)
        assert asyncio.all_tasks() == here
        client.send(request(POLL, 3))
        await bench.begun(1)
        assert len(asyncio.all_tasks() - here) == 1
        bench.release.set()
        bench.answer(1)
        assert [(await client.receive()).number for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("at_once", [False, True])
async def test_a_poll_that_is_cut_short_before_its_task_runs_is_answered(
    monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    monkeypatch.setattr(harness, "AT_ONCE", at_once)
    serve_on = RequestRunner._serve_on

    def cut_at_once(runner: RequestRunner) -> None:
        serve_on(runner)
        runner.cut_poll_short()

    monkeypatch.setattr(RequestRunner, "_serve_on", cut_at_once)
    async with serving() as bench, connected(bench) as client:
        client.send(request(POLL, 1), request(ECHO, 2, b"next"))
        assert (await client.receive()).data == b""
        assert (await client.receive()).data == b"next"
        assert bench.cancelled == []
        assert bench.requests == ([1, 2] if at_once else [2])


async def test_what_appends_waits_and_is_measured_as_an_append(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it does where others wait: each request has its turn."""
    waited: list[bool] = []
    measured: list[bool] = []
    call_in_turn, count = LoopScheduler.call_in_turn, LoopScheduler.count

    def note_turn(mine: LoopScheduler, share: LoopShare, call: Callable[[], object], *, appends: bool) -> None:
        waited.append(appends)
        call_in_turn(mine, share, call, appends=appends)

    def note_time(mine: LoopScheduler, share: LoopShare, *, appends: bool) -> None:
        measured.append(appends)
        count(mine, share, appends=appends)

    async with serving() as bench, connected(bench) as client:
        with monkeypatch.context() as busy:
            busy.setattr(LoopScheduler, "may_run", lambda *_: False)
            busy.setattr(LoopScheduler, "call_in_turn", note_turn)
            busy.setattr(LoopScheduler, "count", note_time)
            client.send(request(PRODUCE, 1), request(ECHO, 2), request(PRODUCE, 3))
            assert [(await client.receive()).number for _ in range(3)] == [1, 2, 3]
    assert waited == measured == [True, False, True]
