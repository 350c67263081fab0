"""The framing of Pulsar's binary protocol: bytes to commands and entries, and back.

    frame    = u32 size of what follows, u32 command size, BaseCommand [, body]
    body     = [0x0e02, u32 size, BrokerEntryMetadata] [0x0e01, u32 CRC32-C of what follows] u32 size, MessageMetadata,
               payload

(Pulsar binary protocol specification, "Framing"; PIP-70 for 0x0e02.) Whatever is wrong with the bytes of a peer comes
out as `ProtocolError` and nothing else.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from bridge.codec import crc32c
from bridge.errors import BridgeError
from bridge.pulsar.pb import PulsarApi_pb2 as pb

Buffer = bytes | bytearray | memoryview

MAGIC_CHECKSUM: Final = 0x0E01
MAGIC_BROKER_METADATA: Final = 0x0E02
DEFAULT_MAX_MESSAGE_SIZE: Final = 5 * 1024 * 1024
# What a frame may hold beyond the largest message: command and metadata (Java: MESSAGE_SIZE_FRAME_PADDING).
FRAME_PADDING: Final = 10 * 1024

_U32: Final = struct.Struct(">I")
_SIZES: Final = struct.Struct(">II")
_MAGIC: Final = struct.Struct(">H")
_MAGIC_U32: Final = struct.Struct(">HI")

CHUNK_BYTES: Final = 64 * 1024
"""Of a stream's bytes, received at once."""
_MOST_CHUNKS: Final = 4
_STRANGERS: Final = {
    _U32.unpack(b"HTTP")[0]: "it speaks HTTP: this is the port of pulsar.admin_url, or of a website",
    _U32.unpack(b"\x15\x03\x03\x00")[0]: "it speaks TLS: connect to it by pulsar+ssl://",
}
"""What answers, by the first bytes that it sends in place of a frame's size."""
# From here on a frame gets memory of its own, so that the kernel's copy is the only one.
_LARGE_FRAME_BYTES: Final = 32 * 1024


class ProtocolError(BridgeError):
    """The peer's bytes are not Pulsar's protocol."""


class ChecksumMismatch(ProtocolError):
    """An entry's CRC32-C is not that of its bytes."""


class Body(NamedTuple):
    """What follows the command in a frame that carries an entry."""

    broker_metadata: pb.BrokerEntryMetadata | None
    metadata: pb.MessageMetadata
    payload: memoryview


class FrameBuffer:
    """Takes a stream's bytes in pieces of any size and gives its frames, each as a view that stays valid.

    Small frames are cut from a shared chunk, which is never written again where a frame was cut from. A large frame is
    received straight into memory of its own. Where more comes than a chunk takes at once, chunks are larger, and large
    frames share them, too: that is half of the reads.
    """

    def __init__(self, max_message_size: int = DEFAULT_MAX_MESSAGE_SIZE, chunk_bytes: int = CHUNK_BYTES) -> None:
        self.max_message_size = max_message_size
        self._chunk_bytes = chunk_bytes
        self._memory = memoryview(bytearray(chunk_bytes))
        self._start = 0  # of the first frame not yet given
        self._end = 0  # of the bytes received
        self._chunks = 1  # that the next one is as large as

    def space(self) -> memoryview:
        """Where the next bytes go; never empty."""
        return self._memory[self._end :]

    def received(self, count: int) -> Iterator[memoryview]:
        """Count bytes were put into `space()`: the frames they complete, without their size."""
        self._end += count
        self._chunks = min(2 * self._chunks, _MOST_CHUNKS) if self._end == len(self._memory) else 1
        # A list, not a generator: the state must be consistent before a frame is acted on.
        frames: list[memoryview] = []
        while True:
            have = self._end - self._start
            if have < 4:
                self._ensure_space(4)
                break
            (size,) = _U32.unpack_from(self._memory, self._start)
            if size < 4 or size > self.max_message_size + FRAME_PADDING:
                # Frames before the bad one are lost with it: the connection is beyond repair anyway.
                raise ProtocolError(_STRANGERS.get(size) or f"frame of {size} bytes")
            if have < 4 + size:
                self._ensure_space(4 + size)
                break
            self._start += 4 + size
            frames.append(self._memory[self._start - size : self._start])
        return iter(frames)

    def _ensure_space(self, needed: int) -> None:
        """Go on in fresh memory when the incomplete frame at the end does not fit, or is worth memory of its own."""
        have = self._end - self._start
        is_alone = needed >= _LARGE_FRAME_BYTES and self._chunks == 1
        if needed <= len(self._memory) - self._start and (not is_alone or self._start == 0):
            return
        fresh = memoryview(bytearray(needed if is_alone else max(needed, self._chunks * self._chunk_bytes)))
        fresh[:have] = self._memory[self._start : self._end]
        self._memory, self._start, self._end = fresh, 0, have


