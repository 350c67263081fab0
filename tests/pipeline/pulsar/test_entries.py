"""Entries of any bytes either tell their records or are unreadable."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.pipeline.pulsar import wire
from bridge.pipeline.pulsar.entries import Chunks, Row, Unreadable, rows
from bridge.pulsar.pb import PulsarApi_pb2 as pb

OWN = {"kafka.batch": '{"v":1,"t":0,"e":1}'}


def message(value: bytes | None, key: str | None = None, time: int | None = None, **properties: str) -> bytes:
    metadata = pb.SingleMessageMetadata(payload_size=len(value or b""), null_value=value is None, partition_key=key)
    if time is not None:
        metadata.event_time = time
    for name, text in properties.items():
        metadata.properties.add(key=name, value=text)
    written = metadata.SerializeToString()
    return len(written).to_bytes(4, "big") + written + (value or b"")


PAYLOAD = message(b"v", "k", 5, a="base64:!", b="base64:/w==", c="text") + message(None, time=0) + message(b"")


def entry(payload: bytes, properties: dict[str, str], **fields: int) -> wire.Entry:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=9, **fields)  # type: ignore[arg-type]
    for key, value in properties.items():
        metadata.properties.add(key=key, value=value)
    return wire.Entry(1, 2, 104, wire.fields(metadata.SerializeToString()), payload)


def test_offsets_are_counted_back_from_the_entrys_last_message() -> None:
    found = list(rows(entry(PAYLOAD, OWN, num_messages_in_batch=3), Chunks()))
    assert found == [
        Row(102, 5, b"k", b"v", [("a", None), ("b", b"\xff"), ("c", b"text")]),
        Row(103, 0, None, None, []),
        Row(104, -1, None, b"", []),
    ]


def test_other_writers_marks_mean_nothing_and_their_time_may_be_that_of_publishing() -> None:
    found = list(rows(entry(PAYLOAD, {}, num_messages_in_batch=3), Chunks()))
    assert found[0].headers == [("a", b"base64:!"), ("b", b"base64:/w=="), ("c", b"text")]
    assert [row.timestamp for row in found] == [5, 9, 9]


@given(st.integers(0, len(PAYLOAD)), st.binary(max_size=8), st.integers(0, 4))
def test_a_damaged_entry_is_read_or_unreadable(at: int, patch: bytes, compression: int) -> None:
    damaged = PAYLOAD[:at] + patch + PAYLOAD[at + len(patch) :]
    try:
        list(
            rows(entry(damaged, OWN, num_messages_in_batch=3, compression=compression, uncompressed_size=99), Chunks())
        )
    except Unreadable:
        return


@pytest.mark.parametrize(
    "properties", [{"kafka.batch": "1"}, {"kafka.batch": "rubbish"}, {"entry.format": "kafka"}], ids=str
)
def test_an_entry_of_another_format_is_unreadable(properties: dict[str, str]) -> None:
    with pytest.raises(Unreadable):
        list(rows(entry(PAYLOAD, properties, num_messages_in_batch=3), Chunks()))
