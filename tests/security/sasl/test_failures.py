"""Addresses whose log-ins fail: how many at once, how many a second, and for how long they are blocked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.security.sasl import failures
from bridge.security.sasl.failures import BURST, LoginFailures

HERE, ELSEWHERE = "10.0.0.1", "10.0.0.2"


def guessed(limit: LoginFailures, times: int, now: float = 0.0, address: str = HERE) -> int:
    """How many of so many attempts at once are looked at; each fails."""
    looked_at = 0
    for _ in range(times):
        if not limit.is_blocked(address, now):
            limit.failed(address, now)
            looked_at += 1
    return looked_at


def test_a_burst_is_looked_at_and_no_more() -> None:
    assert guessed(LoginFailures(10), 1000) == BURST


def test_other_addresses_are_not_blocked() -> None:
    limit = LoginFailures(10)
    guessed(limit, 1000)
    assert limit.is_blocked(HERE, 0.0)
    assert not limit.is_blocked(ELSEWHERE, 0.0)


@given(st.lists(st.floats(0, 0.2), min_size=1, max_size=400))
def test_not_more_than_the_rate_and_a_burst_in_any_time(gaps: list[float]) -> None:
    limit, now, looked_at = LoginFailures(10), 0.0, 0
    for gap in gaps:
        now += gap
        looked_at += guessed(limit, 3, now)
    assert looked_at <= BURST + 10 * now + 1


def test_who_stops_is_let_in_soon() -> None:
    limit = LoginFailures(10)
    for _ in range(10_000):  # they were all looked at before the first had failed
        limit.failed(HERE, 0.0)
    assert limit.is_blocked(HERE, 2.9)
    assert not limit.is_blocked(HERE, 3.2)


def test_the_beginning_of_a_block_is_told_once() -> None:
    limit = LoginFailures(10)
    assert [limit.failed(HERE, 0.0) for _ in range(2 * BURST)].count(True) == 1


def test_zero_is_no_limit() -> None:
    assert guessed(LoginFailures(0), 1000) == 1000


@pytest.mark.parametrize(
    ("address", "is_same"),
    [
        ("2001:db8::ffff", True),
        ("2001:db8::1%eth0", True),
        ("2001:db8:0:1::1", False),
        ("::ffff:10.0.0.1", False),
    ],
)
def test_an_ipv6_network_is_one_address(address: str, is_same: bool) -> None:
    limit = LoginFailures(10)
    guessed(limit, BURST, address="2001:db8::1")
    assert limit.is_blocked(address, 0.0) == is_same


def test_an_ipv4_address_is_the_same_however_it_comes() -> None:
    limit = LoginFailures(10)
    guessed(limit, BURST, address="::ffff:10.0.0.1")
    assert limit.is_blocked(HERE, 0.0)


def test_so_many_addresses_are_remembered_and_the_latest_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "_MAX_ADDRESSES", 10)
    limit = LoginFailures(10)
    guessed(limit, BURST)
    for number in range(9):
        limit.failed(f"10.0.1.{number}", 0.0)
    assert limit.is_blocked(HERE, 0.0)
    limit.failed("10.0.1.9", 0.0)
    assert not limit.is_blocked(HERE, 0.0)


def test_what_is_worn_off_is_forgotten() -> None:
    limit = LoginFailures(10)
    limit.failed(HERE, 0.0)
    assert not limit.is_blocked(HERE, 1.0)
    assert not limit._worn_off_at
