"""The states of share partitions at their group's coordinator: bytes, fences, and who is judged by what."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from bridge.errors import KafkaError
from bridge.groups.share.state_records import (
    ACKNOWLEDGED,
    AVAILABLE,
    ShareState,
    ShareWrite,
    StateBatch,
    decode,
    encode,
    led_by,
    written,
)
from bridge.groups.share.states import ShareStates, Summary
from bridge.groups.store.records import BadRecord
from bridge.kafka.error_codes import ErrorCode
from tests.groups.store.fake_store import FakeStore

_T = UUID(int=7)
_BATCHES = (StateBatch(5, 7, ACKNOWLEDGED, 1), StateBatch(9, 9, AVAILABLE, 2))
_STATE = ShareState(1, 2, 5, _BATCHES, 3, 9)
_BYTES = b'{"v":1,"E":1,"L":2,"s":5,"b":[[5,7,2,1],[9,9,0,2]],"d":3,"q":9}'


def test_what_is_stored_stays_readable() -> None:
    """These bytes never change."""
    assert encode(_STATE) == _BYTES
    assert decode(_BYTES) == _STATE
    assert encode(ShareState(0)) == b'{"v":1,"E":0,"L":-1,"s":-1,"b":[],"d":0,"q":0}'


@pytest.mark.parametrize(
    "data",
    [
        b"", b"[]", b"{}", _BYTES.replace(b'"v":1', b'"v":2'), _BYTES.replace(b"[9,9,0,2]", b"[7,9,0,2]"),
        _BYTES.replace(b"[9,9,0,2]", b"[9,8,0,2]"), _BYTES.replace(b"[9,9,0,2]", b"[9,9,1,2]"),
        _BYTES.replace(b"[9,9,0,2]", b"9"), _BYTES.replace(b"[9,9,0,2]", b"[9,9,0]"),
        _BYTES.replace(b'"s":5', b'"s":6'), _BYTES.replace(b'"q":9', b'"q":1.5'), _BYTES.replace(b'"d":3,', b""),
    ],
)  # fmt: skip
def test_other_values_are_no_states(data: bytes) -> None:
    with pytest.raises(BadRecord):
        decode(data)


@pytest.mark.parametrize(
    ("write", "outcome"),
    [
        (ShareWrite(1, 2, 10, 6, (), 0), ShareState(1, 2, 6, (), 0, 10)),
        (ShareWrite(1, 2, 12, 6, (), 0), ShareState(1, 2, 6, (), 0, 12)),
        (ShareWrite(1, 2, 9, 5, _BATCHES, 3), _STATE),
        (ShareWrite(1, 2, 9, 6, (), 0), ErrorCode.FENCED_STATE_EPOCH),
        (ShareWrite(1, 2, 8, 6, (), 0), ErrorCode.FENCED_STATE_EPOCH),
        (ShareWrite(1, 1, 10, 6, (), 0), ErrorCode.FENCED_LEADER_EPOCH),
        (ShareWrite(0, 2, 10, 6, (), 0), ErrorCode.FENCED_STATE_EPOCH),
        (ShareWrite(2, 2, 10, 6, (), 0), ErrorCode.FENCED_STATE_EPOCH),
        (ShareWrite(1, 3, 10, 6, (), 0), ErrorCode.FENCED_STATE_EPOCH),  # it has read what was deleted since
    ],
)
def test_a_write_is_fenced(write: ShareWrite, outcome: ShareState | ErrorCode) -> None:
    try:
        found: ShareState | int = written(_STATE, write)
    except KafkaError as error:
        found = error.code
    assert found == outcome


def test_a_later_leader_fences() -> None:
    assert led_by(_STATE, 3).leader_epoch == 3
    with pytest.raises(KafkaError) as raised:
        led_by(_STATE, 1)
    assert raised.value.code == ErrorCode.FENCED_LEADER_EPOCH


async def test_a_partition_from_its_beginning_to_its_end() -> None:
    store, told = FakeStore(), list[tuple[str, UUID, int]]()
    states = ShareStates(store, lambda: 4)
    states.on_changed.append(lambda *where: told.append(where))
    with pytest.raises(KafkaError) as raised:
        await states.read("g", _T, 0, 1)
    assert raised.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await states.summary("g", _T, 0) is None
    await states.initialize("g", _T, 0)
    assert await states.read("g", _T, 0, 1) == ShareState(4, 1)
    await states.write("g", _T, 0, ShareWrite(4, 1, 1, 5, _BATCHES, 3))
    await states.initialize("g", _T, 0)  # it is there
    assert await states.read("g", _T, 0, 1) == ShareState(4, 1, 5, _BATCHES, 3, 1)
    assert await states.summary("g", _T, 0) == Summary(5, 3, 4, 1)
    assert told == [("g", _T, 0)]
    await states.alter("g", _T, 0, 100)
    with pytest.raises(KafkaError) as raised:
        await states.write("g", _T, 0, ShareWrite(4, 1, 2, 9, (), 0))
    assert raised.value.code == ErrorCode.FENCED_STATE_EPOCH
    assert await states.summary("g", _T, 0) == Summary(100, 0, 5, -1)
    assert states.known("g") == [(_T, 0)]
    await states.delete("g", [(_T, 0), (_T, 1)])
    assert await states.summary("g", _T, 0) is None
    assert store.held == {}
    assert told == [("g", _T, 0)] * 3 + [("g", _T, 1)]


async def test_calls_are_judged_by_what_is_stored() -> None:
    store = FakeStore()
    states = ShareStates(store, lambda: 0)
    await states.initialize("g", _T, 0)
    await states.read("g", _T, 0, 1)
    store.held_back = []
    calls = [
        asyncio.ensure_future(states.write("g", _T, 0, ShareWrite(0, 1, 1, 5, (), 0))),
        asyncio.ensure_future(states.read("g", _T, 0, 2)),
        asyncio.ensure_future(states.write("g", _T, 0, ShareWrite(0, 1, 2, 6, (), 0))),
    ]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(store.held_back) == 1
    store.release()
    first, read, second = await asyncio.gather(*calls, return_exceptions=True)
    assert first is None
    assert read == ShareState(0, 2, 5, (), 0, 1)
    assert isinstance(second, KafkaError)
    assert second.code == ErrorCode.FENCED_LEADER_EPOCH


async def test_no_leader_writes_while_a_group_is_deleted() -> None:
    store = FakeStore()
    states = ShareStates(store, lambda: 0)
    await states.initialize("g", _T, 0)
    await states.read("g", _T, 0, 1)
    async with states.deleting("g") as records:
        writing = asyncio.ensure_future(states.write("g", _T, 0, ShareWrite(0, 1, 1, 5, (), 0)))
        await asyncio.sleep(0)
        await store.write("g", records)
    with pytest.raises(KafkaError) as raised:
        await writing
    assert raised.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert store.held == {}


@pytest.mark.parametrize("made", ["initialized", "altered"])
async def test_a_late_write_of_a_deleted_state_is_not_taken_by_the_next_one(made: str) -> None:
    """The group was deleted and recreated, and the same leader, of the same epoch, has read the new state."""
    states = ShareStates(FakeStore())
    await states.initialize("g", _T, 0)
    old = await states.read("g", _T, 0, 1)
    await states.delete("g", [(_T, 0)])
    await (states.initialize("g", _T, 0) if made == "initialized" else states.alter("g", _T, 0, -1))
    new = await states.read("g", _T, 0, 1)
    with pytest.raises(KafkaError) as raised:
        await states.write("g", _T, 0, ShareWrite(old.state_epoch, 1, old.q + 1, 500, (), 0))
    assert raised.value.code == ErrorCode.FENCED_STATE_EPOCH
    assert await states.read("g", _T, 0, 1) == new
    assert 0 <= new.state_epoch < 1 << 30
