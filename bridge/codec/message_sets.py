"""Message sets of magic 0 and 1, Kafka's formats before 0.11, turned into record batches v2 and back.

A set is a run of [i64 offset][i32 size][u32 CRC-32 of the rest][i8 magic][i8 attributes], with magic 1
[i64 timestamp], then key and value as [i32 length or −1][bytes] (Kafka protocol guide, "Message sets"; KIP-32). A
compressed message, the wrapper, has a set of the same magic for its value (`AbstractLegacyRecordBatch`).

`to_batches` raises CorruptBatch where sizes or checksums are wrong, BatchTooLarge where compressed messages hold more
than they may, InvalidRecord where what is well framed says nothing valid. Neither function needs memory beyond a small
multiple of the bytes given and the limit.
"""

import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from bridge.codec import crc32c
from bridge.codec._records import append_record, read_record, wrapped
from bridge.codec.compression import KafkaCodec, decompress_kafka
from bridge.codec.frames import xxh32
from bridge.codec.types import HEADER_SIZE, NO_PRODUCER, NO_TIMESTAMP, BatchHeader, Record
from bridge.errors import CorruptBatch, InvalidRecord

MAGIC_AT = 16
"""Where the magic stands, in a message as in a batch v2."""

_ENVELOPE = struct.Struct(">qi")
_START = struct.Struct(">Ibb")
_START_V1 = struct.Struct(">Ibbq")
_LENGTH = struct.Struct(">i")
_U32 = struct.Struct(">I")
_BATCH = struct.Struct(">qiibIhiqqqhii")
_CODEC, _LOG_APPEND_TIME = 0x07, 0x08
_CRC_SIZE = 4
_SMALLEST = (_START.size + 8, _START_V1.size + 8)
_LZ4_MAGIC = b"\x04\x22\x4d\x18"


class _Message(NamedTuple):
    """One message of a message set, its checksum verified."""

    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def to_batches(messages: bytes | memoryview, limit: int, batch_limit: int | None = None) -> bytes:
    """A whole message set as uncompressed record batches v2, one after another; their offsets are 0, 1, 2 …

    `limit`: the most bytes that all compressed messages together may hold; `batch_limit`, by default the same: that a
    batch takes as an entry of Pulsar. A set that fits becomes one batch; only a record that is larger by itself gets a
    larger one. Magic 0 has no timestamps (−1). The set's own offsets say nothing: producers count from anywhere.
    """
    batches = _Batches(limit if batch_limit is None else batch_limit)
    left = limit
    for message in _read(bytes(messages)):
        if not message.attributes & _CODEC:
            batches.add(message.attributes & _LOG_APPEND_TIME, message)
            continue
        inner = _decompressed(message, left)
        left -= len(inner)
        for one in _read(inner):
            batches.add(message.attributes & _LOG_APPEND_TIME, _unwrapped(one, message))
    return batches.finish()


def from_batches(batches: bytes | memoryview, magic: int, offset: int, limit: int, plain_limit: int) -> bytes:
    """The records of whole batches v2 as `from_records` writes them; `plain_limit`: the most bytes of one uncompressed.

    They are read one by one: all at once they would take many times the memory of their bytes. Raises as `to_batches`:
    what a compressed batch holds may never have been looked at.
    """
    return from_records(_records(memoryview(batches), plain_limit), magic, offset, limit)


def from_records(records: Iterable[Record], magic: int, offset: int, limit: int) -> bytes:
    """Records from `offset` on as uncompressed messages, as many as it takes to reach `limit` bytes.

    What the magic has no place for is left out: headers, and timestamps in magic 0. Offsets are the true ones: only
    within compressed messages are they relative.
    """
    out = bytearray()
    for record in records:
        if len(out) >= limit:
            break
        if record.offset >= offset:
            _append(out, magic, record)
    return bytes(out)


def _records(batches: memoryview, limit: int) -> Iterator[Record]:
    while len(batches):
        header = BatchHeader(*_BATCH.unpack_from(batches))
        end = _ENVELOPE.size + header.length
        yield from each_record(header, bytes(decompress_kafka(header.attributes, batches[HEADER_SIZE:end], limit)))
        batches = batches[end:]


def each_record(header: BatchHeader, data: bytes) -> Iterator[Record]:
    """The records of a batch v2 one by one, from their uncompressed bytes."""
    pos = 0
    for _ in range(header.record_count):
        try:
            pos, delta, moved, key, value, headers = read_record(data, pos)
        except IndexError as error:
            raise InvalidRecord("a record ends in the middle") from error
        offset, timestamp = wrapped(header.base_offset + delta), wrapped(header.base_timestamp + moved)
        yield Record(offset, timestamp, key, value, headers)


def size_of_first(messages: bytes) -> int:
    """How many bytes the first message takes."""
    return _ENVELOPE.size + int(_ENVELOPE.unpack_from(messages)[1])


def _append(out: bytearray, magic: int, record: Record) -> None:
    start = b"\0\0" if magic == 0 else struct.pack(">bbq", 1, 0, record.timestamp)
    body = start + _field(record.key) + _field(record.value)
    out += _ENVELOPE.pack(record.offset, _CRC_SIZE + len(body)) + _U32.pack(zlib.crc32(body)) + body


def _field(data: bytes | None) -> bytes:
    return b"\xff\xff\xff\xff" if data is None else _LENGTH.pack(len(data)) + data


# ---- reading ---------------------------------------------------------------------------------------------------------


