"""Fuzzes the decoders: `python -m tests.fuzz.decoders [TARGET …] [--seconds 10] [--replay FILE]`, or `make fuzz`.

Each target runs in a process of its own, for so many seconds. Inputs that execute new lines are kept in build/fuzz/
and are where the next run begins. The last lines tell, of each target, what was executed and found.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.fuzz.decoders.table import BY_NAME
from tests.support.sources import ROOT

DIRECTORY = ROOT / "build" / "fuzz"
_EXECUTED = re.compile(r"^stat::number_of_executed_units: (\d+)", re.MULTILINE)
_COVERAGE = re.compile(r"cov: (\d+) ft: (\d+) corp: (\d+)/")


class Outcome(NamedTuple):
    """What came of one target."""

    name: str
    executed: int
    seconds: int
    coverage: int
    corpus: int
    findings: Sequence[Path]
    trouble: str
    """The end of what was printed, if the run did not end as it should."""


def fuzz(name: str, seconds: int, seed: int) -> Outcome:
    """Run one target."""
    directory = DIRECTORY / name
    shutil.rmtree(directory / "findings", ignore_errors=True)
    command = [sys.executable, "-m", "tests.fuzz.decoders.guided", name, directory, seconds, seed]
    ended = subprocess.run([str(part) for part in command], cwd=ROOT, capture_output=True, text=True, errors="replace")
    executed, covered = _EXECUTED.search(ended.stderr), _COVERAGE.findall(ended.stderr)
    findings = [path for path in sorted((directory / "findings").glob("*-*")) if path.suffix != ".txt"]
    coverage, _, corpus = map(int, covered[-1]) if covered else (0, 0, 0)
    trouble = "" if ended.returncode == 0 and executed else ended.stderr[-2000:]
    return Outcome(name, int(executed[1]) if executed else 0, seconds, coverage, corpus, findings, trouble)


def replay(name: str, file: Path) -> None:
    """Run one input; a finding raises what it raised."""
    taken = BY_NAME[name].check(file.read_bytes())
    print(f"{name}: {'taken for valid' if taken else 'refused as it should be'}")


def report(outcomes: Sequence[Outcome]) -> None:
    """What each target came to."""
    print(f"{'target':<20} {'executions':>10} {'per s':>7} {'edges':>6} {'inputs':>6} {'findings':>8}")
    for one in outcomes:
        rate = one.executed // max(one.seconds, 1)
        found = len(one.findings)
        print(f"{one.name:<20} {one.executed:>10} {rate:>7} {one.coverage:>6} {one.corpus:>6} {found:>8}")
    for one in outcomes:
        for path in one.findings:
            told = path.with_suffix(".txt")
            last = told.read_text(encoding="utf-8").strip().splitlines()[-1] if told.exists() else ""
            print(f"\n{one.name}: {path.relative_to(ROOT)} {last[:200]}")
            print(f"  again: {sys.executable} -m tests.fuzz.decoders {one.name} --replay {path.relative_to(ROOT)}")
        if one.trouble and not one.findings:
            print(f"\n{one.name} did not end as it should:\n{one.trouble}")


def main() -> int:
    """1 if anything was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.decoders", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(BY_NAME)}; all by default")
    parser.add_argument("--seconds", type=int, default=10, help="for each target")
    parser.add_argument("--processes", type=int, default=2, help="targets that run at a time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--replay", type=Path, help="run this input alone, of the one target named")
    options = parser.parse_args()
    names: list[str] = options.targets or list(BY_NAME)
    if unknown := set(names) - set(BY_NAME):
        parser.error(f"no target: {', '.join(sorted(unknown))}; there are {', '.join(BY_NAME)}")
    if options.replay is not None:
        if len(options.targets) != 1:
            parser.error("--replay needs the one target")
        replay(names[0], options.replay)
        return 0
    with ThreadPoolExecutor(options.processes) as pool:
        outcomes = list(pool.map(lambda name: fuzz(name, options.seconds, options.seed), names))
    report(outcomes)
    return int(any(one.findings or one.trouble for one in outcomes))


if __name__ == "__main__":
    sys.exit(main())
