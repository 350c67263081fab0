"""Whether a Pulsar is fit for the bridge: asked at start-up and for readiness, and in `table` by operators."""

from bridge.check.facts import PROBE_TOPIC
from bridge.check.fit import ensure_fit, index_problem, retention_problem
from bridge.check.state_namespace import ensure_state, refuse_unmoved, topic_exists

__all__ = [
    "PROBE_TOPIC",
    "ensure_fit",
    "ensure_state",
    "index_problem",
    "refuse_unmoved",
    "retention_problem",
    "topic_exists",
]
