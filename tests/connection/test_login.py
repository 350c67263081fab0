"""Log-in over real sockets: what is refused before it, how long failure takes, sessions that end, and bytes of v0."""

import asyncio
import logging
import struct

import pytest

from bridge.apis import api_versions, sasl_authenticate
from bridge.kafka.error_codes import ErrorCode
from bridge.security.sasl import failures
from bridge.security.sasl import login as login_module
from tests.apis.wire import frame
from tests.connection.harness import ECHO, LATER, Client, connected, no_garbage, request, serving
from tests.connection.logging_in import asked, choose, echoes, log_in, logins, plain, prove, refused
from tests.security.users import Scramp
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(30)


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_who_has_logged_in_is_served(version: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "bridge.audit")
    async with serving(logins=logins()) as bench, connected(bench) as client:
        answer = await log_in(client, version=version)
        assert (answer.error_code, answer.auth_bytes, answer.session_lifetime_ms) == (ErrorCode.NONE, b"", 0)
        assert await echoes(client)
        client.send(*(request(ECHO, number, bytes(700_000)) for number in range(3)))
        assert [len((await client.receive()).data) for _ in range(3)] == [700_000] * 3
        assert bench.metrics.logins() == {("PLAIN", "succeeded"): 1}
        assert bench.listener.shared.login_budget.held == 0
        assert bench.budget.held == 0
    (said,) = (record.fields for record in caplog.records if record.name == "bridge.audit")  # type: ignore[attr-defined]
    assert (str(said["principal"]), said["mechanism"], said["again"]) == ("User:alice", "PLAIN", False)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_scram_takes_two_rounds(mechanism: str) -> None:
    async with serving(logins=logins()) as bench, connected(bench) as client:
        await choose(client, mechanism)
        scram = Scramp(mechanism, "bob", "builder")
        challenge = await prove(client, scram.first())
        assert (challenge.error_code, challenge.session_lifetime_ms) == (ErrorCode.NONE, 0)
        scram.check((await prove(client, scram.final(challenge.auth_bytes))).auth_bytes)
        assert await echoes(client)


# ---- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("key", [0, 3, ECHO, 9999])
async def test_all_else_before_it_closes_the_connection(key: int, begun: bool) -> None:
    async with serving(logins=logins()) as bench, connected(bench) as client:
        if begun:
            await choose(client, "PLAIN")
        client.send(request(key, 1))
        await refused(bench, client, "not_logged_in")
        assert bench.requests == []


async def test_api_versions_may_be_asked_before_and_sasl_authenticate_not_at_first() -> None:
    async with serving(logins=logins()) as bench, connected(bench) as client:
        table = await asked(client, api_versions.API, api_versions.Request(), 2)
        assert {17, 36, ECHO} <= {api.api_key for api in table.api_keys}
        client.send(
            frame(sasl_authenticate.API, sasl_authenticate.Request(auth_bytes=plain("alice", "wonder land")), 2)
        )
        await refused(bench, client, "not_logged_in")


async def test_after_the_handshake_only_the_mechanism_goes_on() -> None:
    async with serving(logins=logins()) as bench, connected(bench) as client:
        await choose(client, "PLAIN")
        client.send(frame(api_versions.API, api_versions.Request(), 2))
        await refused(bench, client, "not_logged_in")


