"""How fast the codec's twins are.

K→P is `encode_payload` with the `read_header` before it, P→K is `decode_payload`, as in a produce and a fetch. CPU time
of the thread is counted. Each figure is the best of rounds that alternate between the two codecs.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

from bench.results import Cell, Part, Table
from bridge.codec import HEADER_SIZE, Rebuild, Record, Twin, choose

NOW = 1_790_000_000_000
SIZES = [(100, 0), (100, 2), (1024, 0), (1024, 2)]  # bytes of a value, headers
BATCHES = [16 * 1024, 128 * 1024, 1024 * 1024]
ROUNDS = 5
COLUMNS = [
    "values",
    "twin",
    *(f"{way} {what}" for way in ("K→P", "P→K") for what in ("ns/record", "M records/s", "GB/s")),
]


class Load(NamedTuple):
    """One batch and the payload it becomes."""

    name: str
    batch: bytes
    payload: bytes
    records: int


def load(python: Twin, size: int, headers: int, batch_size: int) -> Load:
    """A batch of about `batch_size` bytes, its keys of 15."""
    count = max(1, batch_size // (size + 25 + 16 * headers))
    records = [
        Record(at, NOW + at, b"key-%011d" % at, bytes([at % 251]) * size, [(b"name", b"some text")] * headers)
        for at in range(count)
    ]
    batch = python.build_batch(records, Rebuild(0, count, NOW, own=True))
    payload = python.encode_payload(batch[HEADER_SIZE:], count, NOW)
    name = f"{size} B, {headers} headers, {batch_size // 1024} KB batches"
    return Load(name, batch, payload.data, count)


def encoding(twin: Twin, load: Load) -> Callable[[], object]:
    """One call as a produce makes it."""
    whole = memoryview(bytearray(load.batch))  # a frame's own buffer
    records = load.batch[HEADER_SIZE:]

    def encode() -> object:
        header = twin.read_header(whole)
        return twin.encode_payload(records, header.record_count, header.base_timestamp)

    return encode


def decoding(twin: Twin, load: Load) -> Callable[[], object]:
    """One call as a fetch makes it."""
    rebuild = Rebuild(0, load.records, NOW, own=True)
    return lambda: twin.decode_payload(load.payload, load.records, rebuild)


def seconds_a_call(call: Callable[[], object], seconds: float) -> float:
    """CPU seconds of one call: of twice as many calls each time, until they take `seconds`."""
    calls = 1
    while True:
        started = time.thread_time()
        for _ in range(calls):
            call()
        spent = time.thread_time() - started
        if spent >= seconds:
            return spent / calls
        calls *= 2


def part(seconds: float) -> Part:
    """The table, each figure made of rounds of so many CPU seconds; raises where there is no native twin to measure."""
    twins = {name: choose(name)[1] for name in ("python", "native")}
    table = Table("Codec, one core", COLUMNS, [])
    for size, headers in SIZES:
        for batch_size in BATCHES:
            one = load(twins["python"], size, headers, batch_size)
            calls = {(name, way): way(twin, one) for name, twin in twins.items() for way in (encoding, decoding)}
            best = dict.fromkeys(calls, float("inf"))
            for _ in range(ROUNDS):
                for key, call in calls.items():
                    best[key] = min(best[key], seconds_a_call(call, seconds))
            for name in twins:
                cells = [cell for way in (encoding, decoding) for cell in figures(best[name, way], one)]
                table.rows.append([one.name, name, *cells])
    return Part("codec", "Codec", __doc__.partition("\n\n")[2].strip().replace("\n", " "), [table])


def figures(seconds: float, load: Load) -> list[Cell]:
    """ns a record, millions of records and gigabytes of Kafka batch a second."""
    each = seconds / load.records
    return [round(each * 1e9), round(1e-6 / each, 2), round(len(load.batch) / seconds / 1e9, 2)]
