"""Keys and values of groups as bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.groups.store.records import (
    Key,
    PendingOffset,
    StoredOffset,
    decode_key,
    decode_offset,
    decode_pending,
    encode_key,
    encode_offset,
    encode_pending,
)
from bridge.storage.visibility import Identity, Transaction

TEXTS = st.text(max_size=20)
TOPICS = st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True)
INT64 = st.integers(-(2**63), 2**63 - 1)
IDENTITIES = st.builds(Identity, st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1), st.integers(0, 2**63 - 1))
KEYS: st.SearchStrategy[Key] = st.one_of(
    st.tuples(st.just("group"), TEXTS),
    st.tuples(st.just("member"), TEXTS, TEXTS),
    st.tuples(st.just("offset"), TEXTS, TOPICS, st.integers(0, 2**31 - 1)),
    st.tuples(st.just("share"), TEXTS, st.from_regex(r"[0-9a-f]{32}", fullmatch=True), st.integers(0, 2**31 - 1)),
    st.tuples(st.just("pending"), TEXTS, TOPICS, st.integers(0, 2**31 - 1), IDENTITIES),
)


@given(key=KEYS)
def test_a_key_comes_back(key: Key) -> None:
    assert decode_key(encode_key(key)) == key


@given(one=KEYS, other=KEYS)
def test_keys_are_kept_apart(one: Key, other: Key) -> None:
    assert (encode_key(one) == encode_key(other)) == (one == other)


@given(stored=st.builds(StoredOffset, INT64, st.integers(-1, 2**31 - 1), TEXTS, INT64, st.integers(-1, 2**62)))
def test_an_offset_comes_back(stored: StoredOffset) -> None:
    assert decode_offset(encode_offset(stored)) == stored


@given(
    stored=st.builds(StoredOffset, INT64, st.integers(-1, 2**31 - 1), TEXTS, INT64), identity=IDENTITIES,
    slot=st.integers(0, 2**31 - 1),
)  # fmt: skip
def test_a_pending_offset_comes_back(stored: StoredOffset, identity: Identity, slot: int) -> None:
    pending = PendingOffset(Transaction(slot, identity), stored)
    assert decode_pending(encode_pending(stored, slot), identity) == pending


@pytest.mark.parametrize(
    "text",
    [
        "",
        "s",
        "g",
        "x/y",
        "o/t/1",
        "o/t/x/g",
        "o/t/-1/g",
        "o/t/²/g",
        "o//",
        "m/x",
        "p/0f/1",
        "p/0g/1/g",
        "p/0f/x/g",
        "t/t/1/2/3/g",
        "t/t/1/-2/3/4/g",
    ],
)
def test_other_keys_are_left_alone(text: str) -> None:
    assert decode_key(text) is None


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"1", b'{"v":2,"o":1,"e":0,"m":"","t":0}', b'{"v":1}', b"\xff"])
def test_other_values_are_no_offsets(data: bytes) -> None:
    assert decode_offset(data) is None
    assert decode_pending(data, Identity(1, 2, 3)) is None


def test_a_pending_offset_without_a_slot_is_none() -> None:
    assert decode_pending(encode_offset(StoredOffset(5)), Identity(1, 2, 3)) is None


def test_what_is_stored_stays_readable() -> None:
    """Topics written by earlier versions must be read: these bytes never change."""
    assert encode_key(("offset", "a/b", "orders", 3)) == "o/orders/3/a/b"
    assert encode_key(("group", "a/b")) == "g/a/b"
    assert encode_key(("member", "a/b", "m/é")) == "m/m%2F%C3%A9/a/b"
    assert encode_key(("share", "a/b", "0f" * 16, 3)) == f"p/{'0f' * 16}/3/a/b"
    assert encode_key(("pending", "a/b", "orders", 3, Identity(7, 1, 2))) == "t/orders/3/7/1/2/a/b"
    assert encode_pending(StoredOffset(5, 1, "x", 9), 6) == b'{"v":1,"o":5,"e":1,"m":"x","t":9,"s":6}'
    assert encode_offset(StoredOffset(5, 1, "x", 9)) == b'{"v":1,"o":5,"e":1,"m":"x","t":9}'
    assert encode_offset(StoredOffset(5, 1, "x", 9), 10, "ab") == b'{"v":1,"o":5,"e":1,"m":"x","t":10,"i":"ab"}'
