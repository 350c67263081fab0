"""Every attack with its costs: `python -m tests.hostile` prints them and writes them into docs/limits.md."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from bridge import apis
from bridge.standalone.guard import Guard
from tests.hostile import attacks, largest
from tests.hostile.clients import Load, frame
from tests.hostile.measure import Arena
from tests.support.bridges import BridgeChild, settings_for
from tests.support.limits import PAGE
from tests.support.pages import put_between
from tests.support.pulsar import make_pulsar

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


def main() -> None:
    """Start a Pulsar and a bridge, attack, tell."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--only", nargs="*", default=(), help="those whose names contain this; writes nothing")
    only = parser.parse_args().only
    rows = []
    with ExitStack() as stack:
        guard = stack.enter_context(Guard())
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        pulsar = make_pulsar(directory / "pulsar", guard)
        stack.callback(pulsar.kill)
        pulsar.start()
        settings = settings_for(pulsar, pulsar.create_namespace())
        child = stack.enter_context(BridgeChild(settings, directory / "bridge", guard))
        arena = stack.enter_context(Arena(child, pulsar.pid))
        for name, load in _loads(arena):
            if not only or any(part in name for part in only):
                cost = arena.run(load)
                rows.append(cost.row(name))
                print(cost.line(name), flush=True)
    if not only:
        put_between(PAGE, BEGIN, END, HEAD + "\n".join(rows))


if __name__ == "__main__":
    main()
