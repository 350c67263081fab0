"""How connections end when the process does: asked to pause, answered, and hung up on when little can be on its way."""

import asyncio

import pytest

from bridge.connection import draining
from bridge.connection.draining import THROTTLE_MS
from tests.connection.harness import ECHO, LATER, POLL, Bench, Client, connected, request, serving

NEVER = 1000.0


@pytest.fixture(autouse=True)
def timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test shortens what it is about."""
    monkeypatch.setattr(draining, "QUIET_SECONDS", 0.05)
    monkeypatch.setattr(draining, "HURRY_AFTER_SECONDS", NEVER)
    monkeypatch.setattr(draining, "READ_UNTIL_SECONDS", NEVER)
    monkeypatch.setattr(draining, "ANSWERED_LINGER_SECONDS", draining.LINGER_SECONDS)  # these clients never hang up


def begin_to_drain(bench: Bench) -> "asyncio.Task[None]":
    return asyncio.ensure_future(bench.listener.drain(10))


async def end_of(client: Client) -> bytes:
    """What comes before the end, which is no reset."""
    return await client.reader.read()


async def test_what_was_received_is_answered_and_idle_connections_end() -> None:
    async with serving() as bench, connected(bench) as client, connected(bench) as idle:
        client.send(request(LATER, 1), request(ECHO, 2))
        await bench.begun(2)
        idle.send(request(ECHO, 3))
        assert (await idle.receive()).number == 3
        drained = begin_to_drain(bench)
        assert await end_of(idle) == b""
        bench.answer(1)
        assert [(await client.receive()).number for _ in range(2)] == [1, 2]
        assert await end_of(client) == b""
        await drained


async def test_requests_go_on_and_their_answers_ask_for_a_pause() -> None:
    async with serving() as bench, connected(bench) as client:
        client.send(request(LATER, 1))
        await bench.begun(1)
        drained = begin_to_drain(bench)
        client.send(request(ECHO, 2, b"sent before it knew"))
        await bench.begun(1)
        bench.answer(1)
        answers = [await client.receive() for _ in range(2)]
        assert [(one.number, one.throttle_time_ms) for one in answers] == [(1, THROTTLE_MS), (2, THROTTLE_MS)]
        assert await end_of(client) == b""
        await drained
        assert bench.budget.held == 0


async def test_before_it_no_client_is_asked_to_pause() -> None:
    async with serving() as bench, connected(bench) as client:
        client.send(request(ECHO, 1))
        assert (await client.receive()).throttle_time_ms == 0


async def test_a_request_that_comes_in_pieces_is_waited_for() -> None:
    async with serving() as bench, connected(bench) as client, connected(bench) as idle:
        whole = request(ECHO, 1, b"data" * 100)
        client.send(whole[:50])
        await client.writer.drain()
        drained = begin_to_drain(bench)
        assert await end_of(idle) == b""  # which shows that others are not waited for
        client.send(whole[50:])
        assert (await client.receive()).data == b"data" * 100
        assert await end_of(client) == b""
        await drained


async def test_who_sends_on_gets_all_answers_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draining, "QUIET_SECONDS", 0.0)
    async with serving(max_in_flight_requests=3) as bench, connected(bench) as client:
        client.send(request(LATER, 1), request(LATER, 2), request(LATER, 3))
        await bench.begun(3)
        drained = begin_to_drain(bench)
        bench.answer(1)
        assert (await client.receive()).throttle_time_ms == THROTTLE_MS
        told = bench.metrics.api(LATER).bytes_out.value
        client.send(*(request(ECHO, number) for number in range(4, 11)))  # answers that are held are not in flight
        await bench.begun(7)
        bench.answer(2)
        client.send(request(ECHO, 11))
        await bench.begun(1)
        assert bench.metrics.api(LATER).bytes_out.value == told
        bench.answer(3)
        assert [(await client.receive()).number for _ in range(10)] == list(range(2, 12))
        assert await end_of(client) == b""
        await drained
        assert bench.budget.held == 0


async def test_who_never_stops_is_cut_off_when_nothing_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draining, "QUIET_SECONDS", 0.0)
    async with serving() as bench, connected(bench) as client:
        client.send(request(LATER, 1), request(LATER, 2))
        await bench.begun(2)
        drained = begin_to_drain(bench)
        bench.answer(1)
        assert (await client.receive()).number == 1
        client.send(request(LATER, 3))
        await bench.begun(1)
        monkeypatch.setattr(draining, "QUIET_SECONDS", NEVER)
        monkeypatch.setattr(draining, "HURRY_AFTER_SECONDS", 0.0)
        bench.answer(2)
        bench.answer(3)
        assert [(await client.receive()).number for _ in range(2)] == [2, 3]
        assert await end_of(client) == b""
        await drained


async def test_from_the_first_late_answer_on_nothing_is_read_and_no_client_is_reset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(draining, "READ_UNTIL_SECONDS", 0.0)
    async with serving(max_in_flight_requests=1) as bench, connected(bench) as client:
        client.send(request(LATER, 1))
        await bench.begun(1)
        client.send(request(ECHO, 2))  # stays in the socket: no room for it before the answer, and none after
        await client.writer.drain()
        drained = begin_to_drain(bench)
        bench.answer(1)
        assert (await client.receive()).number == 1
        assert await end_of(client) == b""
        assert bench.requests == [1]
        await client.close()
        await drained


async def test_a_request_that_has_only_begun_is_not_waited_for_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draining, "READ_UNTIL_SECONDS", 0.0)
    async with serving() as bench, connected(bench) as client:
        client.send(request(ECHO, 1), request(ECHO, 2)[:9])
        assert (await client.receive()).number == 1
        drained = begin_to_drain(bench)
        assert await end_of(client) == b""
        await client.close()
        await drained
        assert bench.budget.held == 0


async def test_while_answers_take_long_requests_are_taken_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draining, "READ_UNTIL_SECONDS", 0.0)
    async with serving() as bench, connected(bench) as client:
        client.send(request(LATER, 1), request(LATER, 2))
        await bench.begun(2)
        drained = begin_to_drain(bench)
        bench.answer(1)
        assert (await client.receive()).number == 1
        client.send(request(LATER, 3))
        await bench.begun(1)
        bench.answer(2)
        bench.answer(3)
        assert [(await client.receive()).number for _ in range(2)] == [2, 3]
        assert await end_of(client) == b""
        await drained


async def test_a_long_poll_gets_an_empty_answer_at_the_end() -> None:
    async with serving() as bench, connected(bench) as client:
        client.send(request(ECHO, 1), request(POLL, 2))
        await bench.begun(2)
        assert (await client.receive()).number == 1
        drained = begin_to_drain(bench)
        answer = await client.receive()
        assert (answer.error_code, answer.data, answer.throttle_time_ms) == (0, b"", THROTTLE_MS)
        assert await end_of(client) == b""
        await drained
        assert bench.cancelled == [2]


async def test_a_long_poll_that_has_something_is_answered_with_it() -> None:
    async with serving() as bench, connected(bench) as client, connected(bench) as other:
        other.send(request(LATER, 1))
        client.send(request(LATER, 2), request(POLL, 3))
        await bench.begun(3)
        drained = begin_to_drain(bench)
        bench.release.set()
        bench.answer(2)
        assert [(await client.receive()).number for _ in range(2)] == [2, 3]
        bench.answer(1)
        await drained
        assert bench.cancelled == []


async def test_what_stands_behind_a_long_poll_is_served() -> None:
    async with serving() as bench, connected(bench) as client:
        client.send(request(POLL, 1), request(ECHO, 2), request(POLL, 3), request(LATER, 4))
        await bench.begun(1)
        drained = begin_to_drain(bench)
        await bench.begun(3)  # one of these tells of the first one's cancellation
        bench.answer(4)
        assert [(await client.receive()).number for _ in range(4)] == [0, 2, 0, 4]
        assert await end_of(client) == b""
        await drained
        assert bench.cancelled == [1]


async def test_who_is_slow_to_read_and_sends_on_loses_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Java's producer does on a busy machine: a write that fails has it drop all answers that it has not read."""
    monkeypatch.setattr(draining, "LINGER_SECONDS", 0.05)
    monkeypatch.setattr(draining, "ANSWERED_LINGER_SECONDS", 10.0)
    async with serving() as bench:
        async with connected(bench) as client:
            client.writer.transport.pause_reading()
            client.send(request(LATER, 1))
            await bench.begun(1)
            drained = begin_to_drain(bench)
            bench.answer(1)
            await asyncio.sleep(0.3)  # longer than an idle client is waited for
            for number in (2, 3):
                client.send(request(ECHO, number))
                await asyncio.sleep(0.1)  # a reset would come, and the next write fail
            client.writer.transport.resume_reading()
            assert (await client.receive()).number == 1
            assert await end_of(client) == b""
        await drained


