"""Records are counted by the headers of their batches, however these lie in buffers."""

from __future__ import annotations

import pytest

from bridge import codec
from bridge.codec import NO_PRODUCER, message_sets
from bridge.codec.types import Rebuild, Record
from bridge.telemetry.record_counts import sent
from bridge.telemetry.traffic import Traffic


def batch(records: int, base: int = 0) -> bytes:
    made = [Record(number, 1_700_000_000_000, b"key", b"value", []) for number in range(records)]
    return bytes(codec.build_batch(made, Rebuild(base, records, 0, producer=NO_PRODUCER)))


@pytest.mark.parametrize(
    ("buffers", "records"),
    [([], 0), ([batch(3)], 3), ([batch(3), batch(4)], 7), ([batch(1) + batch(2) + batch(5)], 8)],
)
def test_batches(buffers: list[bytes], records: int) -> None:
    found = sent(buffers)
    assert (found.records, found.size) == (records, sum(map(len, buffers)))


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_old_clients(magic: int) -> None:
    data = message_sets.from_batches(batch(5), magic, 0, 1 << 20, 1 << 20)
    assert sent([data]).records == 5
    assert sent([data[:-3]]).records == 5  # the last one is cut


@pytest.mark.parametrize("data", [b"", b"x" * 10, bytes(100), b"\xff" * 100])
def test_what_is_no_batch_ends_the_count(data: bytes) -> None:
    assert sent([data]).size == len(data)


def test_what_is_sent_is_counted_for_its_topic() -> None:
    traffic = Traffic()
    found = sent([batch(2)])
    found.count(traffic)
    found.count(traffic)
    assert (traffic.records_out, traffic.bytes_out) == (4, 2 * len(batch(2)))
