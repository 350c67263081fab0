"""Log-in with a token: the messages; tests/security/test_tokens.py has the tokens."""

from __future__ import annotations

import importlib
import json
import warnings
from collections.abc import Sequence

import pytest
from aiokafka.abc import AbstractTokenProvider
from aiokafka.conn import OAuthAuthenticator
from hypothesis import given, settings
from hypothesis import strategies as st
from jwt import PyJWK

from bridge.security import jwks
from bridge.security.principal import user
from bridge.security.sasl.credentials import CredentialsUnavailable
from bridge.security.sasl.mechanism import Challenge, Done, Failed, Step
from bridge.security.sasl.oauthbearer import INVALID_TOKEN, MAX_MESSAGE_BYTES, OAuthBearer
from bridge.security.tokens import TokenRules, TokenVerifier
from tests.security.issuer import CLAIMS, key_set, public_jwk, token
from tests.security.users import NOW, steps
from tests.support.effort import examples

with warnings.catch_warnings():  # kafka-python reads its schemas by an old function of importlib while it is imported
    warnings.simplefilter("ignore", DeprecationWarning)
    kafka_oauth = importlib.import_module("kafka.net.sasl.oauth")


class Kept:
    """A key set in memory; none where the issuer is away."""

    def __init__(self, keys: jwks.Keys | None) -> None:
        self._keys = keys

    async def find(self, key_id: str | None, algorithm: str) -> Sequence[PyJWK]:
        if self._keys is None:
            raise CredentialsUnavailable("the token issuer's keys cannot be fetched")
        return self._keys.find(key_id, algorithm)


MECHANISM = OAuthBearer(TokenVerifier(Kept(jwks.parse(key_set(public_jwk("ES256")))), TokenRules()))
GOOD = token(CLAIMS, "ES256")
EXPIRED = token({**CLAIMS, "exp": NOW - 100}, "ES256")
ALICE = Done(user("alice"), NOW + 60, token=GOOD)


def answer(message: str | bytes) -> Step:
    (step,) = steps(MECHANISM.begin(), message.encode() if isinstance(message, str) else message)
    return step


@pytest.mark.parametrize(
    "message",
    [
        "n,,\1auth=Bearer {}\1\1",
        "n,a=alice,\1auth=bearer   {}\1\1",
        "y,,\1auth=BEARER {}\1\1",
        "n,,\1auth=Bearer {}\1traceId=123\1team=a b\1\1",
        "n,,\1host=bridge\1port=9092\1auth=Bearer {}\1\1",
    ],
)
def test_a_valid_token_lets_in_until_it_ends(message: str) -> None:
    step = answer(message.format(GOOD))
    assert step == ALICE
    assert GOOD not in repr(step)


def test_a_wrong_token_is_answered_by_a_status_and_ends_with_the_clients_acknowledgement() -> None:
    for wrong in (EXPIRED, GOOD[:-3], "abc", token(CLAIMS, "ES256", 1)):
        message = f"n,,\1auth=Bearer {wrong}\1\1".encode()
        first, second, third = steps(MECHANISM.begin(), message, b"\1", message)
        assert first == Challenge(INVALID_TOKEN)
        assert json.loads(INVALID_TOKEN) == {"status": "invalid_token"}
        assert isinstance(second, Failed)
        assert "token" in second.reason
        assert isinstance(third, Failed)


def test_the_reason_of_a_wrong_token_is_for_the_log() -> None:
    _, failed = steps(MECHANISM.begin(), f"n,,\1auth=Bearer {EXPIRED}\1\1".encode(), b"\1")
    assert failed == Failed("the token has expired", "alice")


def test_after_a_wrong_token_a_valid_one_is_too_late() -> None:
    _, second = steps(
        MECHANISM.begin(), f"n,,\1auth=Bearer {EXPIRED}\1\1".encode(), f"n,,\1auth=Bearer {GOOD}\1\1".encode()
    )
    assert isinstance(second, Failed)


def test_there_is_one_step_with_a_valid_token() -> None:
    message = f"n,,\1auth=Bearer {GOOD}\1\1".encode()
    one, two = steps(MECHANISM.begin(), message, message)
    assert one == ALICE
    assert isinstance(two, Failed)