async def test_who_sends_no_more_gets_its_answers_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draining, "QUIET_SECONDS", NEVER)
    async with serving() as bench, connected(bench) as client:
        client.send(request(LATER, 1))
        client.writer.write_eof()
        await bench.begun(1)
        drained = begin_to_drain(bench)
        bench.answer(1)
        assert (await client.receive()).number == 1
        assert await end_of(client) == b""
        await drained


async def test_who_comes_at_the_last_moment_is_drained_too() -> None:
    async with serving() as bench, connected(bench) as first:
        first.send(request(LATER, 1))
        await bench.begun(1)
        drained = begin_to_drain(bench)
        async with connected(bench) as late:
            late.send(request(ECHO, 2))
            assert (await late.receive()).number == 2
            assert await end_of(late) == b""
        bench.answer(1)
        await drained


async def test_a_lost_connection_is_waited_for_until_its_requests_are_done() -> None:
    async with serving() as bench:
        async with connected(bench) as client:
            client.send(request(LATER, 1))
            await bench.begun(1)
        drained = begin_to_drain(bench)
        await asyncio.sleep(0)
        assert not drained.done()
        bench.answer(1)
        await drained


async def test_who_hangs_up_while_its_answers_are_held_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draining, "QUIET_SECONDS", 0.0)
    async with serving() as bench:
        async with connected(bench) as client:
            client.send(request(LATER, 1), request(LATER, 2))
            await bench.begun(2)
            drained = begin_to_drain(bench)
            bench.answer(1)
            assert (await client.receive()).throttle_time_ms == THROTTLE_MS
            client.send(request(LATER, 3), request(ECHO, 4))
            await bench.begun(2)
            monkeypatch.setattr(draining, "QUIET_SECONDS", NEVER)
            bench.answer(2)
            bench.answer(3)
            client.reset()
        async with asyncio.timeout(5):
            await drained
        assert bench.budget.held == 0


async def test_it_ends_by_force_in_the_end() -> None:
    async with serving() as bench, connected(bench) as client:
        client.send(request(LATER, 1))
        await bench.begun(1)
        await bench.listener.drain(0.01)
        assert await client.closed() == b""
        bench.later[1].cancel()
