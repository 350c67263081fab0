"""Log-in by SCRAM: with right and wrong passwords, by several clients, and by bytes that no client sends."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import importlib
import warnings
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable
from secrets import token_hex
from typing import Any

import pytest
import scramp
from aiokafka.conn import ScramAuthenticator
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.security.names import prepared, prepared_name
from bridge.security.principal import user
from bridge.security.sasl import scram
from bridge.security.sasl.credentials import SCRAM_HASHES, CredentialsUnavailable, ScramCredential
from bridge.security.sasl.mechanism import Challenge, Done, Failed
from bridge.security.sasl.scram import MAX_MESSAGE_BYTES, Scram
from bridge.security.sasl.scram_messages import ScramClient, ScramError
from tests.security.users import DECOYS, NOW, Scramp, Users, Written, credential, log_in, steps
from tests.support.effort import examples

with warnings.catch_warnings():  # kafka-python reads its schemas by an old function of importlib while it is imported
    warnings.simplefilter("ignore", DeprecationWarning)
    kafka_scram = importlib.import_module("kafka.net.sasl.scram")

PASSWORDS = {"alice": "secret of alice", "a=b,c": "secret of abc", "møller": "pässwörd"}
USERS = Users.of(PASSWORDS)
MECHANISMS = [Scram(name, USERS, DECOYS, token_hex) for name in SCRAM_HASHES]
BY_NAME = {mechanism.name: mechanism for mechanism in MECHANISMS}
each_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS, ids=SCRAM_HASHES)


class KafkaPython:
    """kafka-python's client."""

    def __init__(self, mechanism: str, name: str, password: str) -> None:
        self._client: Any = kafka_scram.ScramClient(name.replace("=", "=3D").replace(",", "=2C"), password, mechanism)

    def first(self) -> bytes:
        return bytes(self._client.first_message())

    def final(self, server_first: bytes) -> bytes:
        self._client.process_server_first_message(server_first)
        return bytes(self._client.final_message())

    def check(self, server_final: bytes) -> None:
        self._client.process_server_final_message(server_final)


class AioKafka:
    """aiokafka's client."""

    def __init__(self, mechanism: str, name: str, password: str) -> None:
        self._client: Any = ScramAuthenticator(
            loop=None, sasl_plain_password=password, sasl_plain_username=name, sasl_mechanism=mechanism
        )

    def first(self) -> bytes:
        return str(self._client.first_message()).encode()

    def final(self, server_first: bytes) -> bytes:
        self._client.process_server_first_message(server_first.decode())
        return str(self._client.final_message()).encode()

    def check(self, server_final: bytes) -> None:
        self._client.process_server_final_message(server_final.decode())


@each_mechanism
@pytest.mark.parametrize("make", [Scramp, KafkaPython, AioKafka, Written])
@pytest.mark.parametrize("name", ["alice", "møller"])
async def test_a_client_with_the_right_password_is_let_in_and_any_other_is_not(
    mechanism: Scram, make: Callable[..., Any], name: str
) -> None:
    done = await log_in(mechanism, make(mechanism.name, name, PASSWORDS[name]))
    assert isinstance(done, Done)
    assert done.principal == user(name)
    assert done.expires_at is None
    for wrong in ("secret", PASSWORDS[name] + " ", PASSWORDS["a=b,c"]):
        assert isinstance(await log_in(mechanism, make(mechanism.name, name, wrong)), Failed)
    assert isinstance(await log_in(mechanism, make(mechanism.name, "stranger", PASSWORDS[name])), Failed)


@pytest.mark.parametrize("make", [Scramp, KafkaPython, AioKafka])
async def test_commas_and_equals_signs_in_a_name_are_escaped(make: Callable[..., Any]) -> None:
    done = await log_in(MECHANISMS[0], make("SCRAM-SHA-256", "a=b,c", PASSWORDS["a=b,c"]))
    assert isinstance(done, Done)
    assert done.principal == user("a=b,c")


