"""The lag of groups in the last hour: sums of what the metrics tell, bounded, and forgotten with the group."""

from __future__ import annotations

from bridge.http.status.history import MOST_SAMPLES, LagHistory
from bridge.telemetry.metrics import Lag


def test_a_groups_lag_is_the_sum_of_what_is_known() -> None:
    history = LagHistory()
    history.add(1.0, [Lag("g", "a", 0, 0, 5, 1.0), Lag("g", "b", 0, 0, 7, 1.0), Lag("g", "c", 0, 0, None, None)])
    history.add(2.0, [Lag("g", "a", 0, 0, -3, 0.0), Lag("g", "b", 0, 0, 1, 1.0)])
    assert history.points("", "g") == [(1.0, 12), (2.0, 1)]
    assert history.trend("", "g") == "12 1"
    assert history.points("", "other") == []


def test_namespaces_are_apart_and_who_is_gone_is_forgotten() -> None:
    history = LagHistory()
    history.add(1.0, [Lag("g", "a", 0, 0, 5, 1.0), Lag("g", "t/n/a", 0, 0, 6, 1.0, None, "t/n")])
    assert (history.points("", "g"), history.points("t/n", "g")) == ([(1.0, 5)], [(1.0, 6)])
    history.add(2.0, [Lag("g", "a", 0, 0, 5, 1.0)])
    assert history.points("t/n", "g") == []


def test_it_is_bounded() -> None:
    history = LagHistory()
    for number in range(2 * MOST_SAMPLES):
        history.add(float(number), [Lag("g", "a", 0, 0, number, 1.0)])
    assert len(history.points("", "g")) == MOST_SAMPLES
    assert len(history.trend("", "g").split()) == 40
