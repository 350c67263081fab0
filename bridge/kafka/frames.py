"""Cuts a byte stream into request frames, and puts headers on requests and answers.

A frame is an int32 length and so many bytes: a request header (v1, or v2 with tags in flexible versions) and the body.
Kafka protocol guide, "Protocol"; headers: KIP-482; ApiVersions' answer: KIP-511.
"""

import mmap
import struct
from collections.abc import Sequence
from typing import NamedTuple

from bridge.errors import BridgeError
from bridge.kafka.primitives import Buffer, DecodeError, ElementLimit, read_text, skip_tags
from bridge.runtime.memory import mapped

SCRATCH_BYTES = 64 * 1024
"""What one read brings at most when no frame is begun; a frame that fits is copied out of it once."""

MIN_FRAME = 10
"""A request header with an empty client id: nothing shorter is a request."""

_FIRST_CAPACITY = 4096
_GROWTH = 4  # times what has been received: each step is a copy of it
_MAPPED = 1024 * 1024
"""A frame that takes more is mapped: no further step is a copy, and nothing is zeroed first, 25 ms for 45 MB."""
_READ_BYTES = 128 * 1024
"""What one read brings at most into a begun frame: libuv reads up to 32 times before it lets others run."""
_API_VERSIONS = 18

_int32 = struct.Struct(">i")
_start = struct.Struct(">hhi")
_int16 = struct.Struct(">h")


class FrameError(BridgeError):
    """A frame whose length no request has; `reason` is one of `metrics.REJECTION_REASONS`."""

    def __init__(self, reason: str, size: int) -> None:
        super().__init__(f"a frame of {size} bytes")
        self.reason = reason
        self.size = size


class FrameReceiver:
    """Collects one connection's bytes into frames, in memory that follows the bytes received, not the length claimed.

    Between frames bytes go into a scratch buffer, which all connections may share since nothing stays in it. A frame
    that does not end there gets memory of its own, a few times what is there already, and again each time it is full,
    but only after `grow`: so the owner decides when (`wanted`) a frame may take more. What others wait for is short: no
    read brings more than some milliseconds of copying, however large the frame.
    """

    __slots__ = ("_filled", "_frame", "_head", "_limit", "_minimum", "_size", "capacity")

    def __init__(self, limit: int, minimum: int = MIN_FRAME) -> None:
        self.allow(limit, minimum)
        self._head = b""
        self._frame: bytearray | mmap.mmap | None = None
        self._size = self._filled = 0
        self.capacity = 0
        """Bytes of memory that the begun frame takes; 0: none is begun."""

    @property
    def midway(self) -> bool:
        """Whether a frame is begun and not ended."""
        return self._frame is not None or bool(self._head)

    @property
    def size(self) -> int:
        """The bytes of the begun frame, as far as it says yet."""
        return self._size

    def allow(self, limit: int, minimum: int = MIN_FRAME) -> None:
        """Take frames of these lengths from now on."""
        self._limit, self._minimum = limit, minimum

    def buffer(self, scratch: memoryview) -> memoryview:
        """Where the next bytes shall go."""
        if self._frame is None:
            if not self._head:
                return scratch
            scratch[: len(self._head)] = self._head
            return scratch[len(self._head) :]
        return memoryview(self._frame)[self._filled : min(self._filled + _READ_BYTES, self.capacity)]

    def received(self, count: int, scratch: memoryview) -> list[memoryview]:
        """The frames complete now that `count` bytes went where `buffer` said."""
        if self._frame is None:
            return self._cut(scratch[: len(self._head) + count])
        self._filled += count
        if self._filled < self._size:
            return []
        frame = memoryview(self._frame).toreadonly()
        self.forget()
        return [frame]

    def wanted(self) -> int:
        """How many more bytes of memory the begun frame needs before it can take anything."""
        if self._frame is None or self._filled < self.capacity:
            return 0
        return min(self._size, _GROWTH * self._filled) - self.capacity

    def grow(self, count: int) -> None:
        """Let the frame take so many more bytes; MemoryError leaves it as it is."""
        if self._frame is None or not count:
            return
        capacity = self.capacity + count
        if not isinstance(self._frame, mmap.mmap):
            # A new buffer, since the event loop may still hold a view of the old one, which pins its size.
            frame = bytearray(capacity) if capacity <= _MAPPED else mapped(self._size)
            frame[: self._filled] = memoryview(self._frame)[: self._filled]
            self._frame = frame
        self.capacity = capacity

    def forget(self) -> None:
        """Drop the begun frame."""
        self._frame, self._head = None, b""
        self._size = self._filled = self.capacity = 0

    def _cut(self, data: memoryview) -> list[memoryview]:
        frames: list[memoryview] = []
        at, end = 0, len(data)
        self._head = b""
        while end - at >= 4:
            (size,) = _int32.unpack_from(data, at)
            if size < self._minimum:
                raise FrameError("negative_size" if size < 0 else "bad_header", size)
            if size > self._limit:
                raise FrameError("too_large", size)
            begin, at = at + 4, at + 4 + size
            if at > end:
                self._begin(size, data[begin:])
                return frames
            frames.append(memoryview(bytes(data[begin:at])))
        if at < end:
            self._head = bytes(data[at:])
        return frames

    def _begin(self, size: int, data: memoryview) -> None:
        self._size, self._filled = size, len(data)
        self.capacity = min(size, max(_FIRST_CAPACITY, _GROWTH * len(data)))
        self._frame = bytearray(self.capacity)
        self._frame[: len(data)] = data