def split(frame: memoryview) -> tuple[pb.BaseCommand, memoryview]:
    """A frame's command and the bytes behind it, empty for a simple command."""
    if len(frame) < 4:
        raise ProtocolError(f"frame of {len(frame)} bytes")
    (size,) = _U32.unpack_from(frame)
    if size > len(frame) - 4:
        raise ProtocolError(f"command of {size} bytes in a frame of {len(frame)}")
    try:
        return pb.BaseCommand.FromString(frame[4 : 4 + size]), frame[4 + size :]  # type: ignore[arg-type]
    except DecodeError as error:
        raise ProtocolError(f"not a command: {error}") from None


def parse_body(body: memoryview) -> Body:
    """An entry as stored, its checksum verified where there is one."""
    return _parse_body(body, verify=True)


def count_messages(body: memoryview) -> int:
    """How many messages a broker counts for an entry: by its metadata if that can be read at all, else one."""
    try:
        return max(_parse_body(body, verify=False).metadata.num_messages_in_batch, 1)
    except ProtocolError:
        return 1


def _parse_body(body: memoryview, *, verify: bool) -> Body:
    broker_metadata = None
    try:
        (magic,) = _MAGIC.unpack_from(body)
        if magic == MAGIC_BROKER_METADATA:
            broker_metadata, body = _parse_broker_metadata(body)
            (magic,) = _MAGIC.unpack_from(body)
        if magic == MAGIC_CHECKSUM:
            _, checksum = _MAGIC_U32.unpack_from(body)
            body = body[6:]
            if verify and crc32c(body) != checksum:
                raise ChecksumMismatch("the entry's checksum is not that of its bytes")
        (size,) = _U32.unpack_from(body)
        metadata = pb.MessageMetadata.FromString(_slice(body, 4, size))  # type: ignore[arg-type]
    except struct.error:
        raise ProtocolError("the entry is cut short") from None
    except DecodeError as error:
        raise ProtocolError(f"not message metadata: {error}") from None
    return Body(broker_metadata, metadata, body[4 + size :])


def _parse_broker_metadata(body: memoryview) -> tuple[pb.BrokerEntryMetadata, memoryview]:
    _, size = _MAGIC_U32.unpack_from(body)
    return pb.BrokerEntryMetadata.FromString(_slice(body, 6, size)), body[6 + size :]  # type: ignore[arg-type]


def _slice(body: memoryview, start: int, size: int) -> memoryview:
    if size > len(body) - start:
        raise ProtocolError(f"{size} bytes announced, {len(body) - start} there")
    return body[start : start + size]


def simple_frame(command: bytes) -> bytes:
    """The frame of a serialised command that carries nothing."""
    return _SIZES.pack(len(command) + 4, len(command)) + command


def entry_head(metadata: bytes, payload: Sequence[Buffer]) -> bytes:
    """What stands between command and payload: magic, checksum, metadata."""
    sized = _U32.pack(len(metadata)) + metadata
    checksum = crc32c(sized)
    for part in payload:
        checksum = crc32c(part, checksum)
    return _MAGIC_U32.pack(MAGIC_CHECKSUM, checksum) + sized


def entry_frame_head(command: bytes, head: bytes, payload_size: int) -> bytes:
    """All of an entry's frame but its payload, which follows without a copy."""
    return _SIZES.pack(4 + len(command) + len(head) + payload_size, len(command)) + command + head