def _read(data: bytes) -> Iterator[_Message]:
    """The messages of one set, in order; there is one at least."""
    if not data:
        raise InvalidRecord("a message set without a message")
    pos = 0
    while pos < len(data):
        if len(data) - pos < MAGIC_AT + 1:
            raise CorruptBatch(f"{len(data) - pos} bytes are no message")
        _, size = _ENVELOPE.unpack_from(data, pos)
        magic = data[pos + MAGIC_AT]
        if magic > 1:
            raise CorruptBatch(f"magic {magic} in a message set")
        pos += _ENVELOPE.size
        if not _SMALLEST[magic] <= size <= len(data) - pos:
            raise CorruptBatch(f"a message says {size} bytes, {len(data) - pos} are left")
        yield _message(data[pos : pos + size], magic)
        pos += size


def _message(data: bytes, magic: int) -> _Message:
    timestamp = NO_TIMESTAMP
    if magic == 0:
        crc, _, attributes = _START.unpack_from(data)
    else:
        crc, _, attributes, timestamp = _START_V1.unpack_from(data)
    if zlib.crc32(memoryview(data)[_CRC_SIZE:]) != crc:
        raise CorruptBatch("a message's checksum does not match")
    key, pos = _read_field(data, (_START, _START_V1)[magic].size)
    value, pos = _read_field(data, pos)
    if pos != len(data):
        raise InvalidRecord(f"a message's fields end {len(data) - pos} bytes before it does")
    return _Message(magic, attributes, timestamp, key, value)


def _read_field(data: bytes, pos: int) -> tuple[bytes | None, int]:
    if len(data) - pos < _LENGTH.size:
        raise InvalidRecord("a message's fields go beyond its end")
    (length,) = _LENGTH.unpack_from(data, pos)
    pos += _LENGTH.size
    if length == -1:
        return None, pos
    if not 0 <= length <= len(data) - pos:
        raise InvalidRecord(f"a field says {length} bytes, {len(data) - pos} are left")
    return data[pos : pos + length], pos + length


def _unwrapped(message: _Message, wrapper: _Message) -> _Message:
    """A message from within a compressed one, as Kafka's broker takes it."""
    if message.magic != wrapper.magic:
        raise InvalidRecord(f"magic {message.magic} within a compressed message of magic {wrapper.magic}")
    if message.attributes & _CODEC:
        raise InvalidRecord("a compressed message within a compressed message")
    return message._replace(timestamp=wrapper.timestamp) if wrapper.attributes & _LOG_APPEND_TIME else message


def _decompressed(wrapper: _Message, limit: int) -> bytes:
    codec, data = wrapper.attributes & _CODEC, wrapper.value
    if data is None:
        raise InvalidRecord("a compressed message without a value")
    if codec == KafkaCodec.ZSTD:  # KIP-110 gave it to batches v2 only
        raise InvalidRecord("zstd in a message set")
    if codec == KafkaCodec.LZ4 and wrapper.magic == 0:
        data = _with_header_checksum(data)
    return decompress_kafka(codec, data, limit)


def _with_header_checksum(frame: bytes) -> bytes:
    """An LZ4 frame with the header checksum that it should have.

    Kafka before 0.10 counted the frame's magic number in (KAFKA-3160), so with magic 0 it is not checked.
    """
    if len(frame) < 7 or not frame.startswith(_LZ4_MAGIC):
        return frame
    flags = frame[4]
    end = 6 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)  # content size, dictionary id
    return frame[:end] + bytes([xxh32(frame[4:end]) >> 8 & 0xFF]) + frame[end + 1 :]


# ---- writing batches -------------------------------------------------------------------------------------------------

_ENTRY_BYTES = 1024  # what an entry of Pulsar takes at the most beside its messages
_MESSAGE_BYTES = 40  # and a message beside its key and value


class _Batches:
    """Record batches v2 that grow record by record."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._out = bytearray()
        self._done = 0  # records in finished batches
        self._start = self._count = self._stored = self._attributes = 0
        self._base_timestamp = self._newest = NO_TIMESTAMP
        self._begin()

    def add(self, log_append_time: int, message: _Message) -> None:
        """Append a record, to a new batch if it is of the other timestamp type or the present one is full."""
        size = _MESSAGE_BYTES + len(message.key or b"") * 4 // 3 + len(message.value or b"")  # keys may be in base64
        if self._count and (self._stored + size > self._limit or log_append_time != self._attributes):
            self._close()
        if not self._count:
            self._base_timestamp = self._newest = message.timestamp
            self._attributes = log_append_time
        self._newest = max(self._newest, message.timestamp)
        moved = message.timestamp - self._base_timestamp
        append_record(self._out, moved, self._count, message.key, message.value, ())
        self._count += 1
        self._stored += size

    def finish(self) -> bytes:
        """All batches."""
        self._close()
        del self._out[self._start :]  # the header of the batch that was not begun
        return bytes(self._out)

    def _begin(self) -> None:
        self._start = len(self._out)
        self._out += bytes(HEADER_SIZE)
        self._count = 0
        self._stored = _ENTRY_BYTES

    def _close(self) -> None:
        out, start = self._out, self._start
        _BATCH.pack_into(
            out, start, self._done, len(out) - start - _ENVELOPE.size, 0, 2, 0, self._attributes, self._count - 1,
            self._base_timestamp, self._newest, *NO_PRODUCER, self._count,
        )  # fmt: skip
        with memoryview(out) as view:
            _U32.pack_into(out, start + MAGIC_AT + 1, crc32c(view[start + MAGIC_AT + 5 :]))
        self._done += self._count
        self._begin()
