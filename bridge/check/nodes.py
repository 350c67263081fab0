"""What several nodes need of a Pulsar, and what an older version lacks."""

import re
from collections.abc import Mapping
from typing import Any, Final

from bridge.check.facts import is_true
from bridge.check.findings import Finding, Severity
from bridge.check.remedies import broker_conf, create_topics_command, topic_retention_command
from bridge.cluster.topics import HEARTBEATS, VIEW_LOG
from bridge.config import PulsarSettings
from bridge.pulsar import Admin, AdminError
from bridge.pulsar.admin import NotFound
from bridge.pulsar.pb.PulsarApi_pb2 import FeatureFlags

_LIVENESS: Final = "connectionLivenessCheckTimeoutMillis"
_ADVISED_MILLISECONDS: Final = 2000
_SLOW_MILLISECONDS: Final = 10_000
# apache/pulsar#21155 and #21220: a broker asks the holder of a producer's name for a sign of life when another wants it
_FIRST_WITH_LIVENESS: Final = {(2, 10): 6, (2, 11): 3, (3, 0): 2}
_OLDEST_LIVENESS: Final = "2.10.6, 2.11.3, 3.0.2 or newer"
_MEGABYTES_A_DAY: Final = 250 * 86_400 / 1_000_000  # a heartbeat a second
_FEATURES: Final = {
    "supports_topic_watchers": "topics that come and go are not told (PIP-145): they are noticed later",
    "supports_get_partitioned_metadata_without_auto_creation": (
        "asking for a topic may create it (PIP-344): a deleted topic can come back when a producer reconnects"
    ),
}
_NOT_READABLE: Final = "this login may not read the broker's configuration"


def examine_features(server_version: str, features: FeatureFlags) -> Finding:
    """What the broker says of its version, and what it does not have."""
    name = "version"
    version = _version(server_version)
    said = server_version if version is None else ".".join(map(str, version))
    missing = [why for feature, why in _FEATURES.items() if not getattr(features, feature)]
    if missing:
        return Finding(name, Severity.RISK, f"{said}: {'; '.join(missing)}", "upgrade Pulsar")
    return Finding(name, Severity.FIT, said or "not told")


def examine_liveness(runtime: Mapping[str, Any] | None, server_version: str) -> Finding:
    """How soon the broker lets go of what a frozen node holds: by its configuration, else by its version."""
    name = "frozen nodes"
    without = "their producer names are held until keepAliveIntervalSeconds has passed twice"
    if runtime is None:
        if _has_liveness(server_version) is False:
            return Finding(name, Severity.RISK, without, f"upgrade Pulsar to {_OLDEST_LIVENESS}")
        return Finding(name, Severity.UNKNOWN, _NOT_READABLE, _advice())
    if _LIVENESS not in runtime:
        return Finding(name, Severity.RISK, without, f"upgrade Pulsar to {_OLDEST_LIVENESS}")
    milliseconds = int(runtime[_LIVENESS])
    if milliseconds <= 0:
        return Finding(name, Severity.RISK, f"{_LIVENESS} is off: {without}", _advice())
    severity = Severity.FIT if milliseconds <= _SLOW_MILLISECONDS else Severity.RISK
    detail = f"their producer names are free after {milliseconds / 1000:g} s"
    remedy = _advice(milliseconds) if milliseconds > _ADVISED_MILLISECONDS else ""
    return Finding(name, severity, detail, remedy)


async def examine_cluster_topics(
    admin: Admin, pulsar: PulsarSettings, runtime: Mapping[str, Any] | None
) -> list[Finding]:
    """Whether the two topics of a cluster are there, and how long they keep what is written to them."""
    topics = [pulsar.state_topic(name) for name in (VIEW_LOG, HEARTBEATS)]
    name = "cluster topics"
    try:
        present = set(await admin.non_partitioned_topics(pulsar.full_state_namespace))
    except NotFound:
        present = set()  # the first start makes the namespace
    except AdminError as error:
        return [Finding(name, Severity.UNKNOWN, str(error), create_topics_command(topics))]
    missing = [topic for topic in topics if topic not in present]
    if not missing:
        there = Finding(name, Severity.FIT, f"{' and '.join(topics)} are there")
        return [there, await _examine_cluster_retention(admin, topics)]
    detail = "the first start creates them; where this login may not create topics, run once:"
    return [
        Finding(name, Severity.FIT, detail, create_topics_command(missing)),
        _foresee_cluster_retention(runtime, topics),
    ]


async def _examine_cluster_retention(admin: Admin, topics: list[str]) -> Finding:
    name = "cluster retention"
    try:
        kept = [await admin.topic_retention(topic) for topic in topics]
    except AdminError as error:
        return Finding(name, Severity.UNKNOWN, f"{error}; {_cost()}", topic_retention_command(topics))
    if None in kept:
        return Finding(name, Severity.RISK, f"that of the namespace; {_cost()}", topic_retention_command(topics))
    return Finding(name, Severity.FIT, "of their own")


def _foresee_cluster_retention(runtime: Mapping[str, Any] | None, topics: list[str]) -> Finding:
    name = "cluster retention"
    if runtime is None:
        return Finding(name, Severity.UNKNOWN, f"{_NOT_READABLE}; {_cost()}", topic_retention_command(topics))
    if is_true(runtime, "topicLevelPoliciesEnabled") is False or is_true(runtime, "systemTopicEnabled") is False:
        return Finding(name, Severity.RISK, f"that of the namespace, for want of topic policies; {_cost()}")
    return Finding(name, Severity.FIT, "an hour, set at the first start")


def _cost() -> str:
    return f"heartbeats then take {_MEGABYTES_A_DAY:.0f} MB a day and node for as long as the namespace keeps data"


def _advice(milliseconds: int = 5000) -> str:
    sooner = (milliseconds - _ADVISED_MILLISECONDS) / 1000
    setting = broker_conf([f"{_LIVENESS}={_ADVISED_MILLISECONDS}"])
    return f"for idempotent producers of a frozen node to move {sooner:g} s sooner, {setting}"


def _has_liveness(server_version: str) -> bool | None:
    """By the version, where that can be told."""
    version = _version(server_version)
    if version is None:
        return None
    line, patch = version[:2], version[2]
    return patch >= _FIRST_WITH_LIVENESS[line] if line in _FIRST_WITH_LIVENESS else line > (3, 0)


def _version(server_version: str) -> tuple[int, int, int] | None:
    found = re.search(r"(\d+)\.(\d+)\.(\d+)", server_version)
    return None if found is None else (int(found[1]), int(found[2]), int(found[3]))
