"""Whether a Pulsar is fit for the bridge: `ensure_fit` at start-up, `..._problem` for readiness, `report` for operators."""

from bridge.check.facts import PROBE_TOPIC
from bridge.check.fit import ensure_fit, index_problem, retention_problem
from bridge.check.table import Finding, State, examine, report

__all__ = [
    "PROBE_TOPIC",
    "Finding",
    "State",
    "ensure_fit",
    "examine",
    "index_problem",
    "report",
    "retention_problem",
]
