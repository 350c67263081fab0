"""The stages of a log-in, without a connection."""

import asyncio

import pytest

from bridge.security.principal import user
from bridge.security.sasl.login import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE, Login, Stage
from bridge.security.sasl.mechanism import Challenge, Done, Failed, Step

PRODUCE = 0
ALL = (API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE, PRODUCE)


class Scripted:
    """A mechanism and its exchange: answers with what it was given."""

    name = "M"

    def __init__(self, *steps: Step) -> None:
        self._steps = list(steps)

    def begin(self) -> "Scripted":
        return self

    async def step(self, data: bytes, now: float) -> Step:
        return self._steps.pop(0)


def made(*steps: Step, max_session_ms: int = 0) -> tuple[Login, list[None]]:
    told: list[None] = []
    mechanism = Scripted(*steps)
    return Login({"M": mechanism, "OTHER": mechanism}, max_session_ms, lambda: told.append(None)), told


def proved(login: Login, now: float = 0.0, unix_now: float = 1000.0) -> Step:
    return asyncio.run(login.prove(b"", unix_now, now))


def allowed(login: Login, now: float = 0.0) -> list[int]:
    return [key for key in ALL if login.refusal(key, now) is None]


def test_what_may_be_asked_in_each_stage() -> None:
    login, told = made(Challenge(b"?"), Done(user("alice")))
    assert allowed(login) == [API_VERSIONS, SASL_HANDSHAKE]
    assert login.choose("M", 1)
    assert allowed(login) == [SASL_AUTHENTICATE]
    assert proved(login) == Challenge(b"?")
    assert (login.stage, allowed(login), told) == (Stage.PROVE, [SASL_AUTHENTICATE], [])
    proved(login)
    assert (login.stage, login.principal, told) == (Stage.LOGGED_IN, user("alice"), [None])
    assert allowed(login, 1e9) == list(ALL)
    assert login.lifetime_ms(5.0) == 0


def test_after_a_handshake_of_v0_come_bytes_alone() -> None:
    login, _ = made(Done(user("alice")))
    login.choose("M", 0)
    assert (login.takes_bytes, allowed(login)) == (True, [])
    proved(login)
    assert not login.takes_bytes


def test_who_is_refused_may_ask_nothing() -> None:
    login, _ = made(Failed("wrong"))
    login.choose("M", 1)
    assert proved(login) == Failed("wrong")
    assert (login.stage, allowed(login)) == (Stage.REFUSED, [])
    other, _ = made()
    assert not other.choose("NONE", 1)
    assert allowed(other) == []


@pytest.mark.parametrize("expires_at", [2.0**63, 1e300, float("inf")])
def test_a_session_of_a_credential_that_never_ends_is_as_long_as_can_be_told(expires_at: float) -> None:
    login, _ = made(Done(user("alice"), expires_at))
    login.choose("M", 1)
    proved(login, now=100.0)
    assert login.lifetime_ms(100.0) == (1 << 63) - 1


@pytest.mark.parametrize(
    ("expires_at", "max_session_ms", "lasts"),
    [(None, 0, None), (None, 5000, 5), (1003.0, 0, 3), (1003.0, 5000, 3), (1009.0, 5000, 5), (900.0, 0, 0)],
)
def test_a_session_ends_with_the_credential_or_by_the_setting(
    expires_at: float | None, max_session_ms: int, lasts: float | None
) -> None:
    login, _ = made(Done(user("alice"), expires_at), max_session_ms=max_session_ms)
    login.choose("M", 1)
    proved(login, now=100.0)
    assert login.ends_at == (None if lasts is None else 100.0 + lasts)
    assert login.lifetime_ms(100.0) == (0 if lasts is None else max(lasts * 1000, 1))
    if lasts is not None:
        assert allowed(login, 100.0 + lasts) == list(ALL)
        assert login.refusal(PRODUCE, 100.1 + lasts) == "session_expired"
        assert login.refusal(SASL_HANDSHAKE, 100.1 + lasts) is None


def test_again_others_are_served_meanwhile_and_the_session_is_longer() -> None:
    login, told = made(Done(user("alice")), Done(user("alice")), max_session_ms=5000)
    login.choose("M", 1)
    proved(login)
    assert login.may_choose(1, 4.0)
    login.choose("M", 1)
    assert allowed(login, 4.0) == list(ALL)
    proved(login, now=4.5)
    assert (login.ends_at, len(told), login.times) == (9.5, 2, 2)
    assert not login.may_choose(1, 4.9), "not twice in a second"
    assert login.may_choose(1, 5.0)


def test_not_again_where_the_session_does_not_end() -> None:
    login, _ = made(Done(user("alice")))
    login.choose("M", 1)
    proved(login)
    assert not login.may_choose(1, 1000.0)


def test_again_neither_bytes_alone_nor_a_second_choice() -> None:
    login, _ = made(Done(user("alice")), Challenge(b""), max_session_ms=60_000)
    login.choose("M", 1)
    assert not login.may_choose(1, 0.0)
    proved(login)
    assert not login.may_choose(0, 5.0)


@pytest.mark.parametrize(("mechanism", "step"), [("OTHER", Done(user("alice"))), ("M", Done(user("bob")))])
def test_again_mechanism_and_principal_stay(mechanism: str, step: Step) -> None:
    login, _ = made(Done(user("alice")), step)
    login.choose("M", 1)
    proved(login)
    login.choose(mechanism, 1)
    assert isinstance(proved(login), Failed)
    assert (login.stage, login.principal) == (Stage.REFUSED, user("alice"))


def test_its_token_is_not_shown() -> None:
    login, _ = made(Done(user("alice"), token="s3cret"))  # noqa: S106
    login.choose("M", 1)
    proved(login)
    assert login.token == "s3cret"  # noqa: S105
    assert "s3cret" not in repr(login)
