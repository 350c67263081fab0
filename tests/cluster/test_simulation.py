"""Clusters of state machines over a model of Pulsar, with faults by seed; a failure names the command that replays it.

`make soak` runs a thousand seeds each of 2, 3, 10 and 50 nodes, and twenty of 300.
"""

from dataclasses import replace

import pytest
from _pytest.mark.structures import ParameterSet

from tests.cluster.simulation.checks import Violation
from tests.cluster.simulation.mutations import MUTATIONS, TRIMMED
from tests.cluster.simulation.scenario import Plan, simulate, slots_of
from tests.cluster.simulation.seeds import run_seeds
from tests.support import effort


def _run(plan: Plan) -> list[tuple[str, float]]:
    try:
        return simulate(plan).deaths
    except Violation as violation:
        raise Violation(f"{violation}\n{_replay(plan)}") from None


def _replay(plan: Plan) -> str:
    return f"replay: python -m tests.cluster --nodes {plan.nodes} --seed {plan.seed} --slots {plan.slots}"


def _check_times(deaths: list[tuple[str, float]]) -> None:
    """I4, as far as it is about most of them: how long it took until single dead nodes were out of the view."""
    killed = sorted(took for fault, took in deaths if fault == "kill")
    dead = sorted(took for fault, took in deaths if fault in ("kill", "crash", "freeze"))
    assert killed[int(len(killed) * 0.99)] < 2.5
    assert dead[int(len(dead) * 0.99)] < 4.1


@pytest.mark.parametrize(("nodes", "seeds"), [(2, 40), (3, 40), (10, 20), (50, 2)])
def test_faults(nodes: int, seeds: int) -> None:
    for seed in range(effort.seeds(seeds)):
        _run(Plan(nodes, seed))


def test_records_that_pulsar_deletes_before_all_have_read_them() -> None:
    for seed in range(effort.seeds(60)):
        _run(Plan(3, seed, only=TRIMMED, timing=(("lost", 4.0),)))


def test_dead_nodes_are_soon_out_of_the_view() -> None:
    faults = ("kill", "kill_controller", "crash", "freeze", "freeze_controller")
    _check_times([death for seed in range(effort.seeds(60)) for death in _run(Plan(3, seed, only=faults))])


def _mutations() -> list[ParameterSet]:
    """Those that show in one seed of hundreds take minutes."""
    rare = (pytest.mark.soak, pytest.mark.timeout(1_200))
    return [pytest.param(name, marks=rare if made.seeds > 200 else ()) for name, made in MUTATIONS.items()]


@pytest.mark.parametrize("name", _mutations())
def test_a_rule_switched_off_is_noticed(name: str) -> None:
    mutation = MUTATIONS[name]
    for seed in dict.fromkeys((mutation.noticed, *range(mutation.seeds))):
        plan = replace(mutation.plan, seed=seed)
        try:
            with mutation.made():
                simulate(plan)
        except Violation:
            break
    else:
        pytest.fail(f"{mutation.rule}: it does not hold, and no check fails")
    kept = tuple(limit for limit in plan.timing if limit[0] in ("kept_ids", "lost"))
    _run(replace(plan, timing=kept))  # with the rule, this seed is without fault


@pytest.mark.soak
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize(("nodes", "seeds"), [(2, 1000), (3, 1000), (10, 1000), (50, 1000), (300, 20)])
def test_many_faults(nodes: int, seeds: int) -> None:
    slots = slots_of(nodes)
    plans = [Plan(nodes, seed, slots, move_slots=slots // 2) for seed in range(seeds)]
    failed = [f"{found}\n{_replay(plan)}" for plan, found in run_seeds(plans) if isinstance(found, str)]
    assert not failed, "\n".join(failed)
