"""`make bench`: the bridge beside native Pulsar and Kafka on one machine; tables here, JSON and plots in docs/.

A part that fails is told of, the others run all the same, and the exit code is 1.
"""

import argparse
import os
import platform
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from bench import codec, report, results
from bench.parts import FULL, PARTS, QUICK, Plan
from bench.progress import PartsProgress
from bench.results import Part
from bench.stack import Stack, running

_ROOT = Path(__file__).parent.parent
_RESULTS = _ROOT / "bench" / "results"
_QUICK_RESULTS = _ROOT / "build" / "bench"
_CODEC = "codec"


def main() -> int:
    """Run what was asked for; 0 when every part was done."""
    options = _options()
    wanted = options.only or [_CODEC, *PARTS]
    plan = QUICK if options.quick else FULL
    if options.memory_seconds:
        plan = replace(plan, memory_seconds=options.memory_seconds)
    directory = _QUICK_RESULTS if options.quick else _RESULTS
    os.environ.setdefault("BRIDGE_CODEC", "native")
    _raise_file_limit()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # in order, as Ctrl-C does
    failed = []
    progress = PartsProgress(wanted, _usual(wanted, directory))
    if _CODEC in wanted:
        failed += _run(_CODEC, lambda: codec.part(0.02 if options.quick else 0.1), directory, progress)
    servers = [name for name in PARTS if name in wanted]
    if servers:
        failed += _with_servers(servers, plan, directory, progress)
    if not options.quick:
        report.render(_ROOT, _RESULTS)
    print(f"results are in {directory}", flush=True)
    if failed:
        print(f"FAILED: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _usual(names: Sequence[str], directory: Path) -> dict[str, float]:
    """How long the parts took the last time."""
    kept = {name: directory / f"{name}.json" for name in names}
    seconds = {name: results.read(path).seconds for name, path in kept.items() if path.exists()}
    return {name: took for name, took in seconds.items() if took}


def _with_servers(names: Sequence[str], plan: Plan, directory: Path, progress: PartsProgress) -> list[str]:
    """Run the parts; the names of those that failed."""
    left = list(names)
    failed: list[str] = []
    while left:
        work = Path(tempfile.mkdtemp(prefix="bridge-bench-"))
        try:
            started = time.monotonic()
            with running(work) as stack:
                print(f"Pulsar, the bridge and Kafka are up after {time.monotonic() - started:.0f} s\n", flush=True)
                failed += _until_one_fails(left, stack, plan, directory, progress)
        except Exception:  # noqa: BLE001 - told, and the exit code says it
            traceback.print_exc()
            return [*failed, *left]
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return failed


def _until_one_fails(left: list[str], stack: Stack, plan: Plan, directory: Path, progress: PartsProgress) -> list[str]:
    """Take parts from the list; what a failed one has left under way would disturb the next, so it is the last here."""
    while left:
        name = left.pop(0)
        failed = _run(name, _bound(stack, plan, name), directory, progress)
        if failed:
            return failed
    return []


def _bound(stack: Stack, plan: Plan, name: str) -> Callable[[], Part]:
    return lambda: PARTS[name](stack, plan)


def _run(name: str, part: Callable[[], Part], directory: Path, progress: PartsProgress) -> list[str]:
    """Run a part, show and keep its tables; its name again if it failed."""
    started = time.monotonic()
    try:
        with progress.running(name):
            found = part()
    except Exception:  # noqa: BLE001 - told, and the exit code says it
        print(f"{name} failed after {time.monotonic() - started:.0f} s", flush=True)
        traceback.print_exc()
        return [name]
    found.machine, found.seconds = _machine(), round(time.monotonic() - started, 1)
    found.write(directory)
    for table in found.tables:
        print(results.plain(table), end="\n\n")
    print(f"({name}: {time.monotonic() - started:.0f} s)\n", flush=True)
    return []


def _machine() -> str:
    model = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), "?"
    )
    load = os.getloadavg()[0]
    return f"{os.cpu_count()} × {model}, {platform.system()}, Python {platform.python_version()}, load {load:.1f}"


def _lines(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8").splitlines()


def _raise_file_limit() -> None:
    """The bridge inherits it, and a thousand clients are a thousand files."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make bench ARGS=…", description="Measure the bridge beside Pulsar and Kafka."
    )
    parser.add_argument("--quick", action="store_true", help="5 minutes instead of 25; docs/ is left as it is")
    parser.add_argument("--only", nargs="+", choices=[_CODEC, *PARTS], metavar="PART", help=", ".join([_CODEC, *PARTS]))
    parser.add_argument("--memory-seconds", type=float, help="how long the memory is watched (90; 10 with --quick)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
