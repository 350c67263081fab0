"""Mutated input is read or refused by name; what is read is read alike by every way of reading it."""

import random
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.codec import Payload, Rebuild, Record, Twin
from bridge.codec import _python as reference
from bridge.codec._records import wrapped
from bridge.errors import CorruptBatch, CorruptEntry, InvalidRecord
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from tests.codec.damage import mutated
from tests.codec.samples import NOW, own, section

SEEDS = range(4)
ROUNDS = 750


def some_records(chance: random.Random) -> list[Record]:
    def field() -> bytes | None:
        return chance.choice([None, b"", b"text", b"\xff\xfe", b"base64:", chance.randbytes(chance.choice([3, 70]))])

    return [
        Record(at, chance.choice([-1, 0, NOW, NOW + at, -5]), field(), field(),
               [(field() or b"h", field()) for _ in range(chance.choice([0, 0, 1, 3]))])
        for at in range(chance.randint(1, 6))
    ]  # fmt: skip


def outcome(call: Any, *arguments: Any) -> Any:
    """The result, or the exception's type: what the twins must agree on."""
    try:
        return call(*arguments)
    except (CorruptBatch, InvalidRecord, CorruptEntry) as error:
        return type(error)


@pytest.mark.parametrize("seed", SEEDS)
def test_mutated_records(codec: Twin, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(ROUNDS):
        records = some_records(chance)
        batch = reference.build_batch(records, own(len(records)))
        data = mutated(section(batch), chance)
        result = outcome(codec.encode_payload, data, len(records), 5)
        assert result == outcome(reference.encode_payload, data, len(records), 5)
        checked = outcome(codec.check_records, data, len(records), 5)
        assert checked == outcome(reference.check_records, data, len(records), 5)
        if isinstance(result, Payload):
            assert (checked.max_timestamp, checked.min_timestamp) == (result.max_timestamp, result.min_timestamp)
        else:
            assert checked is result
        listed = outcome(codec.read_records, batch, data)
        assert listed == outcome(reference.read_records, batch, data)
        if isinstance(result, type):
            assert result is InvalidRecord
            continue
        rebuild = own(len(records), escaped=result.escaped)
        again = codec.read_records(codec.decode_payload(result.data, len(records), rebuild))
        header = reference.read_header(batch)
        assert [r[2:] for r in again] == [r[2:] for r in listed]
        assert [r.timestamp - again[0].timestamp for r in again] == [
            wrapped(r.timestamp - header.base_timestamp + 5) - again[0].timestamp for r in listed
        ]


@pytest.mark.parametrize("seed", SEEDS)
def test_mutated_payloads(codec: Twin, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(ROUNDS):
        records = some_records(chance)
        batch = reference.build_batch(records, own(len(records)))
        payload = reference.encode_payload(section(batch), len(records), reference.read_header(batch).base_timestamp)
        data = mutated(payload.data, chance)
        rebuild = Rebuild(9, len(records), 77, own=chance.random() < 0.5, escaped=chance.random() < 0.5)
        result = outcome(codec.decode_payload, data, len(records), rebuild)
        assert result == outcome(reference.decode_payload, data, len(records), rebuild)
        if isinstance(result, type):
            assert result is CorruptEntry
        else:
            codec.read_header(result)
            assert all(9 <= record.offset < 9 + len(records) for record in codec.read_records(result))


@pytest.mark.parametrize("seed", SEEDS)
def test_mutated_metadata_means_what_protobuf_says(codec: Twin, seed: int) -> None:
    chance = random.Random(seed)
    agreed = 0
    for _ in range(ROUNDS):
        made = pb.SingleMessageMetadata(payload_size=2, partition_key="key", event_time=NOW, sequence_id=4)
        made.properties.add(key="name", value="text")
        data = mutated(made.SerializeToString(), chance)
        result = outcome(codec.decode_payload, len(data).to_bytes(4, "big") + data + b"vv", 1, Rebuild(0, 1, 77))
        try:
            theirs = pb.SingleMessageMetadata.FromString(data)
        except DecodeError:
            continue
        if isinstance(result, type) or theirs.payload_size != 2 or theirs.compacted_out:
            continue
        (record,) = codec.read_records(result)
        agreed += 1
        assert record.value == (None if theirs.null_value else b"vv")
        assert record.timestamp == (theirs.event_time if 0 < theirs.event_time < 1 << 63 else 77)
        assert len(record.headers) == len(theirs.properties)
    assert agreed > ROUNDS // 10


@given(st.binary(max_size=300), st.integers(-2, 50))
@settings(deadline=None)
def test_noise(codec: Twin, data: bytes, count: int) -> None:
    assert outcome(codec.read_header, data) is CorruptBatch
    assert outcome(codec.encode_payload, data, count, 0) == outcome(reference.encode_payload, data, count, 0)
    rebuild = Rebuild(0, 50, 77)
    assert outcome(codec.decode_payload, data, count, rebuild) == outcome(
        reference.decode_payload, data, count, rebuild
    )