class RequestHeader(NamedTuple):
    """A request's header; the body starts at `body_offset` of the frame."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    body_offset: int


def parse_start(frame: memoryview) -> tuple[int, int, int]:
    """API key, version and correlation id, which stand at the same place in every header."""
    return _start.unpack_from(frame)


def parse_header(frame: memoryview, flexible: bool) -> RequestHeader:
    """The header: v2 when the request's version is flexible, else v1."""
    try:
        api_key, api_version, correlation_id = _start.unpack_from(frame)
        (size,) = _int16.unpack_from(frame, 8)
        if size < -1:
            raise DecodeError(f"a client id of {size} bytes")
        client_id = read_text(frame, 10, size) if size > 0 else ""
        at = 10 + max(size, 0)
        if flexible:  # client_id itself is never compact (KIP-482)
            at = skip_tags(frame, at, ElementLimit())
    except (struct.error, IndexError):
        raise DecodeError("the request header is cut off") from None
    return RequestHeader(api_key, api_version, correlation_id, client_id, at)


def response(api_key: int, correlation_id: int, flexible: bool, body: Sequence[Buffer]) -> list[Buffer]:
    """A whole answer as the buffers to write: length, header (v1 when flexible, else v0), body.

    The header of ApiVersions' answer is always v0: a client reads it before it knows what the server speaks (KIP-511).
    """
    tagged = flexible and api_key != _API_VERSIONS
    size = 4 + tagged + sum(map(len, body))
    head = bytearray(_int32.pack(size) + _int32.pack(correlation_id))
    if tagged:
        head.append(0)
    if len(body) == 1 and size <= SCRATCH_BYTES:
        head += body[0]
        return [head]
    return [head, *body]


def request(
    api_key: int, api_version: int, correlation_id: int, client_id: str, flexible: bool, body: Buffer
) -> list[Buffer]:
    """A whole request as the buffers to write: length, header (v2 when flexible, else v1), body."""
    head = request_header(api_key, api_version, correlation_id, client_id, flexible)
    return [_int32.pack(len(head) + len(body)) + head, body]


def request_header(api_key: int, api_version: int, correlation_id: int, client_id: str, flexible: bool) -> bytes:
    """A request's header: v2 when its version is flexible, else v1."""
    name = client_id.encode()
    return _start.pack(api_key, api_version, correlation_id) + _int16.pack(len(name)) + name + bytes(flexible)
