"""Guesses wait for one thread: addresses take turns, and what is left of a blocked one is not looked at."""

from __future__ import annotations

import asyncio

import pytest

from bridge.access.password_thread import AddressBlocked, PasswordThread, attempt_of


async def asked(thread: PasswordThread, address: str, order: list[str], blocked: set[str]) -> bool:
    def work() -> bool:
        order.append(address)
        return False

    with attempt_of(address, lambda: address in blocked):
        return await thread.run(work)


async def test_an_address_waits_behind_its_own_guesses() -> None:
    thread, order = PasswordThread(), list[str]()
    many = [asyncio.create_task(asked(thread, "10.0.0.1", order, set())) for _ in range(20)]
    await asyncio.sleep(0)
    one = asyncio.create_task(asked(thread, "10.0.0.2", order, set()))
    await asyncio.gather(*many, one)
    assert order.index("10.0.0.2") <= 2
    assert len(order) == 21


async def test_what_waits_when_its_address_is_blocked_is_not_looked_at() -> None:
    thread, order, blocked = PasswordThread(), list[str](), set[str]()
    many = [asyncio.create_task(asked(thread, "10.0.0.1", order, blocked)) for _ in range(20)]
    other = asyncio.create_task(asked(thread, "10.0.0.2", order, blocked))
    await asyncio.sleep(0)
    blocked.add("10.0.0.1")
    outcomes = await asyncio.gather(*many, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes[1:]] == [AddressBlocked] * 19
    assert await other is False
    assert sorted(order) == ["10.0.0.1", "10.0.0.2"]


async def test_the_place_of_what_was_refused_is_free() -> None:
    thread, order = PasswordThread(), list[str]()
    with pytest.raises(AddressBlocked):
        await asked(thread, "10.0.0.1", order, {"10.0.0.1"})
    assert await asked(thread, "10.0.0.2", order, set()) is False


async def test_outside_of_a_log_in_no_address_is_blocked() -> None:
    assert await PasswordThread().run(lambda: True)
