from __future__ import annotations

import itertools
import re
import secrets
import string
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import pytest

from bridge.security.sasl.credentials import (
    KEY_BYTES,
    MIN_ITERATIONS,
    SCRAM_HASHES,
    ScramCredential,
    credential_of,
    iterations_of,
    salt_text,
)
from bridge.security.sasl.decoys import Decoys

SECRET = b"a secret of all nodes"


@pytest.mark.parametrize("mechanism", SCRAM_HASHES)
def test_a_name_has_the_same_decoy_on_each_node_and_another_one_than_other_names(mechanism: str) -> None:
    one = Decoys(SECRET).credential(mechanism, "alice", None)
    assert one == Decoys(SECRET).credential(mechanism, "alice", None)
    assert one.salt != Decoys(SECRET).credential(mechanism, "bob", None).salt
    assert one.salt != Decoys(b"another secret of nodes").credential(mechanism, "alice", None).salt
    assert len({one.salt, one.stored_key, one.server_key}) == 3


_LETTERS = (string.ascii_letters + string.digits).encode()
NAMES = [f"name-{number}" for number in range(2000)]
MAKERS: dict[str, Callable[[], bytes]] = {
    "Kafka's tools": lambda: salt_text(secrets.randbits(130)),
    "PostgreSQL": lambda: secrets.token_bytes(16),
    "librdkafka": lambda: secrets.token_bytes(64),
    "hexadecimal": lambda: secrets.token_hex(16).encode(),
    "letters and digits": lambda: bytes(secrets.choice(_LETTERS) for _ in range(40)),
}


Shown: TypeAlias = Counter[tuple[int, bool, bool, int]]


def stored(mechanism: str, salt: bytes, iterations: int) -> ScramCredential:
    return credential_of(mechanism, bytes(KEY_BYTES[mechanism]), salt, iterations)


def shown(credentials: Iterable[ScramCredential]) -> Shown:
    """What a client may count: the salt's length, its first byte a one, its letters, the iterations."""
    return Counter(
        (len(one.salt), one.salt[:1] == b"1", bool(re.fullmatch(rb"[0-9a-z]*", one.salt)), one.iterations)
        for one in credentials
    )


def distance(one: Shown, other: Shown) -> float:
    """How far two distributions are apart: 0.0 the same, 1.0 nothing in common."""
    return sum(abs(one[key] / one.total() - other[key] / other.total()) for key in one | other) / 2


@pytest.mark.parametrize("mechanism", SCRAM_HASHES)
@pytest.mark.parametrize("makers", [*((name,) for name in MAKERS), tuple(MAKERS)], ids=", ".join)
def test_decoys_look_as_users_do(mechanism: str, makers: Sequence[str]) -> None:
    costs = {name: 4096 + 1024 * number for number, name in enumerate(makers)}
    users = [stored(mechanism, MAKERS[one](), costs[one]) for one in itertools.islice(itertools.cycle(makers), 2000)]
    found = iterations_of(users)[mechanism]
    decoys = [Decoys(SECRET).credential(mechanism, name, found) for name in NAMES]
    assert distance(shown(users), shown(decoys)) < 0.08
    assert len({one.salt for one in decoys}) == len(NAMES)


def test_users_who_differ_all_have_decoys_that_look_like_them() -> None:
    salts = [bytes(range(200, 216)), bytes(range(200, 220))]
    users = [stored("SCRAM-SHA-256", salts[number % 2], 4096 + number) for number in range(10)]
    found = iterations_of(users)["SCRAM-SHA-256"]
    decoys = [Decoys(SECRET).credential("SCRAM-SHA-256", name, found) for name in NAMES]
    assert {(len(one.salt), one.iterations) for one in decoys} == {(len(one.salt), one.iterations) for one in users}


def test_the_decoys_of_few_names_change_when_users_do() -> None:
    users = [stored("SCRAM-SHA-256", bytes(range(200, 216)), 4096 + number % 5) for number in range(100)]
    before = iterations_of(users)["SCRAM-SHA-256"]
    after = iterations_of([*users, stored("SCRAM-SHA-256", bytes(range(200, 216)), 8192)])["SCRAM-SHA-256"]
    changed = 0
    for name in NAMES:
        old, new = (Decoys(SECRET).credential("SCRAM-SHA-256", name, found) for found in (before, after))
        assert (old.salt == new.salt) == (old.iterations == new.iterations)  # as a new password has both
        changed += old != new
    assert 0 < changed < 0.05 * len(NAMES)


def test_a_name_has_the_same_shape_by_both_mechanisms() -> None:
    found = {
        mechanism: iterations_of(stored(mechanism, bytes(range(200, 216)), 4096 + number) for number in range(5))
        for mechanism in SCRAM_HASHES
    }
    for name in NAMES:
        both = {Decoys(SECRET).credential(one, name, found[one][one]).iterations for one in SCRAM_HASHES}
        assert len(both) == 1


def test_without_users_a_decoy_is_as_kafkas_tools_make_them() -> None:
    decoys = [Decoys(SECRET).credential("SCRAM-SHA-256", name, None) for name in NAMES]
    assert {one.iterations for one in decoys} == {MIN_ITERATIONS}
    made = [stored("SCRAM-SHA-256", MAKERS["Kafka's tools"](), MIN_ITERATIONS) for _ in NAMES]
    assert distance(shown(made), shown(decoys)) < 0.08


def test_no_login_looks_at_very_many_shapes() -> None:
    users = [stored("SCRAM-SHA-256", bytes(range(200, 216)), 4096 + number) for number in range(1000)]
    assert len(iterations_of(users)["SCRAM-SHA-256"].shapes) == 32


def test_a_salt_is_130_bits_in_base_36() -> None:
    assert salt_text(35) == b"z"
    assert int(salt_text((1 << 130) - 1), 36) == (1 << 130) - 1
    assert salt_text(1 << 130) == salt_text(0) == b"0"


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        Decoys(b"short")
