"""Produce's and Fetch's own readers and writers do exactly what the compiled ones do, on good bytes and on bad."""

from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridge.kafka import fetch_wire, message, produce_wire
from bridge.kafka.primitives import DecodeError
from tests.kafka.strategies import messages, plain
from tests.support.effort import examples

CASES = [
    *(pytest.param(produce_wire, version, id=f"produce-v{version}") for version in range(13)),
    *(pytest.param(fetch_wire, version, id=f"fetch-v{version}") for version in range(18)),
]
QUICK = settings(max_examples=examples(30), deadline=None, suppress_health_check=list(HealthCheck), database=None)


def _outcome(read: Any) -> Any:
    try:
        return plain(read())
    except DecodeError:
        return DecodeError


@pytest.mark.parametrize(("wire", "version"), CASES)
@QUICK
@given(data=st.data())
def test_reader(wire: ModuleType, version: int, data: st.DataObject) -> None:
    flexible = version >= wire.FLEXIBLE
    made = data.draw(messages(wire.Request, version))
    written = bytes(message.encode(made, version, flexible))
    assert plain(wire.read(memoryview(written), version)) == plain(made)

    # a few bytes changed, cut or added: the same message or the same refusal
    at = data.draw(st.integers(0, len(written)))
    hurt = written[:at] + data.draw(st.binary(max_size=4)) + written[at + data.draw(st.integers(0, 4)) :]
    ours = _outcome(lambda: wire.read(memoryview(hurt), version))
    compiled = _outcome(lambda: message.decode(wire.Request, hurt, version, flexible))
    assert ours == compiled


@pytest.mark.parametrize(("wire", "version"), CASES)
@QUICK
@given(data=st.data())
def test_writer(wire: ModuleType, version: int, data: st.DataObject) -> None:
    made = data.draw(messages(wire.Response, version))
    assert b"".join(wire.write(made, version)) == message.encode(made, version, version >= wire.FLEXIBLE)


def test_records_are_slices_of_the_frame_and_buffers_of_the_answer() -> None:
    records = b"r" * 1000
    request = produce_wire.Request(
        acks=-1,
        timeout_ms=1,
        topic_data=[
            produce_wire.RequestTopic(
                name="t", partition_data=[produce_wire.RequestPartition(index=0, records=records)]
            )
        ],
    )
    frame = bytes(message.encode(request, 9, True))
    read = produce_wire.read(memoryview(frame), 9).topic_data[0].partition_data[0].records
    assert isinstance(read, memoryview)
    assert read.obj is frame

    partition = fetch_wire.ResponsePartition(
        partition_index=0, error_code=0, high_watermark=2, records=[records, records]
    )
    answer = fetch_wire.Response(responses=[fetch_wire.ResponseTopic(topic="t", partitions=[partition])])
    assert sum(buffer is records for buffer in fetch_wire.write(answer, 12)) == 2


@pytest.mark.parametrize(
    "tags",
    [
        *[b"\1\0\3id", b"\1\0\1\0", b"\1\0\4\3id", b"\1\1\2ab", b"\2\0\3\3id\7\1x", b"\1\0\5\3id"],
        *[b"\1\1\r" + bytes(13), b"\1\1\x0e" + bytes(14), b"\1\1\x0c" + bytes(12)],
    ],
)
@pytest.mark.parametrize("version", [12, 17])
def test_the_tags_of_a_fetch_request(version: int, tags: bytes) -> None:
    request = fetch_wire.Request(max_wait_ms=1, min_bytes=1, topics=[])
    frame = bytes(message.encode(request, version, True))[:-1] + tags
    ours = _outcome(lambda: fetch_wire.read(memoryview(frame), version))
    assert ours == _outcome(lambda: message.decode(fetch_wire.Request, frame, version, True))
