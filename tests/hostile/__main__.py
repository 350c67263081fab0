"""Every attack with its costs: `python -m tests.hostile` writes them into docs/limits.md and docs/hostile.md."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from bridge import apis
from bridge.node.orphans import Guard
from tests.hostile import attacks, largest, page
from tests.hostile.clients import Load, frame
from tests.hostile.grounds import Grounds, Theatre, shown
from tests.hostile.measure import Arena
from tests.support.bridges import BridgeChild, settings_for
from tests.support.limits import PAGE
from tests.support.pages import between, put_between
from tests.support.pulsar import PrivatePulsar, make_pulsar

BEGIN, END = "<!-- hostile: begin, written by `make hostile` -->", "<!-- hostile: end -->"
COLUMNS = (
    "attack", "sent, MB", "answers", "its time, s", "bridge's CPU, s", "Pulsar's CPU, s", "memory, MiB",
    "longest wait of others, ms", "rest after, s",
)  # fmt: skip
HEAD = f"| {' | '.join(COLUMNS)} |\n|---{'|---:' * 8}|\n"
OTHER, SAME = 10_000, 100_000


def _loads(arena: Arena) -> Iterator[tuple[str, Load]]:
    for number, attack in enumerate(attacks.every()):
        yield attack.name, attack.load(arena.victim(f"victim-{number}"))
    for api in sorted(apis.load().values(), key=lambda api: api.name):
        for one in largest.every(api):
            for kind, count in (("others", OTHER), ("the same", SAME)):
                request = one.request(count, same=kind == "the same", topic=arena.topic)
                yield f"{one}: {count:,} {kind}", Load([[frame(api, api.max_version, request)]], 1)


def _rows(pulsar: PrivatePulsar, directory: Path, guard: Guard, only: Sequence[str], seconds: float) -> None:
    theatre = Theatre(Grounds(pulsar, directory, guard))
    for row in page.measured():
        if row.scene is not None and (not only or any(part in f"{row.number} {row.sent}" for part in only)):
            result = theatre.run(row, row.scene, seconds)
            print(shown(result), flush=True)
            page.write([result])
    theatre.close()


def _costs(pulsar: PrivatePulsar, directory: Path, guard: Guard, only: Sequence[str]) -> None:
    settings = settings_for(pulsar, pulsar.create_namespace())
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in between(PAGE, BEGIN, END).splitlines()[2:]}
    names: list[str] = []
    with BridgeChild(settings, directory / "bridge", guard) as child, Arena(child, pulsar.pid) as arena:
        for name, load in _loads(arena):
            names.append(name)
            if not only or any(part in name for part in only):
                cost = arena.run(load)
                rows[name] = cost.row(name)
                print(cost.line(name), flush=True)
    put_between(PAGE, BEGIN, END, HEAD + "\n".join(rows[name] for name in names if name in rows))


def main() -> None:
    """Start a Pulsar and a bridge, attack, tell."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--only", nargs="*", default=(), help="those whose names contain this")
    parser.add_argument("--part", choices=("rows", "costs"), help="bad input of every kind, or what attacks cost")
    parser.add_argument("--seconds", type=float, default=6.0, help="how long each row goes on")
    options = parser.parse_args()
    with ExitStack() as stack:
        guard = stack.enter_context(Guard())
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        pulsar = make_pulsar(directory / "pulsar", guard)
        stack.callback(pulsar.kill)
        pulsar.start()
        if options.part != "costs":
            _rows(pulsar, directory, guard, options.only, options.seconds)
        if options.part != "rows":
            _costs(pulsar, directory, guard, options.only)


if __name__ == "__main__":
    main()
