"""Kafka's records (v2) byte by byte: varints, fields, headers (`DefaultRecord`, `ByteUtils`)."""

from bridge.codec.types import Header, Record
from bridge.errors import InvalidRecord

_SMALLEST_RECORD = 7
_MASK64 = (1 << 64) - 1


def check_count(records: bytes, count: int) -> None:
    if count < 1 or count * _SMALLEST_RECORD > len(records):
        raise InvalidRecord(f"{count} records cannot be in {len(records)} bytes")


def read_record(data: bytes, pos: int, expected: int) -> tuple[int, int, bytes | None, bytes | None, list[Header]]:
    """Read the record at `pos`, whose offset delta must be `expected`, as Kafka demands of producers."""
    pos, delta, timestamp, key, value, headers = read_any(data, pos)
    if delta != expected:
        raise InvalidRecord(f"record {expected} says offset delta {delta}")
    return pos, timestamp, key, value, headers


def read_any(data: bytes, pos: int) -> tuple[int, int, int, bytes | None, bytes | None, list[Header]]:
    length, pos = _read_varint(data, pos)
    end = pos + length
    if length < 0 or end > len(data):
        raise InvalidRecord(f"a record says {length} bytes, {len(data) - pos} are left")
    timestamp, pos = _read_varlong(data, pos + 1)  # one byte of attributes, unused in v2
    delta, pos = _read_varint(data, pos)
    key, pos = _read_bytes(data, pos, end)
    value, pos = _read_bytes(data, pos, end)
    count, pos = _read_varint(data, pos)
    headers: list[Header] = []
    if count:
        if count < 0 or 2 * count > end - pos:
            raise InvalidRecord(f"{count} headers cannot be in {end - pos} bytes")
        for _ in range(count):
            name, pos = _read_bytes(data, pos, end)
            if name is None:
                raise InvalidRecord("a header has no key")
            text, pos = _read_bytes(data, pos, end)
            headers.append((name, text))
    if pos != end:
        raise InvalidRecord(f"a record's fields end {end - pos} bytes before it does")
    return pos, delta, timestamp, key, value, headers


def _read_bytes(data: bytes, pos: int, end: int) -> tuple[bytes | None, int]:
    length, pos = _read_varint(data, pos)
    if length < 0:
        if length == -1:
            return None, pos
        raise InvalidRecord(f"a length of {length}")
    stop = pos + length
    if stop > end:
        raise InvalidRecord(f"a field says {length} bytes, {end - pos} are left")
    return data[pos:stop], stop


def _read_varint(data: bytes, pos: int) -> tuple[int, int]:
    """Zigzag varint of 32 bits (`ByteUtils.readVarint`); more than 32 bits is an error."""
    byte = data[pos]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), pos + 1
    return _read_long_varint(data, pos, 32)


def _read_varlong(data: bytes, pos: int) -> tuple[int, int]:
    byte = data[pos]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), pos + 1
    return _read_long_varint(data, pos, 64)


def _read_long_varint(data: bytes, pos: int, bits: int) -> tuple[int, int]:
    raw = shift = 0
    while True:
        byte = data[pos]
        pos += 1
        raw |= (byte & 0x7F) << shift
        if raw >> bits:
            raise InvalidRecord(f"a varint has more than {bits} bits")
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), pos
        shift += 7
        if shift >= bits:
            raise InvalidRecord(f"a varint is longer than {bits} bits need")


def varint(value: int) -> bytes:
    """Zigzag varint of a signed 64-bit number."""
    raw = (value << 1) ^ (value >> 63)
    if raw < 0x80:
        return _ONE_BYTE[raw]
    return unsigned(raw & _MASK64)


def wrapped(value: int) -> int:
    """A sum or difference as Java's 64-bit arithmetic has it: timestamps far apart wrap round, on both sides alike."""
    if -(1 << 63) <= value < 1 << 63:
        return value
    return ((value + (1 << 63)) & _MASK64) - (1 << 63)


def unsigned(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_ONE_BYTE = tuple(bytes([n]) for n in range(0x80))


def write_body(out: bytearray, record: Record, base_timestamp: int, base_offset: int) -> None:
    out.append(0)
    out += varint(wrapped(record.timestamp - base_timestamp))
    out += varint(record.offset - base_offset)
    _write_bytes(out, record.key)
    _write_bytes(out, record.value)
    headers = record.headers
    if not headers:
        out.append(0)
        return
    out += varint(len(headers))
    for name, text in headers:
        _write_bytes(out, name)
        _write_bytes(out, text)


def _write_bytes(out: bytearray, data: bytes | None) -> None:
    if data is None:
        out.append(1)  # zigzag of −1
        return
    out += varint(len(data))
    out += data
