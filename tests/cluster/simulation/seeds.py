"""Runs many seeds, on all cores, and tells how far it has come."""

import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import nullcontext

from tests.cluster.simulation.checks import Counts, Violation
from tests.cluster.simulation.mutations import MUTATIONS
from tests.cluster.simulation.scenario import Plan, simulate

_PROGRESS_SECONDS = 10.0


def run_seeds(plans: Sequence[Plan], jobs: int = 0, mutation: str = "") -> Iterator[tuple[Plan, Counts | str]]:
    """Each plan with its counts, or with what does not hold, as they are done; `jobs`: so many at a time, 0: as many as
    there are cores."""
    began = told = time.monotonic()
    failed = 0
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs or os.cpu_count() or 1, len(plans)), spawn) as pool:
        waiting = {pool.submit(run_seed, plan, mutation): plan for plan in plans}
        for number, done in enumerate(as_completed(waiting), 1):
            result = done.result()
            failed += isinstance(result, str)
            yield waiting[done], result
            if time.monotonic() - told > _PROGRESS_SECONDS:
                told = time.monotonic()
                text = (
                    f"  {number} of {len(plans)} seeds of {plans[0].nodes} nodes, {failed} failed, {told - began:.0f} s"
                )
                print(text, file=sys.stderr, flush=True)


def run_seed(plan: Plan, mutation: str = "") -> Counts | str:
    """One of them."""
    try:
        with MUTATIONS[mutation].made() if mutation else nullcontext():
            return simulate(plan)
    except Violation as violation:
        return str(violation)
