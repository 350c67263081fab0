"""Keys and values of transactions as bytes."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.storage.visibility import Identity
from bridge.transactions import records
from bridge.transactions.records import AbortedKey, AbortedRecord, BlockKey, IdKey, Key, Named
from bridge.transactions.state import Ended, Status, TransactionRecord
from tests.transactions.examples import EPOCHS, GROUPS, IDENTITIES, INT63, PARTITIONS, TEXTS, transaction_records

KEYS: Final[st.SearchStrategy[Key]] = st.one_of(
    st.builds(IdKey, TEXTS),
    st.builds(AbortedKey, IDENTITIES),
    st.builds(BlockKey, INT63, st.none() | EPOCHS, INT63),
)
BITMAPS: Final = st.binary(min_size=128, max_size=128)
RECORD: Final = TransactionRecord(
    revision=5,
    producer_id=1000,
    epoch=7,
    n=3,
    status=Status.OPEN,
    protocol=1,
    timeout_ms=60_000,
    begun_ms=1_700_000_000_000,
    changed_ms=1_700_000_000_001,
    ended=Ended(1000, 6, "i"),
    partitions={("orders", "0a"): ((0, 4), (7, 7))},
    firsts={("0a", 3): 55},
    groups=frozenset({"b", "a"}),
)
STORED: Final = (
    b'{"v":1,"r":5,"p":1000,"e":7,"n":3,"s":"o","k":1,"m":60000,"b":1700000000000,"u":1700000000001,"l":[1000,6,"i"],'
    b'"f":[["0a",3,55]],"w":[["orders","0a",[[0,4],[7,7]]]],"g":["a","b"]}'
)


def key_text(key: Key) -> str:
    if isinstance(key, IdKey):
        return records.id_key(key.transactional_id)
    if isinstance(key, AbortedKey):
        return records.aborted_key(key.identity)
    return records.block_key(key)


@given(key=KEYS)
def test_a_key_comes_back(key: Key) -> None:
    assert records.parse_key(key_text(key)) == key


@given(one=KEYS, other=KEYS)
def test_keys_are_kept_apart(one: Key, other: Key) -> None:
    assert (key_text(one) == key_text(other)) == (one == other)


NO_KEYS: Final = [
    "",
    "s",
    "t",
    "b/1/2/3",
    "a/1/2",
    "a/1/2/3/4",
    "a/1/-/3",
    "a/x/2/3",
    "a/01/2/3",
    "a/1/32768/3",
    "a/1/2/",
]
NO_KEYS_EITHER: Final = [
    "a/9223372036854775808/2/3",
    "a/1/2/",
    "a/1/2/²",
    "a/-1/2/3",
    "A/1/2",
    "A/1/x/3",
    "A/-/2/3",
    "A/1/-/-",
]


@pytest.mark.parametrize("text", [*NO_KEYS, *NO_KEYS_EITHER])
def test_other_keys_are_left_alone(text: str) -> None:
    assert records.parse_key(text) is None


@given(record=transaction_records())
def test_a_record_comes_back(record: TransactionRecord) -> None:
    assert records.decode(records.encode(record)) == record


@given(record=transaction_records(), decided=INT63)
def test_an_aborted_transaction_comes_back(record: TransactionRecord, decided: int) -> None:
    named = Named(record.partitions, record.groups)
    assert records.decode_aborted(records.encode_aborted(decided, record)) == AbortedRecord(decided, named)


@given(block=st.builds(AbortedRecord, INT63, st.builds(Named, PARTITIONS, GROUPS), BITMAPS))
def test_a_block_comes_back(block: AbortedRecord) -> None:
    assert records.decode_block(records.encode_block(block)) == block


@given(identity=IDENTITIES)
def test_a_transaction_has_its_bit_in_one_block(identity: Identity) -> None:
    key, bit = records.block_of(identity)
    assert 0 <= bit < records.BLOCK_SIZE
    assert key.identity(bit) == identity


@given(one=IDENTITIES, other=IDENTITIES)
def test_two_transactions_never_share_a_bit(one: Identity, other: Identity) -> None:
    assert (records.block_of(one) == records.block_of(other)) == (one == other)


WRONG: Final[list[dict[str, Any]]] = [
    {"v": 2},
    {"v": None},
    {"r": -1},
    {"p": "1000"},
    {"p": 2**63},
    {"e": 32_768},
    {"e": True},
    {"n": 1.0},
    {"n": 0},  # protocol 1 counts from 1
    {"s": "x"},
    {"s": None},
    {"s": "e"},  # nothing was begun, so nothing counted
    {"k": 2},  # protocol 2 does not count
    {"k": 2, "n": 0, "s": "c"},  # and has no epoch that stays when it is decided
    {"k": 3},
    {"k": 3, "n": 0, "s": "e"},
    {"m": 2**31},
    {"l": 5},
    {"l": []},
    {"l": [1, 2]},
    {"l": [1, 2, "x"]},
    {"l": [1, 2, []]},
    {"l": [1, -2, "c"]},
    {"w": 5},
    {"w": [[]]},
    {"w": [["orders", "0a"]]},
    {"w": [["orders", "0a", []]]},
    {"w": [["orders", "0a", [[2, 1]]]]},
    {"w": [["orders", "0a", [[0, 1], [2, 3]]]]},
    {"w": [["orders", "0A", [[0, 1]]]]},
    {"w": [["\ud800", "0a", [[0, 1]]]]},
    {"w": [["o" * 40_000, "0a", [[0, 1]]]]},
    {"f": [["0a", 3]]},
    {"f": [["0a", -3, 5]]},
    {"f": {}, "g": None},
    {"g": [5]},
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_other_values_are_no_records(wrong: dict[str, Any]) -> None:
    assert records.decode(json.dumps({**json.loads(STORED), **wrong}).encode()) is None


@pytest.mark.parametrize("missing", [key for key in json.loads(STORED) if key != "l"])
def test_every_field_is_needed(missing: str) -> None:
    value = json.loads(STORED)
    del value[missing]
    assert records.decode(json.dumps(value).encode()) is None


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b"1", b'"v"', b"\xff", b'{"v":2,"t":1,"w":[],"g":[]}', b"[" * 9999]
)
def test_other_bytes_are_nothing(data: bytes) -> None:
    assert records.decode(data) is None
    assert records.decode_aborted(data) is None
    assert records.decode_block(data) is None


@pytest.mark.parametrize("bits", ["", "AAAA", "*" * 172, "A" * 171, "é"])
def test_a_block_has_all_its_bits(bits: str) -> None:
    assert records.decode_block(json.dumps({"v": 1, "t": 5, "x": bits, "w": [], "g": []}).encode()) is None


@given(data=st.binary() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps).map(str.encode))
def test_no_bytes_raise_anything(data: bytes) -> None:
    records.decode(data)
    records.decode_aborted(data)
    records.decode_block(data)


@given(
    field=st.sampled_from(sorted(json.loads(STORED))),
    value=st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=3), st.lists, max_leaves=5),
)
def test_no_field_raises_anything(field: str, value: Any) -> None:
    data = json.dumps({**json.loads(STORED), field: value}).encode()
    records.decode(data)
    records.decode_aborted(data)
    records.decode_block(data)


def test_what_is_stored_stays_readable() -> None:
    """Topics written by earlier versions must be read: these bytes never change."""
    assert records.id_key("a/b") == "t/a/b"
    assert records.aborted_key(Identity(1000, 7, 3)) == "a/1000/7/3"
    assert records.block_key(records.block_of(Identity(1000, 7, 1025))[0]) == "A/1000/7/1"
    assert records.block_key(records.block_of(Identity(1000, 2049, 0))[0]) == "A/1000/-/2"
    assert records.encode(RECORD) == STORED
    assert records.encode_aborted(9, RECORD) == b'{"v":1,"t":9,"w":[["orders","0a",[[0,4],[7,7]]]],"g":["a","b"]}'
    bits = bytes([0b10]) + bytes(127)
    block = b'{"v":1,"t":9,"x":"Ag' + b"A" * 169 + b'=","w":[],"g":["a"]}'
    assert records.encode_block(AbortedRecord(9, Named({}, frozenset({"a"})), bits)) == block
