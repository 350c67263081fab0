"""Whether a Pulsar is fit for the bridge: asked at start-up and for readiness, and in `table` by operators."""

from bridge.check.facts import PROBE_TOPIC
from bridge.check.fit import ensure_fit, index_problem, retention_problem

__all__ = ["PROBE_TOPIC", "ensure_fit", "index_problem", "retention_problem"]
