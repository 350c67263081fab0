"""Whether a Pulsar is fit for the bridge: asked at start-up, for readiness, and by operators (`bridge check`)."""

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
