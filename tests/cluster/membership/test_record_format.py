"""Records of the cluster topics to bytes and back; bytes that are none."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.cluster.membership.record_fields import InvalidClusterRecord
from bridge.cluster.membership.record_format import MAX_RECORD_BYTES, decode, encode
from bridge.cluster.membership.records import Challenge, Heartbeat, Record, Tick, ViewDifference, WholeView
from bridge.cluster.membership.view import ClusterView, Endpoint, NodeRegistration, Sender
from bridge.pulsar.types import Position
from tests.cluster.strategies import records

_NODE = NodeRegistration("a", 1, 0, (Endpoint("", "host", 9092),))


@given(records)
def test_a_record_comes_back_as_it_was(record: Record) -> None:
    assert decode(encode(record)) == record


def test_slots_of_many_owners_and_epochs_come_back() -> None:
    for pairs in (1, 256, 257, 4096):
        owners = tuple(slot % pairs for slot in range(4096))
        view = ClusterView(9, 0, {0: _NODE}, {"a": 0}, owners, owners, (0, 0))
        record = WholeView(Sender("a", 1), 8, view)
        assert decode(encode(record)) == record


def test_a_view_is_as_small_as_it_is_meant_to_be() -> None:
    members = {id_: NodeRegistration(f"node-{id_}", 1, id_, (Endpoint("", f"node-{id_}", 9092),)) for id_ in range(100)}
    ids = {member.name: id_ for id_, member in members.items()}
    owners = tuple(slot % 100 for slot in range(4096))
    whole = WholeView(Sender("node-0", 1), 8, ClusterView(9, 0, members, ids, owners, (9,) * 4096, (0,) * 64))
    assert len(encode(whole)) < 32_000
    change = ViewDifference(Sender("a", 1), 9, 10, 0, 1, removed=(1,), slots={n: (n,) for n in range(41)})
    assert len(encode(change)) < 1_000


def test_unknown_kinds_and_later_versions_are_ignored() -> None:
    assert decode(b'{"v":1,"k":"what comes later"}') is None
    assert decode(b'{"v":2,"k":"tick"}') is None


def test_fields_that_come_later_are_ignored() -> None:
    challenge = Challenge(Sender("a", 1), 2.5)
    assert decode(json.dumps({**json.loads(encode(challenge)), "later": [1]}).encode()) == challenge


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b"[" * 100_000,
        b'{"v":0,"k":"tick"}',
        b'{"v":true,"k":"tick"}',
        b'{"v":' + b"9" * 5_000 + b"}",
        b'{"v":1,"k":"challenge","sender":["a",1],"at":NaN}',
        b'{"v":1,"k":"challenge","sender":["a",1],"at":1e999}',
        b'{"v":1,"k":"challenge","sender":["\\ud800",1],"at":1}',
        b'{"v":1,"k":"challenge","sender":["a"],"at":1}',
        b'{"v":1,"k":"tick","sender":["a",1],"version":-1,"whole_at":[0,0],"folded_to":[0,0]}',
        b" " * (MAX_RECORD_BYTES + 1),
    ],
)
def test_bytes_that_are_no_record_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidClusterRecord):
        decode(data)


def _changed(record: Record, **fields: Any) -> bytes:
    return json.dumps({**json.loads(encode(record)), **fields}).encode()


@pytest.mark.parametrize(
    "fields",
    [
        {"base": 9},
        {"version": 2**31},
        {"pairs": [[0]]},
        {"pairs": [[0, -1]]},
        {"slots": "AQ=="},  # an index without a pair
        {"slots": "!"},
        {"slots": "ä"},
        {"members": [{}]},
        {"members": "a"},
        {"members": [json.loads(encode(Heartbeat(_NODE, 0)))["node"]] * 2},
        {"groups": [-2]},
        {"ids": {"a": -1}},
        {"controller": 1.0},
    ],
)
def test_views_that_cannot_be_are_refused(fields: dict[str, Any]) -> None:
    whole = WholeView(Sender("a", 1), 8, ClusterView(9, 0, {0: _NODE}, {"a": 0}, (0,), (9,), (0,)))
    with pytest.raises(InvalidClusterRecord):
        decode(_changed(whole, **fields))


@pytest.mark.parametrize(
    "fields",
    [
        {"slots": {"0": "AAE"}},
        {"slots": {"0": "AAEA"}},  # an odd number of bytes
        {"slots": {"0": "AAIAAQ=="}},  # 2, 1
        {"slots": {"-1": ""}},
        {"slots": {"01": ""}},
        {"slots": {"9999999999": ""}},
        {"slots": {"0": 1}},
        {"groups": {"0": 1}},
        {"groups": {"0": [1, 1]}},
        {"removed": [-1]},
        {"removed": 1},
        {"ids": []},
        {"reason": "x" * 2_000},
        {"members": [{**json.loads(encode(Heartbeat(_NODE, 0)))["node"], "endpoints": [["", ""]]}]},
        {"members": [{**json.loads(encode(Heartbeat(_NODE, 0)))["node"], "name": ""}]},
        {"members": [{**json.loads(encode(Heartbeat(_NODE, 0)))["node"], "state": "well"}]},
    ],
)
def test_differences_that_cannot_be_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidClusterRecord):
        decode(_changed(ViewDifference(Sender("a", 1), 8, 9, 0, 1), **fields))


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_or_ignored(data: bytes) -> None:
    with suppress(InvalidClusterRecord):
        decode(data)


_ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(records, st.data())
def test_a_record_with_any_field_changed_is_read_or_refused(record: Record, data: st.DataObject) -> None:
    parsed = json.loads(encode(record))
    parsed[data.draw(st.sampled_from(sorted(parsed)))] = data.draw(_ANY_JSON)
    with suppress(InvalidClusterRecord):
        decode(json.dumps(parsed).encode())


def test_a_record_that_is_too_large_is_not_written() -> None:
    ids = {f"{number:0>1000}": 1 for number in range(3_000)}
    with pytest.raises(InvalidClusterRecord):
        encode(WholeView(Sender("a", 1), 0, ClusterView(1, ids=ids)))


def test_a_tick_names_its_places() -> None:
    tick = Tick(Sender("a", 1), 8, Position(3, 1), Position(3, 7))
    assert decode(encode(tick)) == tick
