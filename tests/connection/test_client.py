"""A connection over real sockets: order, refusals, limits, and every way to end."""

import asyncio
import logging
import socket
import struct
import tracemalloc

import pytest

from bridge.connection.intake import READ_AHEAD_BYTES
from bridge.connection.listeners import listener
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.requests.api import MAX_CONTROL_BYTES
from bridge.telemetry import log
from tests.connection.harness import ECHO, FAIL, LATER, POLL, SILENT, Client, connected, no_garbage, request, serving
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(30)


async def test_answers_come_in_the_order_of_the_requests() -> None:
    async with serving() as bench, connected(bench) as client:
        client.send(request(LATER, 1), request(ECHO, 2), request(LATER, 3), request(ECHO, 4))
        await bench.begun(4)
        bench.answer(3)
        bench.answer(1)
        assert [(await client.receive()).number for _ in range(4)] == [1, 2, 3, 4]


async def test_a_request_waits_for_the_one_before_unless_that_is_answered_later() -> None:
    async with serving() as bench, connected(bench) as client:
        client.send(request(LATER, 1), request(POLL, 2), request(ECHO, 3))
        await bench.begun(2)
        assert bench.requests == [1, 2]
        bench.release.set()
        bench.answer(1)
        assert [(await client.receive()).number for _ in range(3)] == [1, 2, 3]


async def test_single_bytes_make_the_same_requests() -> None:
    async with serving() as bench, connected(bench) as client:
        for byte in request(ECHO, 1, b"abc") + request(ECHO, 2):
            client.send(bytes([byte]))
            await client.writer.drain()
        assert (await client.receive()).data == b"abc"
        assert (await client.receive()).number == 2


async def test_a_thousand_pipelined_requests() -> None:
    async with serving(max_in_flight_requests=10) as bench, connected(bench) as client:
        client.send(*(request(ECHO, number) for number in range(1000)))
        assert [(await client.receive()).number for _ in range(1000)] == list(range(1000))


async def test_large_requests_and_answers() -> None:
    async with serving() as bench, connected(bench) as client:
        data = bytes(range(256)) * 20_000
        client.send(request(ECHO, 1, data), request(ECHO, 2, data[:70_000]), request(ECHO, 3))
        assert [(await client.receive()).data for _ in range(3)] == [data, data[:70_000], b""]
        assert bench.budget.held == 0


async def test_a_request_may_have_no_answer() -> None:
    async with serving() as bench, connected(bench) as client:
        client.send(request(SILENT, 1), request(ECHO, 2))
        assert (await client.receive()).number == 2