async def test_the_example_of_rfc_7677_is_answered_byte_for_byte() -> None:
    salt = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    users = Users(("user", credential("SCRAM-SHA-256", "pencil", 4096, salt)))
    mechanism = Scram("SCRAM-SHA-256", users, DECOYS, lambda: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    exchange = mechanism.begin()
    nonce = b"rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    first = await exchange.step(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO", NOW)
    assert first == Challenge(b"r=" + nonce + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    final = b"c=biws,r=" + nonce + b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    last = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert await exchange.step(final, NOW) == Done(user("user"), data=last)


@given(
    name=st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(list(PASSWORDS)),
    # NUL has no place in a password (RFC 4013), and HMAC takes one with a NUL behind it for the one without
    password=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8)
    | st.sampled_from(list(PASSWORDS.values())),
    which=st.sampled_from(list(SCRAM_HASHES)),
)
@settings(max_examples=examples(150), deadline=None)
def test_exactly_the_right_password_of_a_name_lets_in(name: str, password: str, which: str) -> None:
    client = Written(which, name.replace("=", "=3D").replace(",", "=2C"), password)
    exchange = BY_NAME[which].begin()
    (first,) = steps(exchange, client.first())
    if isinstance(first, Challenge):
        (last,) = steps(exchange, client.final(first.data))
        assert isinstance(last, Done) == (PASSWORDS.get(last_name(last)) == password)
    else:
        assert isinstance(first, Failed)
        assert name not in PASSWORDS


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8)


@given(name=TEXTS, password=TEXTS, other=TEXTS, which=st.sampled_from(list(SCRAM_HASHES)))
@settings(max_examples=examples(60), deadline=None)
def test_scramps_client_is_let_in_with_a_password_that_is_prepared_to_the_same_and_no_other(
    name: str, password: str, other: str, which: str
) -> None:
    kept = prepared(password), prepared_name(name)
    if kept[0] is None or kept[1] is None:
        return
    mechanism = Scram(which, Users.of({kept[1]: kept[0]}, [which]), DECOYS, token_hex)
    done = asyncio.run(log_in(mechanism, Scramp(which, name, password)))
    assert isinstance(done, Done)
    assert done.principal == user(kept[1])
    if prepared(other) not in (None, kept[0]):
        assert isinstance(asyncio.run(log_in(mechanism, Scramp(which, name, other))), Failed)


SALT = b64encode(b"the salt of nodes").decode()
PRINTABLE = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=16, max_size=40)


@given(secret=PRINTABLE, other=PRINTABLE, which=st.sampled_from(list(SCRAM_HASHES)))
@settings(max_examples=examples(40), deadline=None)
def test_the_client_of_nodes_logs_in_to_scramps_server_and_knows_one_without_the_secret(
    secret: str, other: str, which: str
) -> None:
    def ends(password: str) -> None:
        made = scramp.ScramMechanism(which).make_auth_info(password)
        server = scramp.ScramMechanism(which).make_server(lambda name: made if name == "node" else None)
        client = ScramClient(which, "node", secret, "a-nonce")
        server.set_client_first(client.first())
        server.set_client_final(client.final(server.get_server_first()))
        client.check(server.get_server_final())

    ends(secret)
    if other != secret:
        with pytest.raises(scramp.ScramException):
            ends(other)


@pytest.mark.parametrize(
    "answer",
    [
        "",
        f"r=a-nonce,s={SALT},i=4096",
        f"r=other,s={SALT},i=4096",
        f"r=a-nonce-2,s={SALT},i=4095",
        f"r=a-nonce-2,s={SALT},i=999999",
        "r=a-nonce-2,s=?,i=4096",
        "r=a-nonce-2,s=c2FsdA==,i=4096",
        f"r=a-nonce-2,s={SALT}",
        f"m=x,r=a-nonce-2,s={SALT},i=4096",
        "e=other-error",
    ],
)
def test_a_servers_first_message_that_is_none_is_refused(answer: str) -> None:
    with pytest.raises(ScramError):
        ScramClient("SCRAM-SHA-256", "node", "secret", "a-nonce").final(answer)


@pytest.mark.parametrize("answer", ["", "v=", "v=AAAA", "e=invalid-proof"])
def test_a_server_that_does_not_know_the_password_is_known(answer: str) -> None:
    client = ScramClient("SCRAM-SHA-256", "node", "secret", "a-nonce")
    client.final(f"r=a-nonce-2,s={SALT},i=4096")
    with pytest.raises(ScramError, match="does not know"):
        client.check(answer)


def last_name(step: object) -> str:
    assert isinstance(step, Done | Failed)
    return step.principal.name if isinstance(step, Done) else step.name or ""


