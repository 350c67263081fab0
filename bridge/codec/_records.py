"""Kafka's records (v2) byte by byte: varints, fields, headers (`DefaultRecord`, `ByteUtils`).

The grammar, where Kafka's own classes leave room; every breach is InvalidRecord:

* A record is [varint length][attributes][varlong timestamp delta][varint offset delta][key][value][varint count]
  [headers]; a key or value is [varint length][bytes]; a header is two of these, the first not null.
* A varint is zigzag of at most 5 bytes whose value fits 32 bits, a varlong of at most 10 bytes and 64 bits. It may be
  longer than it need be within that; a set bit above the 32nd or 64th is refused.
* A length is −1 (null), or 0 and more. Any other negative is refused (Kafka takes it for null), as is a negative count.
* A record's fields end exactly where its length says. Its attributes are unused in v2 and ignored.
* Sums of a base and a delta wrap round at 64 bits as Java's do.
"""

from collections.abc import Sequence

from bridge.codec.types import Header
from bridge.errors import InvalidRecord

SMALLEST_RECORD = 7
MASK64 = (1 << 64) - 1


def check_count(records: bytes, count: int) -> None:
    """Refuse a count that the bytes cannot hold, before any work is done for it."""
    if count < 1 or count * SMALLEST_RECORD > len(records):
        raise InvalidRecord(f"{count} records cannot be in {len(records)} bytes")


def read_record(data: bytes, pos: int) -> tuple[int, int, int, bytes | None, bytes | None, list[Header]]:
    """Read the record at `pos`: the position after it, offset delta, timestamp delta, key, value, headers."""
    length, pos = read_varint(data, pos)
    end = pos + length
    if length < 0 or end > len(data):
        raise InvalidRecord(f"a record says {length} bytes, {len(data) - pos} are left")
    timestamp, pos = read_varlong(data, pos + 1)
    delta, pos = read_varint(data, pos)
    key, pos = read_bytes(data, pos, end)
    value, pos = read_bytes(data, pos, end)
    count, pos = read_varint(data, pos)
    check_headers(count, pos, end)
    headers: list[Header] = []
    for _ in range(count):
        name, text, pos = read_header(data, pos, end)
        headers.append((name, text))
    if pos != end:
        raise InvalidRecord("its fields end before it does")
    return pos, delta, timestamp, key, value, headers


def check_headers(count: int, pos: int, end: int) -> None:
    if count < 0 or 2 * count > end - pos:
        raise InvalidRecord(f"{count} headers cannot be in {end - pos} bytes")


def read_header(data: bytes, pos: int, end: int) -> tuple[bytes, bytes | None, int]:
    name, pos = read_bytes(data, pos, end)
    if name is None:
        raise InvalidRecord("a header has no key")
    text, pos = read_bytes(data, pos, end)
    return name, text, pos


def read_bytes(data: bytes, pos: int, end: int) -> tuple[bytes | None, int]:
    length, pos = read_varint(data, pos)
    if length < 0:
        if length == -1:
            return None, pos
        raise InvalidRecord(f"a length of {length}")
    stop = pos + length
    if stop > end:
        raise InvalidRecord(f"a field says {length} bytes, {end - pos} are left")
    return data[pos:stop], stop


def read_varint(data: bytes, pos: int) -> tuple[int, int]:
    """Zigzag varint of 32 bits (`ByteUtils.readVarint`); IndexError where the bytes end."""
    byte = data[pos]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), pos + 1
    second = data[pos + 1]
    if second < 0x80:
        raw = byte & 0x7F | second << 7
        return (raw >> 1) ^ -(raw & 1), pos + 2
    return _read_long(data, pos, 32)


def read_varlong(data: bytes, pos: int) -> tuple[int, int]:
    """Zigzag varint of 64 bits (`ByteUtils.readVarlong`)."""
    byte = data[pos]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), pos + 1
    return _read_long(data, pos, 64)


def _read_long(data: bytes, pos: int, bits: int) -> tuple[int, int]:
    raw = shift = 0
    while shift < bits:
        byte = data[pos]
        pos += 1
        raw |= (byte & 0x7F) << shift
        if raw >> bits:
            raise InvalidRecord("a varint has more bits than it may")
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), pos
        shift += 7
    raise InvalidRecord("a varint is longer than its bits need")


def wrapped(value: int) -> int:
    """A sum or difference as Java's 64-bit arithmetic has it: timestamps far apart wrap round, on both sides alike."""
    if -(1 << 63) <= value < 1 << 63:
        return value
    return ((value + (1 << 63)) & MASK64) - (1 << 63)


def _groups(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


# the varint of every number below 2,048: most lengths and deltas
SMALL = tuple(_groups(number) for number in range(1 << 11))


def unsigned(value: int) -> bytes:
    """Plain varint of a number that is not negative."""
    return SMALL[value] if value < 1 << 11 else _groups(value)


def append_record(
    out: bytearray, moved: int, delta: int, key: bytes | None, value: bytes | None, headers: Sequence[Header]
) -> None:
    """Write one record: `moved` and `delta` are what its timestamp and offset add to the batch's."""
    moved = wrapped(moved)
    tail = _headers(headers) if headers else b"\0"
    body = b"".join((
        b"\0", unsigned((moved << 1) ^ (moved >> 63)), unsigned(delta << 1),
        b"\x01" if key is None else unsigned(len(key) << 1), key or b"",
        b"\x01" if value is None else unsigned(len(value) << 1), value or b"", tail,
    ))  # fmt: skip
    out += unsigned(len(body) << 1)
    out += body


def _headers(headers: Sequence[Header]) -> bytearray:
    out = bytearray(unsigned(len(headers) << 1))
    for name, text in headers:
        out += unsigned(len(name) << 1)
        out += name
        out += b"\x01" if text is None else unsigned(len(text) << 1)
        out += text or b""
    return out
