"""Refusals and nothing else are noticed, told once, and forgotten when something is stored."""

import pytest

from bridge.metrics import PulsarMetrics
from bridge.pulsar.stall import FORGOTTEN_AFTER_SECONDS, STALLED_AFTER_SECONDS, StallDetector


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
