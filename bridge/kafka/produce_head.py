"""What stands before the records of a Produce of one partition, and around the offsets of its answer.

A producer sends the same bytes before its records each time but for the correlation id: client id, acks, time-out,
topic, partition. Who has read them once knows what they say (Kafka protocol guide, Produce v3 and later).
"""

import struct
from dataclasses import replace
from typing import Final, NamedTuple

from bridge.kafka import frames, message, produce_wire
from bridge.kafka.primitives import Buffer, DecodeError, read_compact_size
from bridge.kafka.produce_wire import FLEXIBLE, Request, RequestPartition, RequestTopic, Response

OLDEST: Final = 3
"""The first version that carries record batches alone."""
_KEY: Final = 0
_NULL: Final = 0xFFFF
_uint16: Final = struct.Struct(">H").unpack_from
_int32: Final = struct.Struct(">i").unpack_from
_LENGTH_AND_TAGS: Final = 4
"""What follows the head where there are no records: in flexible versions a byte of length, and the tags of the
partition, the topic and the request."""
_NO_TAGS: Final = b"\0\0\0"
_FROM_LOG_START: Final = 5
_PLACEHOLDER: Final = struct.pack(">Q", 0x7EFE_FDFC_FBFA_F9F8)  # no name of a topic has such bytes


def split(frame: memoryview) -> tuple[bytes, memoryview] | None:
    """What stands before the records, but for the correlation id and their length, and the records.

    None where the frame is no such request; whether it is one, only a head that is known tells (`head`).
    """
    try:
        (size,) = _uint16(frame, 8)
        at = 10 if size == _NULL else 10 + size  # behind the client id
        if frame[3] < FLEXIBLE:
            (size,) = _uint16(frame, at + 12)
            at += 22 + size  # no transactional id, acks, time-out, one topic, its name, one partition, its index
            (size,) = _int32(frame, at)
            return (bytes(frame[:4]) + bytes(frame[8:at]), frame[at + 4 :]) if at + 4 + size == len(frame) else None
        at += 14 + frame[at + 9]  # the same, and no tags
        size, begin = read_compact_size(frame, at)
        end = begin + size
        is_whole = size >= 0 and end + 3 == len(frame) and bytes(frame[end:]) == _NO_TAGS
        return (bytes(frame[:4]) + bytes(frame[8:at]), frame[begin:end]) if is_whole else None
    except (IndexError, struct.error, DecodeError):
        return None


def head(start: Buffer, request: Request, version: int) -> bytes:
    """What `split` finds before the records of such a request of one partition; `start`: its header, as it came."""
    (topic,) = request.topic_data
    (partition,) = topic.partition_data
    nothing = RequestPartition(index=partition.index, records=b"")
    empty = [RequestTopic(name=topic.name, partition_data=[nothing])]
    flexible = version >= FLEXIBLE
    body = bytes(message.encode(replace(request, topic_data=empty), version, flexible))
    return bytes(start[:4]) + bytes(start[8:]) + body[:-_LENGTH_AND_TAGS]


class AnswerFrame(NamedTuple):
    """An answer of success without its length, its correlation id and its offsets."""

    before: bytes
    """What stands between the correlation id and the base offset."""
    behind: bytes
    """What stands behind the offsets."""
    has_log_start: bool

    def around(self, correlation_id: int, base: int, log_start: int) -> bytes:
        """The whole answer."""
        offsets = _offsets(base, _NO_TIME, log_start) if self.has_log_start else _two_offsets(base, _NO_TIME)
        size = 4 + len(self.before) + len(offsets) + len(self.behind)
        return _size_and_id(size, correlation_id) + self.before + offsets + self.behind


_NO_TIME: Final = -1  # of the append: records have their producers' times
_offsets: Final = struct.Struct(">qqq").pack
_two_offsets: Final = struct.Struct(">qq").pack
_size_and_id: Final = struct.Struct(">ii").pack


def answer_frame(stored: Response, version: int) -> AnswerFrame:
    """The frame of an answer of which `stored` is one; it has one partition."""
    (topic,) = stored.responses
    (partition,) = topic.partition_responses
    partition.base_offset = partition.log_start_offset = int.from_bytes(_PLACEHOLDER, "big")
    body: list[Buffer] = produce_wire.write(stored, version)
    whole = b"".join(frames.response(_KEY, 0, version >= FLEXIBLE, body))[8:]
    first, last = whole.index(_PLACEHOLDER), whole.rindex(_PLACEHOLDER)
    has_log_start = version >= _FROM_LOG_START
    return AnswerFrame(whole[:first], whole[last + 8 if has_log_start else first + 16 :], has_log_start)