@each_mechanism
async def test_a_nonce_that_is_not_the_servers_is_refused_although_the_proof_fits_it(mechanism: Scram) -> None:
    """CVE-2024-56128."""
    changes: list[Callable[[str], str]] = [
        lambda nonce: nonce[:-1],
        lambda nonce: nonce + "x",
        lambda nonce: "x" + nonce,
        lambda nonce: "client-nonce" + nonce[:-1],
        lambda nonce: 2 * "client-nonce" + nonce,
        lambda _: "client-nonce",
        lambda _: 2 * "client-nonce",
    ]
    for change in changes:
        client = Written(mechanism.name, "alice", PASSWORDS["alice"], nonce=change)
        failed = await log_in(mechanism, client)
        assert isinstance(failed, Failed)
        assert "nonce" in failed.reason


@each_mechanism
async def test_librdkafka_before_2_6_1_is_let_in_with_its_nonce_twice(mechanism: Scram) -> None:
    """And only with the right password."""

    def client(password: str) -> Written:
        return Written(mechanism.name, "alice", password, nonce=lambda nonce: "client-nonce" + nonce)

    assert isinstance(await log_in(mechanism, client(PASSWORDS["alice"])), Done)
    failed = await log_in(mechanism, client("another"))
    assert isinstance(failed, Failed)
    assert "nonce" not in failed.reason


@each_mechanism
@pytest.mark.parametrize("header", ["n,,", "y,,", "n,a=alice,", "y,a=alice,"])
async def test_headers_without_channel_binding_are_taken_and_so_is_ones_own_name(mechanism: Scram, header: str) -> None:
    assert isinstance(
        await log_in(mechanism, Written(mechanism.name, "alice", PASSWORDS["alice"], header=header)), Done
    )


@each_mechanism
@pytest.mark.parametrize(
    "header", ["n,a=bob,", "n,a=,", "n,alice,", "p=tls-unique,,", "p=tls-exporter,,", "x,,", ",,", "n,", "", "N,,"]
)
async def test_other_headers_are_refused(mechanism: Scram, header: str) -> None:
    client = Written(mechanism.name, "alice", PASSWORDS["alice"], header=header)
    assert isinstance(await log_in(mechanism, client), Failed)


@pytest.mark.parametrize(("header", "repeated"), [("n,,", "y,,"), ("n,a=alice,", "n,,"), ("n,,", "n,a=alice,")])
async def test_the_header_must_be_repeated_as_it_was(header: str, repeated: str) -> None:
    client = Written("SCRAM-SHA-256", "alice", PASSWORDS["alice"], header=header, repeated=repeated)
    failed = await log_in(MECHANISMS[0], client)
    assert isinstance(failed, Failed)
    assert "channel bindings" in failed.reason


@each_mechanism
@pytest.mark.parametrize(
    "first",
    [
        b"n,,n=alice,r=nonce,tokenauth=true",
        b"n,,n=alice,r=nonce,extension=1",
        b"n,,m=mandatory,n=alice,r=nonce",
        b"n,,n=alice",
        b"n,,r=nonce,n=alice",
        b"n,,n=,r=nonce",
        b"n,,n=alice,r=",
        b"n,,n=al=ice,r=nonce",
        b"n,,n=" + b"a" * 600 + b",r=nonce",
        b"n,,n=alice,r=" + b"n" * MAX_MESSAGE_BYTES,
        b"\xff\xfe",
        b"",
    ],
)
def test_a_first_message_that_is_not_served_is_refused(mechanism: Scram, first: bytes) -> None:
    (failed,) = steps(mechanism.begin(), first)
    assert isinstance(failed, Failed)
    assert not failed.retriable


def test_the_reason_names_delegation_tokens() -> None:
    (failed,) = steps(MECHANISMS[0].begin(), b"n,,n=alice,r=nonce,tokenauth=true")
    assert isinstance(failed, Failed)
    assert "delegation tokens" in failed.reason


@each_mechanism
def test_an_unknown_user_sees_the_same_salt_each_time_and_as_many_iterations_as_others(mechanism: Scram) -> None:
    def shown(name: str) -> list[str]:
        (challenge,) = steps(mechanism.begin(), f"n,,n={name},r=nonce".encode())
        assert isinstance(challenge, Challenge)
        return challenge.data.decode().split(",")[1:]

    assert shown("stranger") == shown("stranger")
    assert shown("stranger") != shown("noone")
    assert shown("stranger")[1] == shown("alice")[1]


