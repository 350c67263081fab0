import pytest

from bench.tools import Consumed, ToolError, consumed, produced_seconds

PRODUCED = """\
25001 records sent, 5000.2 records/sec (4.88 MB/sec), 1.1 ms avg latency, 180.0 ms max latency.
40000 records sent, 80000.0 records/sec (78.12 MB/sec), 12.31 ms avg latency, 180.00 ms max latency, 9 ms 50th, \
30 ms 95th, 41 ms 99th, 44 ms 99.9th.
"""
CONSUMED = "2026-11-21 12:00:00:000, 2026-11-21 12:00:02:500, 39.0625, 15.6, 40010, 16004.0, 500, 2000, 19.5, 20005.0\n"


def test_the_producers_time_is_that_of_its_last_line() -> None:
    assert produced_seconds(PRODUCED, 40_000) == 0.5


@pytest.mark.parametrize("printed", ["", PRODUCED.splitlines()[0], PRODUCED])
def test_a_producer_that_did_not_send_everything_is_an_error(printed: str) -> None:
    with pytest.raises(ToolError, match="did not send 40001"):
        produced_seconds(printed, 40_001)


def test_the_consumers_time_is_that_without_the_rebalance() -> None:
    assert consumed("a warning\n" + CONSUMED, 40_000) == Consumed(40_010, 2.0)


def test_a_consumer_that_read_too_little_is_an_error() -> None:
    with pytest.raises(ToolError, match="only 40010 of 40011"):
        consumed(CONSUMED, 40_011)
    with pytest.raises(ToolError, match="told nothing"):
        consumed("a warning\n", 1)
