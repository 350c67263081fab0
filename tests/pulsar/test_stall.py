"""Refusals and nothing else are noticed, told once, and forgotten when something is stored."""

import pytest

from bridge.pulsar.stall import FORGOTTEN_AFTER_SECONDS, MOST_SLOW_TOPICS, STALLED_AFTER_SECONDS, StallDetector
from bridge.telemetry.metrics import PulsarMetrics


def nothing() -> None: ...


def test_refusals_alone_are_a_stall_after_a_while(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    metrics = PulsarMetrics()
    over: list[bool] = []
    stall = StallDetector(metrics, lambda: over.append(True))
    metrics.receipt_seconds.observe(0.1)
    stall.check(0.0)
    for second in range(1, 10):
        metrics.send_errors.inc(3)
        stall.check(float(second))
        assert (stall.problem() is not None) is (second >= 1 + STALLED_AFTER_SECONDS)
    assert metrics.stalled_seconds.value == 8
    assert (stall.problem() or "").startswith("Pulsar has refused all that was sent to it for 8 s, 27 times; ")
    stall.check(19.0)
    assert (metrics.stalled_seconds.value, over) == (18, [])  # the next try is still to come
    metrics.receipt_seconds.observe(0.1)
    stall.check(20.0)
    assert (stall.problem(), metrics.stalled_seconds.value, over) == (None, 0, [True])
    assert [record.message for record in caplog.records] == ["! pulsar stores nothing", "= pulsar stores again"]


def test_refusals_beside_receipts_are_none() -> None:
    metrics = PulsarMetrics()
    stall = StallDetector(metrics, nothing)
    for second in range(20):
        metrics.send_errors.inc()
        metrics.receipt_seconds.observe(0.1)
        stall.check(float(second))
        assert stall.problem() is None


def test_silence_is_none() -> None:
    stall = StallDetector(PulsarMetrics(), nothing)
    for second in range(20):
        stall.check(float(second))
    assert stall.problem() is None


def test_entries_that_are_refused_for_themselves_now_and_then_are_none() -> None:
    metrics = PulsarMetrics()
    stall = StallDetector(metrics, nothing)
    for hour in range(1, 4):
        metrics.send_errors.inc()
        for second in range(int(FORGOTTEN_AFTER_SECONDS) + 2):
            stall.check(hour * 3600.0 + second)
            assert stall.problem() is None


def test_a_stall_without_further_sends_is_forgotten() -> None:
    metrics = PulsarMetrics()
    stall = StallDetector(metrics, nothing)
    for second in range(10):
        metrics.send_errors.inc()
        stall.check(float(second))
    assert stall.problem() is not None
    stall.check(9.0 + FORGOTTEN_AFTER_SECONDS + 1)
    assert stall.problem() is None


def test_topics_that_wait_long_are_told_by_name(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    waiting: list[tuple[str, float]] = []
    metrics = PulsarMetrics()
    stall = StallDetector(metrics, nothing, lambda: waiting)
    stall.check(0.0)
    assert stall.slow_topics() is None
    waiting += [("orders", 0.0), ("bills", 3.0), ("orders", 2.0), ("new", 9.0)]
    stall.check(10.0)
    assert metrics.slow_topics == {"orders": 10.0, "bills": 7.0}
    assert stall.slow_topics() == (
        "Pulsar has not acknowledged records of orders for 10 s, bills for 7 s: see docs/operations.md"
    )
    assert (stall.problem(), metrics.stalled_seconds.value) == (None, 0)  # other topics are served
    waiting.clear()
    stall.check(11.0)
    assert (metrics.slow_topics, stall.slow_topics()) == ({}, None)
    assert [record.message for record in caplog.records] == [
        "! pulsar does not acknowledge",
        "= pulsar acknowledges again",
    ]


def test_of_many_topics_those_that_wait_longest_are_named() -> None:
    metrics = PulsarMetrics()
    stall = StallDetector(metrics, nothing, lambda: [(f"t{number}", float(number)) for number in range(50)])
    stall.check(1000.0)
    assert list(metrics.slow_topics) == [f"t{number}" for number in range(MOST_SLOW_TOPICS)]
    assert (stall.slow_topics() or "").endswith(" and 30 more: see docs/operations.md")
