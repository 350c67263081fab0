"""Kafka's wire format: frames, headers, and every API in every version."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from typing import Any
from uuid import UUID

from bridge import apis
from bridge.kafka import fetch_wire, frames, message, produce_wire
from bridge.kafka.fetch_messages import Request as FetchRequest
from bridge.kafka.primitives import DecodeError, TooManyElements
from bridge.kafka.schema import Field, Type, fields_of
from bridge.requests import share_states
from bridge.requests.api import Api
from tests.fuzz.decoders.target import Input, Target, same
from tests.kafka.strategies import plain

TAG_WORDS = (b"\x01\x00", b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff", b"\x7f\xff", b"\x80\x80\x80\x80\x10")
_PRODUCE, _FETCH = 0, 1


@cache
def served() -> list[tuple[Api, int]]:
    """Every API in every version, with those between nodes."""
    found = (*apis.load().values(), *share_states.APIS)
    return [(api, v) for api in found for v in range(api.min_version, api.max_version + 1)]


def _number(at: int) -> bytes:
    return at.to_bytes(2)


# ---- samples of messages ---------------------------------------------------------------------------------------------

_VALUES: dict[str, Any] = {
    "bool": True, "float64": 1.5, "uuid": UUID(int=7), "string": "orders", "bytes": b"opaque", "uint16": 9092,
}  # fmt: skip


def sample(cls: type[Any], version: int, *, nulls: bool = False) -> Any:
    """A message with an element in each array, or with all null that may be."""
    return cls(**{one.name: _sample(one, version, nulls) for one in fields_of(cls) if one.exists(version)})


def _sample(field: Field, version: int, nulls: bool) -> Any:
    absent = field.tag is not None and field.type.message is not None
    return None if nulls and (absent or field.nullable(version)) else _value(field.type, version, nulls)


def _value(kind: Type, version: int, nulls: bool) -> Any:
    if kind.message is not None:
        return sample(kind.message, version, nulls=nulls)
    if kind.name == "array" and kind.element is not None:
        return [_value(kind.element, version, nulls)]
    if kind.name == "records":
        return [b"records"] if kind.element else b"records"
    return _VALUES.get(kind.name, 1)


# ---- requests --------------------------------------------------------------------------------------------------------


def check_request(data: bytes) -> bool:
    """A request of any API: read or refused; what is read and written again is read as the same.

    Not what an API reads in a way of its own: Metadata v0 has no null, and is given one for "all topics".
    """
    given = Input(data)
    api, version = served()[given.number(len(served()))]
    try:
        found = api.decode(memoryview(given.rest()), version)
    except DecodeError:
        return False
    if api.read is None:
        _comes_back(type(found), found, version, api.is_flexible(version))
    return True


def check_response(data: bytes) -> bool:
    """An answer of another node, which a relaying node reads."""
    given = Input(data)
    api, version = served()[given.number(len(served()))]
    flexible = api.is_flexible(version)
    try:
        found = message.decode(api.response, given.rest(), version, flexible)
    except DecodeError:
        return False
    _comes_back(api.response, found, version, flexible)
    return True


def _comes_back(cls: type[Any], found: Any, version: int, flexible: bool) -> None:
    written = bytes(message.encode(found, version, flexible))
    again = message.decode(cls, written, version, flexible)
    same(bytes(message.encode(again, version, flexible)), written, "what is written twice")


def requests() -> list[bytes]:
    """One of each API and version, full and with nulls."""
    return [_number(at) + _request(api, v, nulls) for at, (api, v) in enumerate(served()) for nulls in (False, True)]


def _request(api: Api, version: int, nulls: bool = False) -> bytes:
    return bytes(message.encode(sample(api.request, version, nulls=nulls), version, api.is_flexible(version)))


def responses() -> list[bytes]:
    """One of each API and version."""
    return [
        _number(at) + bytes(message.encode(sample(api.response, v), v, api.is_flexible(v)))
        for at, (api, v) in enumerate(served())
    ]


# ---- frames and headers ----------------------------------------------------------------------------------------------

_LIMIT = 1 << 16


def check_frames(data: bytes) -> bool:
    """A stream gives the same frames, or the same refusal, whatever the pieces it comes in."""
    given = Input(data)
    size = 1 + given.number()
    stream = given.rest()
    same(_received(stream, size), _received(stream, frames.SCRATCH_BYTES), "frames by pieces")
    return True


def _received(stream: bytes, size: int) -> tuple[list[bytes], str]:
    receiver = frames.FrameReceiver(_LIMIT)
    scratch = memoryview(bytearray(frames.SCRATCH_BYTES))
    found: list[bytes] = []
    try:
        while stream:
            receiver.grow(receiver.wanted())
            if receiver.capacity > 4096 + 4 * (sum(map(len, found)) + len(stream) + receiver.size):
                raise AssertionError("a frame takes memory before its bytes come")
            buffer = receiver.buffer(scratch)
            count = min(size, len(buffer), len(stream))
            buffer[:count] = stream[:count]
            found += [bytes(one) for one in receiver.received(count, scratch)]
            stream = stream[count:]
    except frames.FrameError as error:
        return [], error.reason  # the frames before it are lost with the connection
    return found, ""


def check_frame(data: bytes) -> bool:
    """A whole frame as a connection reads it: header, then body."""
    frame = memoryview(data)
    if len(frame) < frames.MIN_FRAME:
        return False
    key, version, _ = frames.parse_start(frame)
    api = apis_by_key().get(key)
    if api is None or not api.serves(version):
        return False
    flexible = api.is_flexible(version)
    try:
        header = frames.parse_header(frame, flexible)
        again = frames.request_header(key, version, header.correlation_id, header.client_id, flexible)
        same(frames.parse_header(memoryview(again), flexible).client_id, header.client_id, "client ids")
        api.decode(frame[header.body_offset :], version)
    except DecodeError:
        return False
    return True


def framed() -> list[bytes]:
    """Whole requests of each API in its newest version."""
    return [
        frames.request_header(api.key, api.max_version, 7, "client", api.is_flexible(api.max_version))
        + _request(api, api.max_version)
        for api in apis_by_key().values()
    ]


def streams() -> list[bytes]:
    """Frames one after another, in pieces of several sizes; lengths that lie."""
    whole = b"".join(struct.pack(">i", len(one)) + one for one in framed()[:4])
    lies = [struct.pack(">i", size) + bytes(12) for size in (-1, 0, 9, _LIMIT + 1, _LIMIT)]
    return [bytes([size]) + whole for size in (0, 6, 255)] + [b"\x03" + lie for lie in lies]


# ---- readers written by hand -----------------------------------------------------------------------------------------

_HAND: tuple[tuple[int, type[Any], Callable[[memoryview, int], Any], int], ...] = (
    (_PRODUCE, produce_wire.Request, produce_wire.read, produce_wire.FLEXIBLE),
    (_FETCH, FetchRequest, fetch_wire.read, fetch_wire.FLEXIBLE),
)


def check_hand_written(data: bytes) -> bool:
    """Produce and Fetch: what is written by hand reads and refuses as what is compiled of the description."""
    given = Input(data)
    key, cls, read, flexible = _HAND[given.number(2)]
    api = apis_by_key()[key]
    version = api.min_version + given.number(api.max_version - api.min_version + 1)
    body = memoryview(given.rest())

    def compiled() -> Any:
        return message.decode(cls, body, version, version >= flexible)

    by_hand, by_compiler = _outcome(lambda: read(body, version)), _outcome(compiled)
    if by_hand is not TooManyElements:  # Produce takes fewer, for it is read on the event loop
        same(by_hand, by_compiler, "readers")
    return True


@cache
def apis_by_key() -> dict[int, Api]:
    """The table of APIs."""
    return apis.load()


def _outcome(read: Callable[[], Any]) -> Any:
    try:
        return plain(read())
    except DecodeError as error:
        return type(error)


def hand_written() -> list[bytes]:
    """Both requests in each version."""
    return [
        bytes([at, v - api.min_version]) + _request(api, v, nulls)
        for at, (key, *_) in enumerate(_HAND)
        for api in (apis_by_key()[key],)
        for v in range(api.min_version, api.max_version + 1)
        for nulls in (False, True)
    ]


TARGETS = (
    Target("requests", check_request, requests, TAG_WORDS),
    Target("responses", check_response, responses, TAG_WORDS),
    Target("frames", check_frames, streams, (b"\x00\x00\x00\x0a", b"\x00\x00\x10\x00")),
    Target("request_frames", check_frame, framed, TAG_WORDS),
    Target("produce_and_fetch", check_hand_written, hand_written, TAG_WORDS),
)
