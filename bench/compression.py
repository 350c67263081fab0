"""What compressed batches cost the bridge: CPU time for a megabyte of records, bytes to Pulsar and to consumers.

`python -m bench.compression`: for each codec, entry format and size of batch a produce (validating, decompressing,
transcoding, compressing) and a fetch (the same back), as compressed again and as uncompressed for consumers.
"""

import argparse
import json
import random
from collections.abc import Callable
from functools import partial

from bench.codec import seconds_a_call
from bridge import codec
from bridge.codec import HEADER_SIZE, Rebuild, Record
from bridge.codec.compression import KafkaCodec
from bridge.codec.packing import pack
from bridge.pulsar.pb.PulsarApi_pb2 import MessageMetadata
from bridge.pulsar.types import Entry, Position
from bridge.storage.append.preparation import Plan, PreparedEntry, prepare_entries
from bridge.storage.entries import TimeMark, to_kafka

SIZES = (16 << 10, 128 << 10, 1 << 20)
ROUNDS = 5
MEGABYTE = 1e6
LIMIT = 8 << 20
NOW = 1_700_000_000_000


def batch(size: int) -> bytes:
    """A batch of about `size` bytes of JSON, events as services write them."""
    chance = random.Random(1)  # noqa: S311 — the same events each time
    names = [f"{chance.randrange(1 << chance.choice([8, 12, 20])):x}" for _ in range(2000)]
    records: list[Record] = []
    used = 0
    while used < size:
        event = {"id": len(records), "user": chance.choice(names), "event": chance.choice(["click", "view", "buy"]),
                 "time": NOW + 7 * len(records), "amount": chance.random()}  # fmt: skip
        value = json.dumps(event).encode()
        records.append(Record(len(records), NOW + len(records), b"key-%d" % (used % 97), value, ()))
        used += len(value) + 20
    return codec.build_batch(records, Rebuild(0, len(records), 0))


def stored(prepared: PreparedEntry) -> Entry:
    """The entry as it comes back."""
    metadata = prepared.metadata(TimeMark(1, 0))
    metadata.producer_name, metadata.sequence_id, metadata.publish_time = "p", 0, 1
    parsed = MessageMetadata.FromString(metadata.SerializeToString())
    return Entry(Position(1, 1), prepared.record_count - 1, None, parsed, memoryview(prepared.data), len(prepared.data))


def best(call: Callable[[], object], seconds: float) -> float:
    """The least CPU seconds of one call in some rounds."""
    return min(seconds_a_call(call, seconds) for _ in range(ROUNDS))


def line(size: int, of_client: KafkaCodec, entry_format: str, seconds: float) -> str:
    """One line of the table."""
    plain = batch(size)
    sent = memoryview(bytearray(pack(plain, of_client)))
    plan = Plan(LIMIT, entry_format)
    (prepared,) = prepare_entries(sent, plan, NOW)
    entry = stored(prepared)
    records = len(plain) - HEADER_SIZE
    figures = [best(lambda: prepare_entries(sent, plan, NOW), seconds)]
    sizes = [len(prepared.data)]
    for compress in (True, False):
        fetch = partial(to_kafka, entry, 0, entry.payload, LIMIT, compress=compress)
        figures.append(best(fetch, seconds))
        sizes.append(len(fetch()))
    times = "".join(f"{figure / records * MEGABYTE * 1000:>10.2f}" for figure in figures)
    shares = "".join(f"{100 * size / len(plain):>9.0f}%" for size in (len(sent), *sizes))
    return f"{size >> 10:>5} KB {entry_format:<8}{of_client.name.lower():<8}{times}{shares}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Measure what compressed batches cost.")
    parser.add_argument("--seconds", type=float, default=0.05, help="CPU time of one figure's round (0.05)")
    seconds: float = parser.parse_args().seconds
    print(f"{'':<24}{'CPU ms for a MB of records':>30}{'bytes, of those uncompressed':>40}")
    heads = ("produce", "again", "none", "sent", "Pulsar", "again", "none")
    print(f"{'batch   format  codec':<24}" + "".join(f"{head:>10}" for head in heads))
    for size in SIZES:
        for entry_format in ("pulsar", "kafka"):
            for of_client in KafkaCodec:
                print(line(size, of_client, entry_format, seconds))


if __name__ == "__main__":
    main()
