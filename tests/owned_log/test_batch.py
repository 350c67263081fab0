"""Keyed records as Pulsar batch entries."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.owned_log.batch import NotABatch, Record, pack, unpack
from bridge.pulsar.pb import PulsarApi_pb2 as pb

TEXTS = st.text(max_size=20)


@given(
    batch=st.lists(st.builds(Record, TEXTS, st.none() | st.binary(min_size=1, max_size=50)), min_size=1, max_size=10)
)
def test_a_batch_comes_back(batch: list[Record]) -> None:
    metadata, payload = pack(batch)
    assert list(unpack(metadata, memoryview(payload))) == batch


def test_an_empty_value_deletes_as_it_does_for_compaction() -> None:
    metadata, payload = pack([Record("k", b"")])
    assert list(unpack(metadata, memoryview(payload))) == [Record("k", None)]


def test_what_was_compacted_out_or_is_no_text_is_left_out() -> None:
    out = pb.SingleMessageMetadata(partition_key="gone", payload_size=0, compacted_out=True).SerializeToString()
    wild = b"\x12\x02\xff\xfe\x18\x00"  # partition_key (2) that is not UTF-8, payload_size (3) 0
    payload = b"".join(len(one).to_bytes(4, "big") + one for one in (out, wild))
    assert list(unpack(pb.MessageMetadata(num_messages_in_batch=2), memoryview(payload))) == []


@pytest.mark.parametrize("cut", [1, 5, 9, 14])
def test_a_batch_that_is_cut_off_is_none(cut: int) -> None:
    metadata, payload = pack([Record("key", b"value")])
    with pytest.raises(NotABatch):
        list(unpack(metadata, memoryview(payload)[:-cut]))


def test_other_entries_are_no_batches() -> None:
    for metadata in (pb.MessageMetadata(), pb.MessageMetadata(num_messages_in_batch=1, compression=pb.LZ4)):
        with pytest.raises(NotABatch):
            list(unpack(metadata, memoryview(b"")))