@pytest.mark.parametrize(("name", "password"), [("alice", "wrong"), ("stranger", "wonder land"), ("", "x")])
async def test_a_wrong_log_in_is_answered_late_and_closes(
    name: str, password: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with serving(logins=logins(), connection_failed_authentication_delay_ms=50) as bench:
        async with connected(bench) as client, connected(bench) as other:
            began = asyncio.get_running_loop().time()
            answer = await log_in(client, name, password)
            assert asyncio.get_running_loop().time() - began >= 0.05
            assert (answer.error_code, answer.error_message) == (58, "Authentication failed")
            assert await client.closed() == b""
            await log_in(other)
            assert await echoes(other), "others are not held up, and no state is left"
        assert bench.metrics.logins() == {("PLAIN", "failed"): 1, ("PLAIN", "succeeded"): 1}
    assert not [record for record in caplog.records if "wonder land" in str(record.__dict__)]


async def test_a_refused_client_has_a_moment_to_hang_up_and_is_asked_nothing_more() -> None:
    async with serving(logins=logins(), connection_failed_authentication_delay_ms=0) as bench:
        async with connected(bench) as client:
            await log_in(client, "alice", "wrong")
            client.send(request(ECHO, 1))
            await refused(bench, client, "not_logged_in")
        async with connected(bench) as client:
            await log_in(client, "alice", "wrong")
            await client.close()
            await until(lambda: bench.metrics.connections.value == 0)
        assert bench.requests == []


async def test_who_guesses_on_is_not_looked_at(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.WARNING, "bridge.audit")
    monkeypatch.setattr(failures, "BURST", 2)
    async with serving(
        logins=logins(), connection_failed_authentication_delay_ms=0, max_failed_logins_per_ip_per_second=1
    ) as bench:
        for _ in range(2):
            async with connected(bench) as client:
                answer = await log_in(client, "alice", "wrong")
                assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        async with connected(bench) as client:
            await choose(client, "PLAIN")
            right = sasl_authenticate.Request(auth_bytes=plain("alice", "wonder land"))
            client.send(frame(sasl_authenticate.API, right, 2))
            await refused(bench, client, "too_many_failed_logins")
        assert bench.metrics.logins() == {("PLAIN", "failed"): 2}
    assert [record.getMessage() for record in caplog.records].count("! address blocked") == 1


async def test_who_only_logs_in_often_is_let_in(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(logins=logins(), max_failed_logins_per_ip_per_second=1) as bench:
        for _ in range(failures.BURST + 1):
            async with connected(bench) as client:
                await log_in(client)
                assert await echoes(client)


async def test_an_unknown_mechanism_is_told_those_there_are_and_closes() -> None:
    async with serving(logins=logins()) as bench, connected(bench) as client:
        answer = await choose(client, "GSSAPI")
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert answer.mechanisms == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
        assert await client.closed() == b""
        assert bench.metrics.logins() == {("none", "unsupported"): 1}


async def test_a_request_before_the_log_in_has_a_limit() -> None:
    async with serving(logins=logins()) as bench, connected(bench) as client:
        client.send(struct.pack(">i", login_module.MAX_BYTES + 1))
        await refused(bench, client, "too_large")


@pytest.mark.parametrize("sent", [struct.pack(">i", 0), struct.pack(">i", 3) + b"abc"])
async def test_a_frame_that_is_no_request_is_refused(sent: bytes) -> None:
    async with serving(logins=logins()) as bench, connected(bench) as client:
        client.send(sent)
        await refused(bench, client, "bad_header")


async def test_who_does_not_log_in_is_closed_in_time() -> None:
    async with serving(logins=logins(), idle_seconds=1) as bench, connected(bench) as client:
        sending = asyncio.ensure_future(_ask_on(client))
        await client.closed()
        sending.cancel()
        assert bench.metrics.refusals["login_timeout"].value == 1


async def _ask_on(client: Client) -> None:
    while True:
        client.send(frame(api_versions.API, api_versions.Request(), 2))
        await asyncio.sleep(0.05)


async def test_strangers_take_memory_apart_from_that_of_others() -> None:
    async with serving(logins=logins()) as bench, connected(bench) as client:
        await log_in(client)
        strangers = [Client(*await asyncio.open_connection("127.0.0.1", bench.port)) for _ in range(60)]
        for stranger in strangers:
            stranger.send(struct.pack(">i", 500_000) + bytes(499_000))
        await until(lambda: bench.listener.shared.login_budget.held > 10_000_000)
        assert bench.listener.shared.login_budget.held < 24 * 1024 * 1024
        assert bench.budget.held == 0
        assert await echoes(client)
        for stranger in strangers:
            stranger.reset()


async def test_a_connection_without_log_in_ends_at_once_when_the_process_does() -> None:
    async with serving(logins=logins()) as bench, connected(bench) as client, connected(bench) as logged_in:
        await choose(client, "PLAIN")
        await log_in(logged_in)
        drained = asyncio.ensure_future(bench.listener.drain(10))
        assert await client.closed() == b""
        assert await logged_in.closed() == b""
        await drained


async def test_strangers_of_an_address_share_their_time_of_the_loop_until_they_have_logged_in() -> None:
    async with serving(logins=logins()) as bench, connected(bench) as one, connected(bench) as other:
        strangers = bench.listener.stranger_share("127.0.0.1")
        for client in (one, other):
            before = strangers.used
            await log_in(client)
            assert strangers.used > before
        used = strangers.used
        assert await echoes(one)
        assert await echoes(other)
        assert strangers.used == used
        assert len(set(map(id, [*bench.shares, strangers]))) == 3


async def test_a_network_of_ipv6_is_one_address_to_the_loop() -> None:
    async with serving(logins=logins()) as bench:
        first = bench.listener.stranger_share("2001:db8::1")
        assert bench.listener.stranger_share("2001:db8::ffff") is first
        assert bench.listener.stranger_share("2001:db8:0:1::1") is not first


async def test_a_client_that_hangs_up_while_it_is_refused_leaves_nothing() -> None:
    async with serving(logins=logins(), connection_failed_authentication_delay_ms=1_000) as bench:
        async with connected(bench) as client:
            await choose(client, "PLAIN")
            client.send(frame(sasl_authenticate.API, sasl_authenticate.Request(auth_bytes=plain("alice", "x")), 2))
            await until(lambda: bench.metrics.logins() == {("PLAIN", "failed"): 1})
            client.reset()
            await until(lambda: bench.metrics.connections.value == 0)
        await bench.listener.drain(5)
        assert bench.listener.shared.login_budget.held == 0


# ---- bytes without headers (v0) --------------------------------------------------------------------------------------


async def test_after_a_handshake_of_v0_come_bytes_without_headers() -> None:
    async with serving(logins=logins()) as bench, connected(bench) as client:
        assert (await choose(client, "SCRAM-SHA-256", version=0)).error_code == ErrorCode.NONE
        scram = Scramp("SCRAM-SHA-256", "alice", "wonder land")
        client.send(_sized(scram.first()))
        client.send(_sized(scram.final(await client.receive_frame())))
        scram.check(await client.receive_frame())
        assert await echoes(client)


async def test_short_ones_and_an_empty_answer() -> None:
    async with serving(logins=logins()) as bench, connected(bench) as client:
        await choose(client, "PLAIN", version=0)
        client.send(_sized(plain("bob", "builder")))
        assert await client.receive_frame() == b""
        assert await echoes(client)


@pytest.mark.parametrize("sent", [b"", b"\0b\0x", plain("bob", "wrong")])
async def test_wrong_ones_close_without_an_answer(sent: bytes) -> None:
    async with serving(logins=logins()) as bench, connected(bench) as client:
        await choose(client, "PLAIN", version=0)
        client.send(_sized(sent))
        assert await client.closed() == b""
        assert bench.metrics.logins() == {("PLAIN", "failed"): 1}


def _sized(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


# ---- sessions (KIP-368) ----------------------------------------------------------------------------------------------


async def test_a_client_that_logs_in_again_goes_on() -> None:
    async with serving(logins=logins(60_000)) as bench, connected(bench) as client:
        assert 59_000 < (await log_in(client)).session_lifetime_ms <= 60_000
        assert await echoes(client)
        assert (await log_in(client)).error_code == ErrorCode.NONE
        assert await echoes(client)
        too_soon = await choose(client, "PLAIN")
        assert too_soon.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert await echoes(client)
        assert bench.metrics.logins() == {("PLAIN", "succeeded"): 2}


@pytest.mark.parametrize(
    ("mechanism", "sent"),
    [("PLAIN", plain("bob", "builder")), ("PLAIN", plain("alice", "wrong")), ("SCRAM-SHA-256", b"n,,n=alice,r=x")],
    ids=["another principal", "a wrong password", "another mechanism"],
)
async def test_it_stays_who_it_is(mechanism: str, sent: bytes) -> None:
    async with serving(logins=logins(60_000)) as bench, connected(bench) as client:
        await log_in(client)
        assert (await choose(client, mechanism)).error_code == ErrorCode.NONE
        assert (await prove(client, sent)).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert await client.closed() == b""
        assert bench.metrics.logins()["PLAIN", "failed"] == 1


async def test_at_the_end_of_its_session_a_request_closes_the_connection() -> None:
    async with serving(logins=logins(1)) as bench, connected(bench) as client:
        assert (await log_in(client)).session_lifetime_ms == 1
        while bench.metrics.refusals["session_expired"].value == 0 and await _answered(client):
            pass
        assert bench.metrics.refusals["session_expired"].value == 1


async def _answered(client: Client) -> bool:
    try:
        return await echoes(client)
    except (asyncio.IncompleteReadError, ConnectionError):
        return False


async def test_soon_after_it_the_connection_is_closed_also_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.connection.client.GRACE_SECONDS", 0.02)
    async with serving(logins=logins(1)) as bench, connected(bench) as client:
        await log_in(client)
        await refused(bench, client, "session_expired")


async def test_a_client_that_is_owed_answers_may_log_in_again_when_it_has_them() -> None:
    """kafka-python does; Kafka looks at the session's end only when it is asked for more."""
    async with serving(logins=logins(60_000)) as bench, connected(bench) as client:
        await log_in(client)
        client.send(request(LATER, 7))
        await bench.begun(1)
        (connection,) = bench.listener._open
        connection._session_ended()
        bench.answer(7)
        assert (await client.receive()).number == 7
        connection._session_ended()  # it had no time yet
        assert (await log_in(client)).error_code == ErrorCode.NONE
        assert await echoes(client)
        assert bench.metrics.refusals["session_expired"].value == 0


async def test_without_log_in_there_is_none() -> None:
    async with serving() as bench, connected(bench) as client:
        assert (await choose(client, "PLAIN")).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert (await prove(client, b"")).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert await echoes(client)


async def test_what_has_logged_in_and_is_gone_leaves_no_garbage_to_be_found() -> None:
    async with serving(logins=logins()) as bench:
        with no_garbage():
            async with connected(bench) as client:
                await log_in(client)
                assert await echoes(client)
            await until(lambda: not bench.listener._connections)
            await asyncio.sleep(0.01)
