"""The twins against each other: `python -m tests.codec.fuzz --count N [--seed S]` finds inputs they treat unlike.

Batches, payloads and records as writers make them, most of them then damaged, go to the same function of both twins:
the result must be the same, or the exception's type, and no exception but the codec's three may come.
"""

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

from bridge.codec import NO_LIMIT, NO_PRODUCER, Rebuild, Record, Twin, choose
from bridge.errors import CorruptBatch, CorruptEntry, InvalidRecord
from tests.codec.samples import NOW, framed, own, plain, section, varint, with_checksum

EXPECTED = (CorruptBatch, InvalidRecord, CorruptEntry)
TEXTS = [b"", b"k", b"text", "ключ".encode(), b"\xff\xfe", b"\xed\xa0\x80", b"base64:", b"base64:!",
         b"base64:YQ==", b"base64:YWJj=", b"base64:YR==", b"YQ==", b"YWJj====", b"a" * 63, b"a" * 64,
         b"\xf0\x9f\x92\x96" * 40]  # fmt: skip
TIMES = [-1, 0, 1, -2, NOW, NOW + 1, NOW + 16_000, (1 << 63) - 1, -(1 << 63), 1 << 14, (1 << 21) - 1]
NUMBERS = [0, 1, 2, 0x7F, 0x80, 0x3FFF, 0x4000, (1 << 31) - 1, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
BYTES = [0, 1, 2, 7, 8, 0x0A, 0x12, 0x18, 0x20, 0x28, 0x30, 0x3A, 0x40, 0x48, 0x50, 0x7F, 0x80, 0x81, 0xFE, 0xFF]
LARGE = 140_000  # above where the native twin counts before it writes

Case = tuple[str, tuple[Any, ...]]


def some_bytes(chance: random.Random) -> bytes:
    return chance.choice(TEXTS) if chance.random() < 0.8 else chance.randbytes(chance.randrange(200))


def field(chance: random.Random) -> bytes | None:
    return None if chance.random() < 0.2 else some_bytes(chance)


def records(chance: random.Random) -> list[Record]:
    made = [
        Record(at, chance.choice(TIMES) if chance.random() < 0.3 else NOW + at, field(chance), field(chance),
               [(some_bytes(chance), field(chance)) for _ in range(chance.choice([0, 0, 0, 1, 3]))])
        for at in range(chance.randint(1, 5))
    ]  # fmt: skip
    if chance.random() < 0.002:
        made[-1] = made[-1]._replace(value=bytes(LARGE), key=chance.randbytes(3000))
    return made


def message(chance: random.Random) -> bytes:
    """A message as any writer may put it, or as none should: fields in any order, twice, unknown, of odd numbers."""
    value = some_bytes(chance)
    size = plain(len(value) | chance.choice([0, 0, 0, 0, 1 << 32, 1 << 35]))
    fields = [b"\x18" + size]
    for _ in range(chance.choice([0, 1, 1, 2, 3, 5])):
        text, number = some_bytes(chance), plain(chance.choice(NUMBERS))
        name = some_bytes(chance)
        pair = [b"\x0a" + plain(len(name)) + name, b"\x12" + plain(len(text)) + text]
        if chance.random() < 0.1:
            pair.insert(chance.randrange(3), chance.choice([b"\x18" + number, b"\x1a\x01x", b"\x1d" + bytes(4)]))
        if chance.random() < 0.1:
            chance.shuffle(pair)
        both = b"".join(pair)
        fields.append(
            chance.choice(
                [b"\x12" + plain(len(text)) + text, b"\x3a" + plain(len(text)) + text, b"\x28" + number,
                 b"\x30" + plain(chance.randrange(2)), b"\x48" + plain(chance.randrange(2)), b"\x20\x00",
                 b"\x40" + number, b"\x20\x01", b"\x0a" + plain(len(both)) + both,
                 b"\x98\0" + size,
                 b"\x50" + number, b"\x59" + bytes(8), b"\x5d" + bytes(4), plain(chance.choice(NUMBERS)) + b"\0"]
            )
        )  # fmt: skip
    chance.shuffle(fields)
    return framed(b"".join(fields), value)


def damaged(data: bytes, chance: random.Random) -> bytes:
    """The data with a few bytes changed, cut, put in, doubled or taken out; one in six stays as it is."""
    out = bytearray(data)
    for _ in range(chance.choice([0, 1, 1, 1, 2, 4])):
        at = chance.randrange(len(out) + 1)
        kind = chance.random()
        if kind < 0.5:
            out[at : at + 1] = bytes([chance.choice(BYTES) if chance.random() < 0.7 else chance.randrange(256)])
        elif kind < 0.6:
            del out[at : at + chance.randint(1, 9)]
        elif kind < 0.7:
            out[at:at] = out[at : at + chance.randint(1, 30)]
        elif kind < 0.8:
            out[at:at] = plain(chance.choice(NUMBERS))
        elif kind < 0.9:
            out[at : at + 1] = varint(chance.choice([-1, -2, 64, 300_000, -(1 << 31), (1 << 31) - 1, 1 << 31]))
        else:
            del out[at:]
    return bytes(out)


def some_count(count: int, chance: random.Random) -> int:
    if chance.random() < 0.9:
        return count
    return chance.choice([count + 1, count - 1, 0, -1, (1 << 31) - 1, 1 << 70, -(1 << 70)])


def some_limit(size: int, chance: random.Random) -> int:
    return NO_LIMIT if chance.random() < 0.3 else chance.choice([0, -1, size // 2, size, size + chance.randrange(200)])


def some_rebuild(count: int, chance: random.Random) -> Rebuild:
    rebuild = Rebuild(9, count, NOW, own=chance.random() < 0.5, escaped=chance.random() < 0.5)
    if chance.random() < 0.9:
        return rebuild
    edge = chance.choice([0, -1, 1, 1 << 15, 1 << 31, (1 << 31) + 1, -(1 << 31), 1 - (1 << 31), (1 << 63) - 1, 1 << 63])
    return chance.choice(
        [rebuild._replace(base_offset=edge), rebuild._replace(span=edge), rebuild._replace(publish_time=edge),
         rebuild._replace(producer=(edge, 0, 0)), rebuild._replace(producer=(0, edge, 0)),
         rebuild._replace(producer=(0, 0, edge)), rebuild._replace(producer=NO_PRODUCER),
         rebuild._replace(attributes=edge), rebuild._replace(attributes=0x30)]
    )  # fmt: skip


def lent(data: bytes, chance: random.Random) -> bytes | memoryview:
    """The bytes in one of the forms they come in."""
    kind = chance.random()
    return data if kind < 0.9 else memoryview(data) if kind < 0.95 else memoryview(bytearray(data))


def case(python: Twin, chance: random.Random) -> Case:
    """One function and what to call it with."""
    kind = chance.random()
    if kind < 0.05:
        made = records(chance)
        shift = chance.choice([0, 9, 9, 9, 1 << 31, (1 << 63) - 3])
        made = [record._replace(offset=record.offset + shift) for record in made]
        return "build_batch", (made, some_rebuild(len(made), chance))
    if kind < 0.55:
        made = records(chance)
        count = len(made)
        batch = python.build_batch(made, own(count))
        if kind < 0.1:
            batch = damaged(batch, chance)
            whole = with_checksum(batch) if len(batch) > 20 and chance.random() < 0.5 else batch
            return "read_header", (lent(whole, chance),)
        if kind < 0.16:
            batch = with_checksum(damaged(batch, chance) + bytes(20)) if chance.random() < 0.3 else batch
            limit = max(some_limit(len(batch), chance), 0)
            times = (0, NO_LIMIT) if chance.random() < 0.8 else (chance.choice(TIMES), chance.choice(TIMES))
            return "encode_plain", (lent(batch, chance), limit, *times, chance.choice([1, 2, 9, 9, 9]))
        if kind < 0.37:
            data = damaged(section(batch), chance)
            arguments = (lent(data, chance), some_count(count, chance), chance.choice(TIMES))
            if kind < 0.22:
                return "check_records", arguments
            return "encode_payload", (*arguments, chance.choice([0, 0, 0, 1, -1]), some_limit(len(data), chance))
        payload = python.encode_payload(section(batch), count, made[0].timestamp).data
    else:
        count = chance.randint(1, 4)
        payload = b"".join(message(chance) for _ in range(count))
    payload = damaged(payload, chance)
    return "decode_payload", (lent(payload, chance), some_count(count, chance), some_rebuild(count, chance))


def outcome(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """The result or the exception's type."""
    try:
        return function(*arguments)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 — a panic of Rust's is one
        return type(error)


def fuzz(native: Twin, count: int, seed: int) -> tuple[Counter[str], list[Case]]:
    """Compare the twins on `count` inputs: how many results of which kind there were, and the inputs they differ on."""
    python = choose("python")[1]
    chance = random.Random(seed)
    seen: Counter[str] = Counter()
    different = []
    for _ in range(count):
        name, arguments = case(python, chance)
        ours, theirs = (outcome(getattr(twin, name), arguments) for twin in (native, python))
        kind = ours if isinstance(ours, type) else type(ours)
        seen[f"{name}: {kind.__name__}"] += 1
        if ours != theirs or type(ours) is not type(theirs) or (isinstance(ours, type) and ours not in EXPECTED):
            different.append((name, arguments))
    return seen, different


def main() -> int:
    """Print what came out; 1 if the twins differ."""
    parser = argparse.ArgumentParser(description="Compare the codec's twins on damaged input.")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    seen, different = fuzz(choose("native")[1], options.count, options.seed)
    for kind, times in sorted(seen.items()):
        print(f"{times:>9} {kind}")
    for name, arguments in different[:20]:
        print(f"{name}{arguments!r}"[:2000])
    print(f"{sum(seen.values())} inputs, {len(different)} differences (seed {options.seed})")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
