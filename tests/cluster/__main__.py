"""Runs seeds of the simulation by hand: `python -m tests.cluster --nodes 10 --seeds 100`, `--seed 7` to replay one."""

import argparse
import sys
import time
from contextlib import nullcontext
from dataclasses import replace

from tests.cluster.simulation.checks import Violation
from tests.cluster.simulation.mutations import MUTATIONS
from tests.cluster.simulation.scenario import Plan, simulate, slots_of
from tests.cluster.simulation.seeds import run_seeds


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--seed", type=int, help="replay this seed and show what happens")
    parser.add_argument("--seeds", type=int, default=10, help="run so many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=0, help="so many at a time; 0: as many as there are cores")
    parser.add_argument("--slots", type=int, default=0, help="256; 1024 for more than 100 nodes")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--only", nargs="*", default=[], help="these faults alone")
    parser.add_argument("--mutation", choices=sorted(MUTATIONS), help="with this rule switched off")
    return parser.parse_args()


def _plan(options: argparse.Namespace, seed: int) -> Plan:
    if options.mutation:
        return replace(MUTATIONS[options.mutation].plan, seed=seed)
    slots: int = options.slots or slots_of(options.nodes)
    only = tuple(options.only)
    return Plan(options.nodes, seed, slots, only=only, steps=options.steps, move_slots=slots // 2)


def _replay(options: argparse.Namespace) -> int:
    """Show what happens in one seed."""
    try:
        with MUTATIONS[options.mutation].made() if options.mutation else nullcontext():
            simulate(_plan(options, options.seed), lambda text: print(text, flush=True))
    except Violation as violation:
        print(f"! seed {options.seed} of {options.nodes} nodes: {violation}", flush=True)
        return 1
    return 0


def main() -> int:
    """Run what is asked for; 1: something does not hold."""
    options = _options()
    if options.seed is not None:
        return _replay(options)
    seeds = range(options.first, options.first + options.seeds)
    deaths: dict[str, list[float]] = {}
    failed = most_void = controllers = void = views = 0
    began = time.perf_counter()
    for plan, counts in run_seeds([_plan(options, seed) for seed in seeds], options.jobs, options.mutation or ""):
        if isinstance(counts, str):
            failed += 1
            print(f"! seed {plan.seed} of {plan.nodes} nodes: {counts}", flush=True)
            continue
        for how, seconds in counts.deaths:
            deaths.setdefault(how, []).append(seconds)
        most_void = max(most_void, counts.most_void)
        controllers, void, views = controllers + counts.controllers, void + counts.void, views + counts.views
    took = time.perf_counter() - began
    print(f"{options.nodes} nodes, {len(seeds)} seeds, {failed} failed, {took:.0f} s", end="; ")
    print(f"{views} views, {void} void (at most {most_void} at a time), {controllers} changes of the controller")
    for how, times in sorted(deaths.items()):
        times.sort()
        share = [times[min(len(times) - 1, int(len(times) * part))] for part in (0.5, 0.9, 0.99)]
        print(
            f"  {how}: {len(times)} removed after {share[0]:.2f} (half) {share[1]:.2f} (90 %) {share[2]:.2f} (99 %)",
            end="",
        )
        print(f" {times[-1]:.2f} s (last)")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
