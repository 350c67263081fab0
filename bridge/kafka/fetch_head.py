"""What a Fetch of one partition says beside its offset, and what stands around the records of its answer.

A consumer that keeps up sends the same bytes each time but for correlation id and offset. Who has read them once knows
what they say (Kafka protocol guide, Fetch v10 and later).
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from bridge.kafka import fetch_wire, message
from bridge.kafka.fetch_messages import BY_ID, Request, Response
from bridge.kafka.fetch_wire import FLEXIBLE
from bridge.kafka.primitives import Buffer, uvarint

OLDEST: Final = 10
"""The first version in which any batch may be sent, however it is compressed."""
_KEY: Final = 1
_WITHOUT_REPLICA: Final = 15
_NULL: Final = 0xFFFF
_uint16: Final = struct.Struct(">H").unpack_from
_offset: Final = struct.Struct(">q").unpack_from
_size_and_id: Final = struct.Struct(">ii").pack
_offsets: Final = struct.Struct(">qqq").pack
_PLACEHOLDERS: Final = struct.pack(">QQQ", *[0x7EFE_FDFC_FBFA_F9F8] * 3)  # no name or id has such bytes


def split(frame: memoryview) -> tuple[bytes, int] | None:
    """All of the request but for its correlation id and its offset, and the offset.

    None where the frame is no such request; whether it is one, only a head that is known tells (`head`).
    """
    try:
        (size,) = _uint16(frame, 8)
        at, version = 10 if size == _NULL else 10 + size, frame[3]  # behind the client id
        if version < FLEXIBLE:  # 25 bytes of limits, one topic, its name, one partition, its index, its epoch
            (size,) = _uint16(frame, at + 29)
            at += 43 + size
        elif version < BY_ID:  # tags of the header, and the same
            at += 36 + frame[at + 27]
        else:
            at += 52 if version < _WITHOUT_REPLICA else 48
        (offset,) = _offset(frame, at)
    except (IndexError, struct.error):
        return None
    return bytes(frame[:4]) + bytes(frame[8:at]) + bytes(frame[at + 8 :]), offset


def head(start: Buffer, request: Request, version: int) -> bytes | None:
    """What `split` finds in this request of one partition, None if it would find something else; `start`: its header,
    as it came."""
    found = split(memoryview(bytes(start) + bytes(message.encode(request, version, version >= FLEXIBLE))))
    return None if found is None or found[1] != request.topics[0].partitions[0].fetch_offset else found[0]


class AnswerFrame(NamedTuple):
    """An answer without its offsets and its records."""

    before: bytes
    """What stands before the high watermark."""
    between: bytes
    """What stands between the log start and the length of the records."""
    behind: bytes
    """What stands behind the records."""
    flexible: bool

    def body(self, high_watermark: int, last_stable: int, log_start: int, records: Sequence[bytes]) -> bytes:
        """The whole body."""
        size = sum(map(len, records))
        length = uvarint(size + 1) if self.flexible else size.to_bytes(4, "big")
        offsets = _offsets(high_watermark, last_stable, log_start)
        return b"".join((self.before, offsets, self.between, length, *records, self.behind))


def answer_frame(empty: Response, version: int) -> AnswerFrame:
    """The frame of an answer of which `empty` is one; it has one partition without records."""
    ((partition,),) = [topic.partitions for topic in empty.responses]
    (place,) = struct.unpack_from(">q", _PLACEHOLDERS)
    partition.high_watermark = partition.last_stable_offset = partition.log_start_offset = place
    partition.records = [b""]
    buffers: list[Buffer] = fetch_wire.write(empty, version)
    start = bytes(buffers[0])
    at = start.index(_PLACEHOLDERS)
    flexible = version >= FLEXIBLE
    between = start[at + len(_PLACEHOLDERS) : -1 if flexible else -4]
    return AnswerFrame(start[:at], between, b"".join(buffers[1:]), flexible)


def answer(correlation_id: int, body: Buffer, flexible: bool) -> bytes:
    """The whole answer."""
    return b"".join((_size_and_id(4 + flexible + len(body), correlation_id), b"\0" if flexible else b"", body))


def with_max_wait(frame: memoryview, milliseconds: int) -> memoryview:
    """The same request with another time to wait."""
    (size,) = _uint16(frame, 8)
    version = frame[3]
    at = (10 if size == _NULL else 10 + size) + (version >= FLEXIBLE) + (0 if version >= _WITHOUT_REPLICA else 4)
    return memoryview(bytes(frame[:at]) + milliseconds.to_bytes(4, "big") + bytes(frame[at + 4 :]))
