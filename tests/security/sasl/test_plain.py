from __future__ import annotations

import importlib
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.security.names import MAX_NAME_BYTES, MAX_PASSWORD_BYTES
from bridge.security.principal import user
from bridge.security.sasl.credentials import CredentialsUnavailable, LoginAttempt
from bridge.security.sasl.mechanism import Done, Failed, Step
from bridge.security.sasl.plain import Plain
from tests.security.users import NOW, steps
from tests.support.effort import examples

with warnings.catch_warnings():  # kafka-python reads its schemas by an old function of importlib while it is imported
    warnings.simplefilter("ignore", DeprecationWarning)
    kafka_plain = importlib.import_module("kafka.net.sasl.plain")


class Passwords:
    """One user, and what was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    async def check(self, name: str, password: str, now: float) -> LoginAttempt | None:
        self.asked.append((name, password))
        if name == "token":
            return LoginAttempt(user("carol"), now + 60, password)
        return LoginAttempt(user(name)) if (name, password) == ("alice", "secret") else None


def answer(message: bytes) -> Step:
    (step,) = steps(Plain(Passwords()).begin(), message)
    return step


@pytest.mark.parametrize("message", [b"\0alice\0secret", b"alice\0alice\0secret"])
def test_the_right_password_lets_in_also_with_ones_own_name_as_the_authorization_id(message: bytes) -> None:
    assert answer(message) == Done(user("alice"))


def test_kafka_pythons_message_is_taken() -> None:
    client = kafka_plain.SaslMechanismPlain(sasl_plain_username="alice", sasl_plain_password="secret")  # noqa: S106
    step = answer(client.auth_bytes())
    assert isinstance(step, Done)
    client.receive(step.data)
    assert client.is_authenticated()


@pytest.mark.parametrize(
    "message",
    [
        b"\0alice\0wrong",
        b"\0bob\0secret",
        b"bob\0alice\0secret",
        b"\0alice\0secret\0",
        b"\0alice\0",
        b"\0\0secret",
        b"alice\0secret",
        b"",
        b"\0\0",
        b"\0alice\0\xff",
        b"\0al\x07ice\0secret",
        b"\0" + b"a" * (MAX_NAME_BYTES + 1) + b"\0secret",
        b"\0alice\0" + b"s" * (MAX_PASSWORD_BYTES + 1),
        b"\0alice\0" + b"s" * 600_000,
    ],
)
def test_anything_else_is_refused_and_the_password_is_in_no_reason(message: bytes) -> None:
    step = answer(message)
    assert isinstance(step, Failed)
    assert not step.retriable
    assert "secret" not in repr(step)


def test_an_unknown_user_and_a_wrong_password_have_one_reason() -> None:
    one, other = answer(b"\0alice\0wrong"), answer(b"\0bob\0wrong")
    assert isinstance(one, Failed)
    assert isinstance(other, Failed)
    assert one.reason == other.reason
    assert (one.name, other.name) == ("alice", "bob")


def test_a_password_may_be_a_token_with_an_end_of_its_own() -> None:
    step = answer(b"\0token\0" + b"t" * MAX_PASSWORD_BYTES)
    assert step == Done(user("carol"), NOW + 60, token="t" * MAX_PASSWORD_BYTES, user_name="token")
    assert "ttt" not in repr(step)


def test_the_name_is_asked_for_as_prepared_and_the_password_as_sent() -> None:
    passwords = Passwords()
    steps(Plain(passwords).begin(), "\0\u2168\0\u2168".encode())
    assert passwords.asked == [("IX", "\u2168")]


def test_there_is_one_step() -> None:
    one, two = steps(Plain(Passwords()).begin(), b"\0alice\0secret", b"\0alice\0secret")
    assert isinstance(one, Done)
    assert isinstance(two, Failed)


def test_where_passwords_cannot_be_checked_the_client_may_try_again() -> None:
    class Away(Passwords):
        async def check(self, name: str, password: str, now: float) -> LoginAttempt | None:
            raise CredentialsUnavailable("the users are not read yet")

    (step,) = steps(Plain(Away()).begin(), b"\0alice\0secret")
    assert step == Failed("the users are not read yet", "alice", retriable=True)


@given(st.binary(max_size=60) | st.lists(st.sampled_from([b"\0", b"alice", b"secret", b"\xc3"])).map(b"".join))
@settings(max_examples=examples(500))
def test_any_bytes_are_answered(message: bytes) -> None:
    expected = message in (b"\0alice\0secret", b"alice\0alice\0secret")
    assert isinstance(answer(message), Done if expected else Failed)