@pytest.mark.parametrize(
    "message",
    [
        "",
        "\1",
        "n,,",
        "n,,\1\1",
        "n,,\1auth=Bearer {}\1",
        "n,,\1auth=Bearer {}",
        "n,,auth=Bearer {}\1\1",
        "n,,\1auth=Basic {}\1\1",
        "n,,\1auth=Bearer{}\1\1",
        "n,,\1auth=Bearer \1\1",
        "n,,\1Auth=Bearer {}\1\1",
        "n,,\1auth=Bearer {}\1auth=Bearer {}\1\1",
        "n,,\1auth=Bearer {}\1key\1\1",
        "n,,\1auth=Bearer {}\1k3y=x\1\1",
        "n,,\1auth=Bearer {}\1key=\1\1",
        "n,,\1auth=Bearer {}\1key=é\1\1",
        "n,,\1auth=Bearer {}\1\1\1",
        "n,a=bob,\1auth=Bearer {}\1\1",
        "n,a=,\1auth=Bearer {}\1\1",
        "n,alice,\1auth=Bearer {}\1\1",
        "p=tls-unique,,\1auth=Bearer {}\1\1",
        "x,,\1auth=Bearer {}\1\1",
        "\0alice\0secret",
    ],
)
def test_a_message_of_another_form_is_refused_at_once(message: str) -> None:
    step = answer(message.replace("{}", GOOD))
    assert isinstance(step, Failed)
    assert GOOD not in repr(step)


@pytest.mark.parametrize("message", [b"\xff\1", b"n,,\1auth=Bearer " + b"a" * MAX_MESSAGE_BYTES + b"\1\1"])
def test_bytes_that_are_no_text_or_too_many_are_refused(message: bytes) -> None:
    assert isinstance(answer(message), Failed)


def test_commas_and_equals_signs_in_an_authorization_id_are_escaped() -> None:
    text = token({**CLAIMS, "sub": "CN=a,O=b"}, "ES256")
    step = answer(f"n,a=CN=3Da=2CO=3Db,\1auth=Bearer {text}\1\1")
    assert isinstance(step, Done)
    assert step.principal == user("CN=a,O=b")


def test_while_the_issuers_keys_are_not_to_be_had_the_client_may_try_again() -> None:
    away = OAuthBearer(TokenVerifier(Kept(None), TokenRules()))
    (step,) = steps(away.begin(), f"n,,\1auth=Bearer {GOOD}\1\1".encode())
    assert step == Failed("the token issuer's keys cannot be fetched", retriable=True)


class KafkaPythonTokens(kafka_oauth.AbstractTokenProvider):  # type: ignore[misc,name-defined]
    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def token(self) -> str:
        return self._text

    def extensions(self) -> dict[str, str]:
        return {"traceId": "123"}


@pytest.mark.parametrize(("text", "let_in"), [(GOOD, True), (EXPIRED, False)])
def test_kafka_python_gets_in_with_a_valid_token_and_an_error_without(text: str, let_in: bool) -> None:
    client = kafka_oauth.SaslMechanismOAuth(sasl_oauth_token_provider=KafkaPythonTokens(text))
    exchange = MECHANISM.begin()
    (first,) = steps(exchange, client.auth_bytes())
    assert isinstance(first, Done | Challenge)
    client.receive(first.data)
    assert client.is_authenticated() is let_in
    if not let_in:
        (second,) = steps(exchange, client.auth_bytes())
        assert isinstance(second, Failed)


async def test_aiokafkas_message_is_taken() -> None:
    class Tokens(AbstractTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return GOOD

        def extensions(self) -> dict[str, str]:
            return {"traceId": "123"}

    message, _ = await OAuthAuthenticator(sasl_oauth_token_provider=Tokens()).step(None)
    assert await MECHANISM.begin().step(message, NOW) == ALICE


PIECES = st.sampled_from([b"n,,", b"\1", b"auth=", b"Bearer ", GOOD.encode(), b"a=", b",", b"k=v", b"y,a=alice,"])


@given(st.binary(max_size=60) | st.lists(PIECES | st.binary(max_size=4), max_size=9).map(b"".join))
@settings(max_examples=examples(500), deadline=None)
def test_any_bytes_are_answered(message: bytes) -> None:
    one, two = steps(MECHANISM.begin(), message, b"\1")
    assert isinstance(one, Done | Challenge | Failed)
    assert isinstance(two, Failed)