# ---- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        pytest.param(request(99, 1), "unknown_api", id="unknown API"),
        pytest.param(request(ECHO, 1, version=1), "unsupported_version", id="unsupported version"),
        pytest.param(request(ECHO, 1, version=-1), "unsupported_version", id="negative version"),
        pytest.param(struct.pack(">i", -1), "negative_size", id="negative length"),
        pytest.param(struct.pack(">i", 0), "bad_header", id="length 0"),
        pytest.param(struct.pack(">i", 2**31 - 1), "too_large", id="length 2^31-1"),
        pytest.param(struct.pack(">i", 104_857_601), "too_large", id="a byte too many"),
        pytest.param(struct.pack(">ihhih", 10, ECHO, 0, 1, 9), "bad_header", id="client id over the end"),
        pytest.param(struct.pack(">ihhihi", 14, ECHO, 0, 1, 0, 1), "bad_body", id="body cut off"),
        pytest.param(b"SSH-2.0-OpenSSH_9.2\r\n", "too_large", id="SSH"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: bridge\r\n\r\n", "http", id="HTTP"),
        pytest.param(bytes.fromhex("16030100c8010000c40303") + bytes(200), "tls_on_plaintext", id="TLS hello"),
    ],
)
async def test_what_breaks_the_protocol_closes_the_connection(
    sent: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving() as bench, connected(bench) as client:
        client.send(request(ECHO, 7))
        assert (await client.receive()).number == 7
        client.send(sent)
        assert await client.closed() == b""
        assert bench.metrics.refusals[reason].value == 1
        assert sum(one.value for one in bench.metrics.refusals.values()) == 1
        assert bench.budget.held == 0
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == ["! refused"]


async def test_an_unknown_version_of_api_versions_gets_the_table_in_a_v0_body() -> None:
    async with serving() as bench, connected(bench) as client:
        header = struct.pack(">hhih", 18, 5, 77, 4) + b"test\0"
        body = header + b"\x05name\x02v\x00"
        client.send(struct.pack(">i", len(body)) + body, request(ECHO, 2))
        frame = await client.receive_frame()
        correlation_id, error, count = struct.unpack_from(">ihi", frame)
        table = [struct.unpack_from(">hhh", frame, 10 + 6 * index) for index in range(count)]
        assert (correlation_id, error) == (77, 35)
        assert len(frame) == 10 + 6 * count
        assert (18, 0, 4) in table
        assert {key for key, _, _ in table} == {0, 17, 18, 36, ECHO, LATER, POLL, FAIL, SILENT}
        assert (await client.receive()).number == 2


async def test_a_kafka_error_is_answered_where_the_response_has_a_place_for_it() -> None:
    async with serving() as bench, connected(bench) as client:
        client.send(request(FAIL, 15), request(ECHO, 2))
        assert (await client.receive()).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (await client.receive()).number == 2
        assert bench.metrics.api(FAIL).errors == {15: 1}


@pytest.mark.parametrize(
    ("number", "error"), [(0, "RuntimeError: as told"), (-1, "CancelledError"), (-2, "EncodeError")]
)
async def test_a_handler_that_fails_unforeseen_closes_the_connection(
    number: int, error: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving() as bench, connected(bench) as client:
        client.send(request(ECHO, 1), request(FAIL, number), request(ECHO, 2))
        assert (await client.receive()).number == 1
        assert await client.closed() == b""
        assert bench.requests == [1, number]
        assert bench.budget.held == 0
    assert error in caplog.text


async def test_a_request_without_records_has_a_limit_of_its_own() -> None:
    async with serving() as bench, connected(bench) as client:
        client.send(request(18, 1, bytes(MAX_CONTROL_BYTES)))
        assert await client.closed() == b""
        assert bench.metrics.refusals["too_large"].value == 1


async def test_a_later_answer_that_fails_is_told_or_closes_the_connection() -> None:
    async with serving() as bench, connected(bench) as client:
        client.send(request(LATER, 1), request(LATER, 2))
        await bench.begun(2)
        bench.later[1].set_exception(KafkaError(ErrorCode.REQUEST_TIMED_OUT))
        assert (await client.receive()).error_code == 7
        bench.later[2].cancel()
        assert await client.closed() == b""


async def test_too_many_connections_are_refused() -> None:
    async with serving(max_connections=1) as bench, connected(bench) as first, connected(bench) as second:
        assert await second.closed() == b""
        first.send(request(ECHO, 1))
        assert (await first.receive()).number == 1
        assert bench.metrics.refusals["too_many_connections"].value == 1


async def test_connections_of_one_address_are_bounded_for_themselves() -> None:
    async with serving(max_connections_per_ip=2) as bench, connected(bench) as first, connected(bench) as second:
        async with connected(bench) as third:
            assert await third.closed() == b""
        first.send(request(ECHO, 1))
        assert (await first.receive()).number == 1
        await second.close()
        await until(lambda: bench.metrics.connections.value == 1)
        async with connected(bench) as again:
            again.send(request(ECHO, 2))
            assert (await again.receive()).number == 2
        assert bench.metrics.refusals["too_many_connections"].value == 1


# ---- limits ----------------------------------------------------------------------------------------------------------


async def test_no_more_requests_start_than_may_be_in_flight() -> None:
    async with serving(max_in_flight_requests=3) as bench, connected(bench) as client:
        client.send(*(request(LATER, number) for number in range(8)))
        await bench.begun(3)
        bench.answer(0)
        assert (await client.receive()).number == 0
        await bench.begun(1)
        assert bench.requests == [0, 1, 2, 3]
        for number in range(1, 8):
            if number + 3 <= 8:
                bench.answer(number)
                assert (await client.receive()).number == number
                if number + 3 < 8:
                    await bench.begun(1)
        for number in (6, 7):
            bench.answer(number)
            assert (await client.receive()).number == number


async def test_strangers_who_claim_a_hundred_megabytes_cost_nearly_nothing() -> None:
    async with serving() as bench:
        tracemalloc.start()
        try:
            clients = [Client(*await asyncio.open_connection("127.0.0.1", bench.port)) for _ in range(60)]
            before = tracemalloc.get_traced_memory()[0]
            for client in clients:
                client.send(struct.pack(">i", 104_857_600) + bytes(1024))
            async with connected(bench) as canary:
                while bench.budget.held < 60 * 1024:
                    canary.send(request(ECHO, 1))
                    assert (await canary.receive()).number == 1
            assert tracemalloc.get_traced_memory()[0] - before < 4 * 1024 * 1024
        finally:
            tracemalloc.stop()
        for client in clients:
            await client.close()


async def test_half_received_giants_that_fill_the_budget_pass_one_after_another() -> None:
    limit = 2 * 1024 * 1024
    async with serving(max_request_bytes=limit, memory_budget_bytes=limit) as bench:
        data = bytes(limit - 1000)
        clients = [Client(*await asyncio.open_connection("127.0.0.1", bench.port)) for _ in range(4)]
        for client in clients:
            client.send(request(ECHO, 1, data)[: limit // 2])
        async with connected(bench) as small:
            small.send(request(ECHO, 2))
            assert (await small.receive()).number == 2
        for client in clients:
            client.send(request(ECHO, 1, data)[limit // 2 :])
        answers = await asyncio.gather(*(client.receive() for client in clients))
        assert all(answer.data == data for answer in answers)
        assert bench.budget.held == 0
        for client in clients:
            await client.close()


async def test_a_client_that_does_not_read_stops_its_own_requests_only() -> None:
    async with serving() as bench:
        stuck = socket.create_connection(("127.0.0.1", bench.port))
        stuck.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(stuck, request(ECHO, 1, bytes(20_000_000)))
        await bench.begun(1)
        await loop.sock_sendall(stuck, request(ECHO, 2) * 10)
        async with connected(bench) as client:
            for _ in range(20):
                client.send(request(ECHO, 3))
                assert (await client.receive()).number == 3
        assert bench.requests.count(2) == 0
        received = 0
        while received < 20_000_022 + 10 * 22:
            received += len(await loop.sock_recv(stuck, 1_000_000))
        assert bench.requests.count(2) == 10
        stuck.close()


@pytest.mark.parametrize("leaves", [False, True])
async def test_an_answer_counts_as_waiting_until_it_is_read_or_the_client_is_gone(leaves: bool) -> None:
    async with serving() as bench:
        room = bench.listener.pending_bytes.remaining()
        stuck = socket.create_connection(("127.0.0.1", bench.port))
        stuck.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(stuck, request(ECHO, 1, bytes(20_000_000)))
        await until(lambda: bench.listener.pending_bytes.remaining() <= room - 10_000_000)
        assert bench.metrics.waiting_answer_bytes.value == room - bench.listener.pending_bytes.remaining()
        received = 0
        while not leaves and received < 20_000_018:
            received += len(await loop.sock_recv(stuck, 1_000_000))
        stuck.close()
        await until(lambda: bench.listener.pending_bytes.remaining() == room)


# ---- ends ------------------------------------------------------------------------------------------------------------


async def test_a_half_closed_client_gets_its_answers() -> None:
    async with serving() as bench, connected(bench) as client:
        client.send(request(LATER, 1), request(ECHO, 2))
        client.writer.write_eof()
        await bench.begun(2)
        bench.answer(1)
        assert [(await client.receive()).number for _ in range(2)] == [1, 2]
        assert await client.closed() == b""


async def test_a_frame_cut_by_the_end_is_forgotten() -> None:
    async with serving() as bench, connected(bench) as client:
        client.send(request(ECHO, 1), request(ECHO, 2, b"x" * 100)[:-1])
        client.writer.write_eof()
        assert (await client.receive()).number == 1
        assert await client.closed() == b""
        assert bench.budget.held == 0


async def test_a_reset_cancels_a_long_poll_and_nothing_else() -> None:
    async with serving() as bench, connected(bench) as client:
        client.send(request(LATER, 1), request(POLL, 2), request(SILENT, 3), request(POLL, 4), request(SILENT, 5))
        await bench.begun(2)
        client.reset()
        await bench.begun(3)  # the poll's cancellation, and the two that only send
        assert bench.cancelled == [2]
        assert bench.requests == [1, 2, 3, 5]
        assert not bench.later[1].cancelled()
        bench.answer(1)
        await bench.listener.drain(10)
        assert bench.budget.held == 0
        assert bench.metrics.connections.value == 0


async def test_silence_closes_the_connection() -> None:
    async with serving(idle_seconds=1) as bench, connected(bench) as idle, connected(bench) as midway:
        midway.send(request(ECHO, 1)[:7])
        assert await idle.closed() == b""
        assert await midway.closed() == b""
        assert bench.metrics.refusals["idle"].value == 2


async def test_a_request_that_comes_byte_by_byte_is_given_up() -> None:
    async with serving(idle_seconds=1) as bench, connected(bench) as client:
        sending = asyncio.ensure_future(drip(client, request(ECHO, 1, bytes(200))))
        assert await client.closed() == b""
        sending.cancel()
        assert bench.metrics.refusals["idle"].value == 1


async def drip(client: Client, data: bytes) -> None:
    for at in range(len(data) - 1):
        client.send(data[at : at + 1])
        await asyncio.sleep(0.1)


async def test_a_long_request_is_no_silence() -> None:
    async with serving(idle_seconds=1) as bench, connected(bench) as busy, connected(bench) as idle:
        busy.send(request(POLL, 1))
        await bench.begun(1)
        assert await idle.closed() == b""
        bench.release.set()
        assert (await busy.receive()).number == 1


async def test_little_is_read_ahead_of_what_runs() -> None:
    async with serving() as bench, connected(bench) as client:
        client.send(request(POLL, 0))
        await bench.begun(1)
        client.send(*(request(ECHO, number, bytes(300_000)) for number in range(1, 30)))
        async with asyncio.timeout(10):
            while not bench.metrics.paused_connections.value:  # noqa: ASYNC110 - turns of the loop are waited for
                await asyncio.sleep(0)
        assert READ_AHEAD_BYTES <= bench.budget.held < 2 * READ_AHEAD_BYTES
        bench.release.set()
        assert [(await client.receive()).number for _ in range(30)] == list(range(30))


async def test_what_is_gone_leaves_no_garbage_to_be_found() -> None:
    async with serving() as bench:
        with no_garbage():
            async with connected(bench) as asking, connected(bench) as silent:
                asking.send(request(ECHO, 1), request(LATER, 2))
                await bench.begun(2)
                bench.answer(2)
                assert [(await asking.receive()).number for _ in range(2)] == [1, 2]
                silent.reset()
            await until(lambda: not bench.listener._connections)
            await asyncio.sleep(0.01)  # what the loop still does about them


@pytest.mark.parametrize(
    "sent",
    [b"\x03\xe7" + request(ECHO, 1)[6:], request(ECHO, 1)[4:-2]],
    ids=["unknown API", "cut short"],
)
async def test_what_is_refused_leaves_nothing_and_is_counted_no_more(sent: bytes) -> None:
    async with serving() as bench:
        with no_garbage():
            async with connected(bench) as client:
                client.send(len(sent).to_bytes(4, "big") + sent)
                assert await client.closed() == b""
            await until(lambda: not bench.listener._connections)
            await asyncio.sleep(0.01)  # what the loop still does about it
        assert bench.metrics.paused_connections.value == 0


async def test_however_many_are_idle_each_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "SLICE_SECONDS", 0.0)
    async with serving(idle_seconds=1) as bench, connected(bench), connected(bench), connected(bench):
        await until(lambda: bench.metrics.refusals["idle"].value == 3)


async def test_a_flood_of_refusals_is_told_in_part(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as bench:
        bench.listener.shared.refusals = log.Flood(3, lambda: 0.0)
        for _ in range(10):
            async with connected(bench) as client:
                client.send(b"SSH-2.0-OpenSSH_9.2\r\n")
                assert await client.closed() == b""
        assert bench.metrics.refusals["too_large"].value == 10
    assert len([record for record in caplog.records if record.message == "! refused"]) == 3
