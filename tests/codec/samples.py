"""Records, batches and byte builders that the codec's tests share."""

from collections.abc import Sequence

import crc32c
from hypothesis import strategies as st

from bridge.codec import HEADER_SIZE, NO_TIMESTAMP, Header, Rebuild, Record

NOW = 1_700_000_000_000
I64 = st.integers(-(1 << 63), (1 << 63) - 1)

tricky = st.sampled_from(
    [b"", b"base64:", b"base64:!", b"base64:YQ==", b"\xff\x00", b"\xed\xa0\x80", "ключ".encode(), b"a"]
)
data = tricky | st.binary(max_size=70) | st.text(max_size=30).map(str.encode)
optional = st.none() | data
headers = st.lists(st.tuples(data, optional), max_size=4)
timestamps = st.sampled_from([-1, 0, 1, NOW, NOW + 5, -(1 << 63), (1 << 63) - 1]) | st.integers(NOW, NOW + 40_000) | I64


not_negative = st.sampled_from([-1, 0, 1, NOW, (1 << 63) - 1]) | st.integers(-1, (1 << 63) - 1)
"""Timestamps that are stored where the topic's configs bound none."""


@st.composite
def record_lists(
    draw: st.DrawFn, base_offset: int = 0, max_size: int = 8, times: st.SearchStrategy[int] = timestamps
) -> list[Record]:
    size = draw(st.integers(1, max_size))
    return [Record(base_offset + at, draw(times), draw(optional), draw(optional), draw(headers)) for at in range(size)]


def oldest(records: Sequence[Record]) -> int:
    """The oldest timestamp, as the codecs tell it."""
    return min((one.timestamp for one in records if one.timestamp != NO_TIMESTAMP), default=(1 << 63) - 1)


def varint(number: int) -> bytes:
    raw = ((number << 1) ^ (number >> 63)) & (1 << 64) - 1
    return plain(raw)


def plain(raw: int) -> bytes:
    out = bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes([*out, raw])


def raw_record(
    delta: int = 0, *, key: bytes = b"\x02k", value: bytes = b"\x02v", headers: bytes = b"\0",
    length: int | None = None, moved: bytes = b"\0", delta_bytes: bytes | None = None,
) -> bytes:  # fmt: skip
    """One record of given wire parts; `key` and `value` include their lengths, `headers` its count."""
    body = b"\0" + moved + (varint(delta) if delta_bytes is None else delta_bytes) + key + value + headers
    return varint(len(body) if length is None else length) + body


def with_checksum(batch: bytes | bytearray) -> bytes:
    """The batch with a checksum that fits."""
    batch = bytearray(batch)
    batch[17:21] = crc32c.crc32c(bytes(batch[21:])).to_bytes(4, "big")
    return bytes(batch)


def framed(metadata: bytes, value: bytes = b"") -> bytes:
    """One message of a Pulsar batch payload."""
    return len(metadata).to_bytes(4, "big") + metadata + value


def own(count: int, base_offset: int = 0, escaped: bool = True) -> Rebuild:
    return Rebuild(base_offset, count, 0, own=True, escaped=escaped)


def section(batch: bytes) -> bytes:
    return batch[HEADER_SIZE:]


def pairs(headers: Sequence[Header]) -> list[tuple[str, bytes | None]]:
    return [(name.decode(), text) for name, text in headers]
