"""When a worker that has died is started again."""

from __future__ import annotations

from bridge.node.workers.restarts import WorkerRestarts


def test_the_first_death_costs_no_time() -> None:
    assert WorkerRestarts().died(100.0) == 0


def test_deaths_that_follow_each_other_cost_more_and_more_up_to_a_bound() -> None:
    restarts, now, pauses = WorkerRestarts(), 100.0, []
    for _ in range(8):
        pause = restarts.died(now)
        pauses.append(pause)
        now += pause + 1
    assert pauses == [0, 1, 2, 4, 8, 16, 30, 30]
    assert restarts.count == 8


def test_a_worker_that_ran_for_a_while_is_started_at_once() -> None:
    restarts = WorkerRestarts()
    assert [restarts.died(now) for now in (100.0, 101.0, 112.5, 113.0)] == [0, 1, 0, 1]
