import contextlib
import struct

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from bridge.pulsar import protocol
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.protocol import ChecksumMismatch, FrameBuffer, ProtocolError

texts = st.text(max_size=20)
metadata = st.builds(
    pb.MessageMetadata,
    producer_name=texts,
    sequence_id=st.integers(0, 2**64 - 1),
    publish_time=st.integers(0, 2**64 - 1),
    properties=st.lists(st.builds(pb.KeyValue, key=texts, value=texts), max_size=3),
    partition_key=st.none() | texts,
    num_messages_in_batch=st.none() | st.integers(1, 2**31 - 1),
    highest_sequence_id=st.none() | st.integers(0, 2**64 - 1),
    ordering_key=st.none() | st.binary(max_size=20),
    uuid=st.none() | texts,
    chunk_id=st.none() | st.integers(0, 100),
)
payloads = st.binary(max_size=200)


def send_command(sequence_id: int = 7) -> bytes:
    return pb.BaseCommand(
        type=pb.BaseCommand.SEND, send=pb.CommandSend(producer_id=1, sequence_id=sequence_id)
    ).SerializeToString()


def entry_frame(meta: pb.MessageMetadata, payload: bytes) -> bytes:
    head = protocol.entry_head(meta.SerializeToString(), [payload])
    return protocol.entry_frame_head(send_command(), head, len(payload)) + payload


def body_of(frame: bytes) -> memoryview:
    return protocol.split(memoryview(frame)[4:])[1]


def feed(buffer: FrameBuffer, data: bytes, step: int) -> list[bytes]:
    frames: list[memoryview] = []
    while data:
        space = buffer.space()
        assert len(space) > 0
        count = min(step, len(space), len(data))
        space[:count] = data[:count]
        frames.extend(buffer.received(count))
        data = data[count:]
    return [bytes(frame) for frame in frames]  # looked at only now: they must have stayed as they were


def parsed(body: memoryview) -> tuple[object, object, bytes]:
    broker, meta, payload = protocol.parse_body(body)
    return broker, meta, bytes(payload)


