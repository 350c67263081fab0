"""Frames: the same ones whatever the pieces they come in, and memory that follows what was received."""

import random
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.kafka import frames
from bridge.kafka.frames import (
    SCRATCH_BYTES,
    FrameError,
    FrameReceiver,
    parse_header,
    parse_start,
    response,
)
from bridge.kafka.primitives import DecodeError
from bridge.runtime.memory import mapped


def feed(receiver: FrameReceiver, data: bytes, sizes: list[int]) -> list[bytes]:
    """Give the data in pieces of at most these sizes, as a socket would."""
    scratch = memoryview(bytearray(SCRATCH_BYTES))
    frames: list[bytes] = []
    turn = 0
    while data:
        receiver.grow(receiver.wanted())
        buffer = receiver.buffer(scratch)
        size = min(len(buffer), len(data), sizes[turn % len(sizes)])
        turn += 1
        buffer[:size] = data[:size]
        frames += [bytes(frame) for frame in receiver.received(size, scratch)]
        data = data[size:]
    return frames


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


@given(
    lengths=st.lists(st.integers(10, 40) | st.sampled_from([5_000, 200_000]), max_size=5),
    sizes=st.lists(st.integers(1, 100_000), min_size=1, max_size=3),
)
@settings(deadline=None)
def test_frames_come_out_whatever_the_pieces(lengths: list[int], sizes: list[int]) -> None:
    bodies = [bytes([65 + turn]) * length for turn, length in enumerate(lengths)]
    sizes = [max(size, 50) for size in sizes] if sum(lengths) > 10_000 else sizes
    receiver = FrameReceiver(1_000_000)
    frames = feed(receiver, b"".join(map(framed, bodies)), sizes)
    assert [len(frame) for frame in frames] == lengths
    assert frames == bodies
    assert (receiver.capacity, receiver.midway) == (0, False)


def test_single_bytes() -> None:
    assert feed(FrameReceiver(100), framed(b"0123456789") * 2, [1]) == [b"0123456789"] * 2


def test_memory_follows_the_bytes_received_not_the_length_claimed() -> None:
    receiver = FrameReceiver(2**31 - 1)
    assert feed(receiver, struct.pack(">i", 2**31 - 1) + bytes(1000), [SCRATCH_BYTES]) == []
    assert receiver.capacity <= 4096
    feed(receiver, bytes(1_000_000), [SCRATCH_BYTES])
    assert receiver.capacity <= 2 * 1_001_000
    receiver.forget()
    assert receiver.capacity == 0


def test_a_full_frame_takes_nothing_before_it_may_grow() -> None:
    receiver = FrameReceiver(10_000_000)
    scratch = memoryview(bytearray(SCRATCH_BYTES))
    start = struct.pack(">i", 1_000_000) + bytes(100)
    receiver.buffer(scratch)[: len(start)] = start
    receiver.received(len(start), scratch)
    assert receiver.wanted() == 0
    room = len(receiver.buffer(scratch))
    receiver.received(room, scratch)
    assert receiver.wanted() > 0
    assert len(receiver.buffer(scratch)) == 0


@pytest.mark.parametrize("size", [(1 << 20) - 1, (1 << 20) + 1, 9_000_000])
def test_large_frames_come_in_short_reads_and_whole(size: int) -> None:
    body = random.Random(size).randbytes(size)
    receiver = FrameReceiver(10_000_000)
    scratch = memoryview(bytearray(SCRATCH_BYTES))
    assert feed(receiver, framed(body[:1_000]), [SCRATCH_BYTES]) == [body[:1_000]]
    (whole,) = feed(receiver, framed(body), [1 << 30])
    assert whole == body
    start = framed(body)[: 3 << 18]
    assert feed(receiver, start, [1 << 30]) == []
    receiver.grow(receiver.wanted())
    assert 0 < len(receiver.buffer(scratch)) <= 1 << 17


def test_what_is_received_stays_when_there_is_no_memory_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    body = bytes(range(256)) * 20_000
    receiver = FrameReceiver(10_000_000)
    half = framed(body)[: 4 + 16 * (SCRATCH_BYTES - 4)]  # as much as it may take without more
    assert feed(receiver, half, [1 << 30]) == []
    wanted, capacity = receiver.wanted(), receiver.capacity

    with monkeypatch.context() as patched:
        patched.setattr(frames, "mapped", lambda size: mapped(1 << 60))
        with pytest.raises(MemoryError):
            receiver.grow(wanted)
    assert receiver.capacity == capacity
    assert feed(receiver, framed(body)[len(half) :], [1 << 30]) == [body]


@pytest.mark.parametrize(
    ("size", "reason"),
    [(-1, "negative_size"), (-(2**31), "negative_size"), (0, "bad_header"), (9, "bad_header"), (101, "too_large")],
)
def test_lengths_that_no_request_has(size: int, reason: str) -> None:
    with pytest.raises(FrameError) as caught:
        feed(FrameReceiver(100), struct.pack(">i", size), [4])
    assert (caught.value.reason, caught.value.size) == (reason, size)


def test_headers() -> None:
    frame = memoryview(struct.pack(">hhih", 3, 12, 7, 2) + b"me" + b"\1\5\3abc" + b"body")
    assert parse_start(frame) == (3, 12, 7)
    assert parse_header(frame, False) == (3, 12, 7, "me", 12)
    assert parse_header(frame, True) == (3, 12, 7, "me", 18)
    assert parse_header(memoryview(struct.pack(">hhih", 3, 1, 7, -1)), False).client_id == ""


@pytest.mark.parametrize("end", [b"\xff\xfe", b"\0\4abc", b"\0\1a\1\5\3ab", b"\0\1a\xff\xff\xff\xff\x7f", b"\0\1a"])
def test_headers_that_lie_are_refused(end: bytes) -> None:
    with pytest.raises(DecodeError):
        parse_header(memoryview(struct.pack(">hhi", 3, 12, 7) + end), True)


def test_answers() -> None:
    assert b"".join(response(3, 7, False, [b"body"])) == b"\0\0\0\x08\0\0\0\7body"
    assert b"".join(response(3, 7, True, [b"bo", b"dy"])) == b"\0\0\0\x09\0\0\0\7\0body"
    assert b"".join(response(18, 7, True, [b"body"])) == b"\0\0\0\x08\0\0\0\7body"


def test_a_large_body_is_not_copied() -> None:
    body = bytes(200_000)
    assert response(1, 7, False, [body])[1] is body
