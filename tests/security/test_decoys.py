from __future__ import annotations

import pytest

from bridge.security.credentials import MIN_ITERATIONS, SCRAM_HASHES, Iterations, salt_text
from bridge.security.decoys import Decoys

SECRET = b"a secret of all nodes"


@pytest.mark.parametrize("mechanism", SCRAM_HASHES)
def test_a_name_has_the_same_decoy_on_each_node_and_another_one_than_other_names(mechanism: str) -> None:
    one = Decoys(SECRET).credential(mechanism, "alice", None)
    assert one == Decoys(SECRET).credential(mechanism, "alice", None)
    assert one.salt != Decoys(SECRET).credential(mechanism, "bob", None).salt
    assert one.salt != Decoys(b"another secret of nodes").credential(mechanism, "alice", None).salt
    assert len({one.salt, one.stored_key, one.server_key}) == 3


def test_a_decoy_has_the_iterations_that_are_usual() -> None:
    assert Decoys(SECRET).credential("SCRAM-SHA-256", "alice", Iterations(8192, 10000)).iterations == 8192
    assert Decoys(SECRET).credential("SCRAM-SHA-256", "alice", None).iterations == MIN_ITERATIONS


def test_a_salt_is_130_bits_in_base_36() -> None:
    assert salt_text(0) == b"0" * 25
    assert salt_text(35) == b"0" * 24 + b"z"
    assert int(salt_text((1 << 130) - 1), 36) == (1 << 130) - 1
    assert salt_text(1 << 130) == salt_text(0)


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        Decoys(b"short")