def framed(content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + content


@given(st.lists(st.binary(min_size=4, max_size=300), max_size=30), st.integers(1, 500))
def test_frames_come_out_whole_however_the_stream_is_cut(contents: list[bytes], step: int) -> None:
    stream = b"".join(map(framed, contents))
    assert feed(FrameBuffer(), stream, step) == contents
    assert feed(FrameBuffer(), stream, 1) == contents
    assert feed(FrameBuffer(), stream, 1 << 20) == contents


@given(st.lists(st.integers(4, 200_000), max_size=8), st.integers(1000, 300_000))
def test_large_frames_among_small_ones_keep_their_bytes(sizes: list[int], step: int) -> None:
    contents = [bytes([number % 251]) * size for number, size in enumerate(sizes)]
    assert feed(FrameBuffer(), b"".join(map(framed, contents)), step) == contents


def test_a_frame_is_received_into_memory_of_its_own_when_it_is_large() -> None:
    buffer = FrameBuffer()
    assert feed(buffer, framed(bytes(1_000_000))[:1000], 1000) == []
    assert len(buffer.space()) == 1_000_004 - 1000


def test_chunks_are_larger_while_more_comes_than_they_take() -> None:
    buffer, stream = FrameBuffer(), framed(bytes(999)) * 1000
    most = len(buffer.space())
    feed(buffer, stream, len(stream))
    assert most < len(buffer.space()) <= 4 * most
    for _ in range(1000):
        feed(buffer, framed(bytes(999)), 1003)
    assert len(buffer.space()) <= most, "what little comes does not hold on to much"


@pytest.mark.parametrize("size", [0, 3, 1024 + protocol.FRAME_PADDING + 1, 2**32 - 1])
def test_a_frame_of_an_impossible_size_is_refused_at_once(size: int) -> None:
    with pytest.raises(ProtocolError):
        feed(FrameBuffer(1024), struct.pack(">I", size), 4)


def test_the_largest_message_fits_with_its_padding() -> None:
    content = bytes(1024 + protocol.FRAME_PADDING)
    assert feed(FrameBuffer(1024), framed(content), 4096) == [content]


@given(metadata, payloads)
def test_an_entry_comes_back_as_it_was_sent(meta: pb.MessageMetadata, payload: bytes) -> None:
    frame = entry_frame(meta, payload)
    assert struct.unpack(">I", frame[:4])[0] == len(frame) - 4
    command, body = protocol.split(memoryview(frame)[4:])
    assert (command.type, command.send.sequence_id) == (pb.BaseCommand.SEND, 7)
    assert parsed(body) == (None, meta, payload)
    assert protocol.count_messages(body) == max(meta.num_messages_in_batch, 1)


@given(metadata, st.lists(payloads, max_size=5))
def test_a_payload_in_parts_has_the_checksum_of_the_whole(meta: pb.MessageMetadata, parts: list[bytes]) -> None:
    serialized = meta.SerializeToString()
    assert protocol.entry_head(serialized, parts) == protocol.entry_head(serialized, [b"".join(parts)])


@given(metadata, payloads, st.none() | st.integers(0, 2**63), st.none() | st.integers(0, 2**63))
def test_broker_metadata_before_an_entry_is_read(
    meta: pb.MessageMetadata, payload: bytes, timestamp: int | None, index: int | None
) -> None:
    broker = pb.BrokerEntryMetadata(broker_timestamp=timestamp, index=index)
    serialized = broker.SerializeToString()
    body = struct.pack(">HI", 0x0E02, len(serialized)) + serialized + body_of(entry_frame(meta, payload))
    assert parsed(memoryview(body)) == (broker, meta, payload)


@given(metadata, payloads)
def test_an_entry_without_checksum_is_accepted(meta: pb.MessageMetadata, payload: bytes) -> None:
    body = body_of(entry_frame(meta, payload))[6:]
    assert parsed(body) == (None, meta, payload)


def test_a_changed_byte_breaks_the_checksum_but_not_the_count() -> None:
    meta = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, num_messages_in_batch=9)
    body = bytearray(body_of(entry_frame(meta, b"payload")))
    body[-1] ^= 1
    with pytest.raises(ChecksumMismatch):
        protocol.parse_body(memoryview(body))
    assert protocol.count_messages(memoryview(body)) == 9
    assert protocol.count_messages(memoryview(b"\x0e")) == 1


def test_the_checksum_is_crc32c_over_what_follows_it() -> None:
    body = bytes(body_of(entry_frame(pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1), b"abc")))
    assert struct.unpack(">HI", body[:6]) == (0x0E01, crc32c(body[6:]))


@given(st.binary(max_size=100))
def test_no_bytes_give_anything_but_the_one_exception(data: bytes) -> None:
    for parse in (protocol.split, protocol.parse_body):
        with contextlib.suppress(ProtocolError):
            parse(memoryview(data))


@given(metadata, payloads, st.data())
def test_mutated_frames_give_anything_but_another_exception(
    meta: pb.MessageMetadata, payload: bytes, data: st.DataObject
) -> None:
    serialized = pb.BrokerEntryMetadata(index=3).SerializeToString()
    whole = entry_frame(meta, payload)[4:]
    head = 4 + struct.unpack(">I", whole[:4])[0]
    frame = bytearray(whole[:head] + struct.pack(">HI", 0x0E02, len(serialized)) + serialized + whole[head:])
    for _ in range(data.draw(st.integers(1, 4))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    frame = frame[: data.draw(st.integers(0, len(frame)))]
    with contextlib.suppress(ProtocolError):
        body = protocol.split(memoryview(frame))[1]
        protocol.count_messages(body)
        protocol.parse_body(body)


def test_a_command_newer_than_this_client_is_still_a_command() -> None:
    frame = protocol.simple_frame(bytes([8, 200, 1]))  # field 1, varint 200
    assert protocol.split(memoryview(frame)[4:])[0].type == 200


def test_an_error_code_newer_than_this_client_keeps_its_number() -> None:
    command = pb.BaseCommand(
        type=pb.BaseCommand.ERROR, error=pb.CommandError(request_id=1, error=999, message="new")
    ).SerializeToString()
    assert protocol.split(memoryview(protocol.simple_frame(command))[4:])[0].error.error == 999