@each_mechanism
async def test_an_unknown_user_and_a_wrong_password_take_the_same_work(
    mechanism: Scram, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted by calls of hash functions, for a clock would tell little."""
    calls: Counter[str] = Counter()

    def count(owner: object, name: str) -> None:
        real = getattr(owner, name)

        def counting(*arguments: Any, **keywords: Any) -> Any:
            calls[name] += 1
            return real(*arguments, **keywords)

        monkeypatch.setattr(owner, name, counting)

    for owner, name in ((hmac, "digest"), (hashlib, "new"), (hashlib, "pbkdf2_hmac"), (scram, "prepared")):
        count(owner, name)

    async def work(name: str) -> tuple[Counter[str], list[str]]:
        exchange = mechanism.begin()
        first = await exchange.step(f"n,,n={name},r=nonce".encode(), NOW)
        assert isinstance(first, Challenge)
        proof = b"A" * (43 if mechanism.name == "SCRAM-SHA-256" else 86) + b"=" * (
            1 if mechanism.name == "SCRAM-SHA-256" else 2
        )
        failed = await exchange.step(b"c=biws," + first.data.split(b",")[0] + b",p=" + proof, NOW)
        assert isinstance(failed, Failed)
        done = calls.copy()
        calls.clear()
        return done, [field[:2] for field in first.data.decode().split(",")]

    known, unknown = await work("alice"), await work("stranger")
    assert known == unknown
    assert known[0]["new"] >= 1
    assert known[0]["pbkdf2_hmac"] == 0


async def test_even_a_right_proof_does_not_let_an_unknown_user_in() -> None:
    class Knows(type(DECOYS)):  # type: ignore[misc]
        def credential(self, mechanism: str, name: str, iterations: object) -> ScramCredential:
            return credential(mechanism, "guessed")

    mechanism = Scram("SCRAM-SHA-256", USERS, Knows(b"a secret of all nodes"), token_hex)
    assert isinstance(await log_in(mechanism, Scramp("SCRAM-SHA-256", "stranger", "guessed")), Failed)


@each_mechanism
async def test_an_exchange_that_is_over_takes_no_further_step(mechanism: Scram) -> None:
    exchange = mechanism.begin()
    client = Scramp(mechanism.name, "alice", PASSWORDS["alice"])
    first = await exchange.step(client.first(), NOW)
    assert isinstance(first, Challenge)
    final = client.final(first.data)
    assert isinstance(await exchange.step(final, NOW), Done)
    assert isinstance(await exchange.step(final, NOW), Failed)
    assert isinstance(await exchange.step(b"n,,n=alice,r=nonce", NOW), Failed)


async def test_where_credentials_cannot_be_asked_for_the_client_may_try_again() -> None:
    class Away(Users):
        async def find(self, mechanism: str, name: str) -> ScramCredential | None:
            raise CredentialsUnavailable("the users are not read yet")

    failed = await log_in(Scram("SCRAM-SHA-256", Away(), DECOYS, token_hex), Scramp("SCRAM-SHA-256", "alice", "x"))
    assert failed == Failed("the users are not read yet", "alice", retriable=True)


async def test_names_are_asked_for_as_prepared() -> None:
    users = Users.of({"IX": "secret"})
    done = await log_in(Scram("SCRAM-SHA-256", users, DECOYS, token_hex), Written("SCRAM-SHA-256", "\u2168", "secret"))
    assert isinstance(done, Done)
    assert done.principal == user("IX")
    assert users.asked == ["IX"]


PIECES = st.sampled_from(
    [b"n,,", b"y,,", b"p=", b"n=", b"r=", b"a=", b"c=", b"m=", b"alice", b",", b"=", b"=2C", b"\0"]
)
NOISE = st.binary(max_size=80) | st.lists(PIECES | st.binary(max_size=5), max_size=12).map(b"".join)


@given(first=NOISE, second=NOISE)
@settings(max_examples=examples(400), deadline=None)
def test_any_bytes_as_a_first_message_are_answered(first: bytes, second: bytes) -> None:
    for mechanism in MECHANISMS:
        one, two = steps(mechanism.begin(), first, second)
        assert isinstance(one, Challenge | Failed)
        assert isinstance(two, Failed)


@given(st.data())
@settings(max_examples=examples(400), deadline=None)
def test_any_bytes_as_a_last_message_are_refused(data: st.DataObject) -> None:
    exchange = MECHANISMS[0].begin()
    (first,) = steps(exchange, b"n,,n=alice,r=nonce")
    assert isinstance(first, Challenge)
    nonce = first.data.split(b",")[0]
    pieces = st.sampled_from([b"c=biws,", nonce, b",p=", b"=", b"AAAA", b"x=1,"]) | st.binary(max_size=8)
    message = data.draw(st.lists(pieces, max_size=10).map(b"".join))
    (last,) = steps(exchange, message)
    assert isinstance(last, Failed)
    assert len(last.reason) <= 300
