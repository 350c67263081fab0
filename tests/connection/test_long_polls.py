"""Polls that wait without a task: all that holds for those that have one."""

import asyncio

import pytest

from tests.connection import harness, test_client, test_draining
from tests.connection.harness import ECHO, POLL, connected, request, serving

pytestmark = pytest.mark.timeout(60)

for _name, _test in [*vars(test_client).items(), *vars(test_draining).items()]:
    if _name.startswith("test_"):
        globals()[_name] = _test


@pytest.fixture(autouse=True)
def polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "AT_ONCE", True)
    monkeypatch.setattr(harness, "LONG_POLLS", True)


async def test_the_next_request_waits_for_the_poll() -> None:
    async with serving() as bench, connected(bench) as client:
        client.send(request(POLL, 1), request(ECHO, 2))
        await bench.begun(1)
        client.send(request(ECHO, 3))
        await asyncio.sleep(0.05)
        assert bench.requests == [1]
        bench.release.set()
        assert [(await client.receive()).number for _ in range(3)] == [1, 2, 3]


async def test_what_a_waiting_poll_took_is_free_for_others() -> None:
    async with serving() as bench, connected(bench) as client:
        client.send(request(POLL, 1, bytes(10_000)))
        await bench.begun(1)
        assert bench.budget.held == 0
        bench.release.set()
        assert (await client.receive()).number == 1
        assert bench.budget.held == 0


async def test_a_poll_that_is_cut_short_twice_is_answered_once() -> None:
    async with serving() as bench, connected(bench) as client:
        client.send(request(POLL, 1), request(ECHO, 2))
        await bench.begun(1)
        (connection,) = bench.listener._connections
        connection._runner.cut_poll_short()
        connection._runner.cut_poll_short()
        assert [(await client.receive()).number for _ in range(2)] == [0, 2]
        client.send(request(ECHO, 3))
        assert (await client.receive()).number == 3
        assert bench.cancelled == [1]
