"""An hour of healthy load with restarts of a node, before the rules as they are: `python -m tests.monitoring.hour`.

It prints what each alert did, and ends with 1 if one fired. `make alerts` has the same in three minutes, quickened.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from bridge.node.orphans import Guard
from tests.faults.processes import let_pass
from tests.monitoring.load import Load, restarted_in_turn
from tests.monitoring.quickened import RULES, SCRAPE_SECONDS
from tests.monitoring.time_line import Period, TimeLine
from tests.support.nodes import Nodes
from tests.support.prometheus import Prometheus, scraping
from tests.support.pulsar import make_pulsar

_RESTARTS = 4
_DOWN_SECONDS = 5.0


def healthy(seconds: float, directory: Path, stack: ExitStack) -> Period:
    """Two nodes under load for so long, restarted in turn; what the alerts did."""
    guard = stack.enter_context(Guard())
    pulsar = make_pulsar(directory / "pulsar", guard)
    stack.callback(pulsar.kill)
    pulsar.start()
    nodes = Nodes(pulsar, pulsar.create_namespace(), guard, directory / "nodes", 2)
    stack.callback(nodes.close)
    nodes.start()
    nodes.wait_until_settled()
    targets = {"bridge": [node.http for node in nodes.all]}
    prometheus = Prometheus(directory / "prometheus", guard, scraping(targets, every=SCRAPE_SECONDS, rules=[RULES]))
    stack.callback(prometheus.stop)
    prometheus.start()
    load = Load(nodes.bootstrap())
    watched = TimeLine(prometheus)
    with load.at_work(), watched.kept(), watched.period("none, but restarts of a node") as period:
        restarted_in_turn(nodes, _RESTARTS, seconds / (_RESTARTS + 1), _DOWN_SECONDS)
        let_pass(seconds / (_RESTARTS + 1))
    return period


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m tests.monitoring.hour", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600.0)
    options = parser.parse_args()
    with ExitStack() as stack:
        period = healthy(options.seconds, Path(stack.enter_context(tempfile.TemporaryDirectory())), stack)
    print("\n".join(period.rows()), flush=True)
    return bool(period.fired)


if __name__ == "__main__":
    sys.exit(main())
