from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scramp import ScramMechanism

from bridge.security.principal import user
from bridge.security.sasl.credentials import SCRAM_HASHES, LoginAttempt, credential_of, salted_password
from bridge.security.sasl.passwords import KnownPasswords, StoredPasswords
from tests.security.users import DECOYS, KEY, NOW, Users, at_once, credential
from tests.support.effort import examples

MIXED = Users(
    ("alice", credential("SCRAM-SHA-256", "secret of alice")),
    ("bob", credential("SCRAM-SHA-512", "secret of bob")),
    ("carol", credential("SCRAM-SHA-256", "secret of carol", 6000)),
    ("dave", credential("SCRAM-SHA-256", "secret of dave", 5000)),
    ("dave", credential("SCRAM-SHA-512", "secret of dave", 7000)),
)
NAMES = ["alice", "bob", "carol", "dave"]


def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Iterations by hash function, from now on."""
    spent: Counter[str] = Counter()
    real = hashlib.pbkdf2_hmac

    def counting(name: str, password: bytes, salt: bytes, iterations: int) -> Any:
        spent[name] += iterations
        return real(name, password, salt, iterations)

    monkeypatch.setattr(hashlib, "pbkdf2_hmac", counting)
    return spent


def passwords(users: Users) -> StoredPasswords:
    return StoredPasswords(users, DECOYS, at_once, KEY)


@pytest.mark.parametrize("name", NAMES)
async def test_only_the_right_password_of_the_user_is_right(name: str) -> None:
    checked = passwords(MIXED)
    assert await checked.check(name, f"secret of {name}", NOW) == LoginAttempt(user(name))
    for wrong in ("", "secret of", "secret of eve", f"secret of {name} "):
        assert await checked.check(name, wrong, NOW) is None
    assert await checked.check("eve", f"secret of {name}", NOW) is None


async def test_a_password_is_right_as_typed_and_as_prepared() -> None:
    typed, prepared = "p\u00adss\u2168", "pssIX"
    checked = passwords(Users.of({"kafka": typed, "rfc": prepared}))
    assert await checked.check("kafka", typed, NOW)
    assert await checked.check("rfc", typed, NOW)
    assert await checked.check("rfc", prepared, NOW)
    assert await checked.check("kafka", prepared, NOW) is None


@pytest.mark.parametrize(
    "users", [Users(), Users.of({"alice": "secret of alice"}), MIXED], ids=["none", "one", "mixed"]
)
@pytest.mark.parametrize("password", ["secret of alice", "wrong", "wr\u00adong"])
async def test_every_check_of_a_password_takes_the_same_work(
    users: Users, password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted by iterations of hash functions, for a clock would tell little."""
    spent = counted(monkeypatch)
    costs = []
    for name in [*NAMES, "eve", "stranger"]:
        await passwords(users).check(name, password, NOW)
        costs.append(dict(spent))
        spent.clear()
    assert all(cost == costs[0] for cost in costs)
    assert sum(costs[0].values()) > 0


async def test_a_right_password_is_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    checked, spent = passwords(MIXED), counted(monkeypatch)
    assert await checked.check("alice", "secret of alice", NOW)
    assert spent.total() > 0
    spent.clear()
    assert await checked.check("alice", "secret of alice", NOW) == LoginAttempt(user("alice"))
    assert not spent


async def test_a_wrong_password_costs_as_much_as_an_unknown_user_after_others_logged_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checked, spent = passwords(MIXED), counted(monkeypatch)
    for name in NAMES:
        assert await checked.check(name, f"secret of {name}", NOW)
    costs = []
    for name in [*NAMES, "eve", "alice", "eve"]:
        spent.clear()
        assert await checked.check(name, "secret of another", NOW) is None
        costs.append(dict(spent))
    assert costs[0] and all(cost == costs[0] for cost in costs)


async def test_a_known_password_ends_with_the_credential_that_it_was_right_for() -> None:
    users = Users.of({"alice": "former", "bob": "stays"})
    checked = passwords(users)
    assert await checked.check("alice", "former", NOW)
    assert await checked.check("bob", "stays", NOW)
    users.credentials |= Users.of({"alice": "latter"}).credentials
    assert await checked.check("alice", "former", NOW) is None
    assert await checked.check("alice", "latter", NOW)
    assert await checked.check("alice", "former", NOW) is None
    for mechanism in SCRAM_HASHES:
        del users.credentials[mechanism, "alice"]
    assert await checked.check("alice", "latter", NOW) is None
    assert await checked.check("bob", "stays", NOW)


async def test_a_credential_that_changes_while_its_password_is_hashed_leaves_nothing_known() -> None:
    users = Users.of({"alice": "former"})

    async def changed_meanwhile(work: Callable[[], bool]) -> bool:
        right = work()
        users.credentials |= Users.of({"alice": "latter"}).credentials
        return right

    checked = StoredPasswords(users, DECOYS, changed_meanwhile, KEY)
    assert await checked.check("alice", "former", NOW)
    assert await checked.check("alice", "former", NOW) is None


async def test_log_ins_of_one_user_that_wait_for_the_thread_are_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    spent, turn = counted(monkeypatch), asyncio.Lock()

    async def one_by_one(work: Callable[[], bool]) -> bool:
        async with turn:
            await asyncio.sleep(0)
            return work()

    checked = StoredPasswords(Users.of({"alice": "right"}, ["SCRAM-SHA-256"]), DECOYS, one_by_one, KEY)
    answers = await asyncio.gather(*(checked.check("alice", "right", NOW) for _ in range(20)))
    assert answers == [LoginAttempt(user("alice"))] * 20
    assert spent == {"sha256": 2 * 4096} or spent == {"sha256": 4096}  # the next may begin before the first is told


def test_known_passwords_are_of_one_user_bounded_and_show_none() -> None:
    known, one = KnownPasswords(KEY, most=2), credential("SCRAM-SHA-256", "secret")
    digests = {name: known.digest(name, "secret") for name in ("a", "b", "c")}
    assert len(set(digests.values())) == 3
    assert known.digest("a", "bc") != known.digest("ab", "c")
    assert KnownPasswords(b"that of another").digest("a", "secret") != digests["a"]
    for name, digest in digests.items():
        known.add(name, digest, one)
    known.add("c", known.digest("c", "other spelling"), one)
    assert len(known) == 2
    assert [known.is_known(name, digest, one) for name, digest in digests.items()] == [False, True, False]
    assert not known.is_known("b", digests["c"], one)
    assert not known.is_known("b", digests["b"], None)
    assert not known.is_known("d", bytes(32), None)


@given(
    mechanism=st.sampled_from(list(SCRAM_HASHES)),
    password=st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=200),
    salt=st.binary(min_size=12, max_size=40),
)
@settings(max_examples=examples(40), deadline=None)
def test_keys_are_those_of_scramp(mechanism: str, password: str, salt: bytes) -> None:
    made = credential_of(mechanism, salted_password(mechanism, password.encode(), salt, 4096), salt, 4096)
    theirs = ScramMechanism(mechanism).make_auth_info(password, iteration_count=4096, salt=salt)
    assert theirs == (made.salt, made.stored_key, made.server_key, made.iterations)
