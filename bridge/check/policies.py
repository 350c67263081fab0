"""The policies of a namespace that Kafka clients feel: docs/policies.md says how."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bridge.check.findings import Finding, Severity
from bridge.pulsar import Admin, AdminError

_NAME: Final = "policies"
_OFF: Final = ("", "0", "-1", "-1.0", "false", "[]", "0.0")

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Policy:
    """A policy of Pulsar's that may hurt Kafka clients: where its value is, and what it does."""

    name: str
    detail: str
    remedy: str
    """The arguments of `pulsar-admin namespaces`; {} is the namespace."""
    own: str
    """In the namespace's policies."""
    default: str = ""
    """In the broker's configuration, which holds where the namespace has none."""
    severity: Severity = Severity.RISK

    def examine(self, namespace: str, policies: Values, runtime: Values) -> Finding | None:
        """The finding, if the policy is in force."""
        value = policies.get(self.own)
        if value is None or (value is False and self.default):  # Pulsar writes "false" also for "not set"
            value = runtime.get(self.default)
        if value is None or str(value).lower() in _OFF:
            return None
        return Finding(
            self.name,
            self.severity,
            self.detail.format(value),
            "pulsar-admin namespaces " + self.remedy.format(namespace),
        )


_POLICIES: Final = (
    _Policy(
        "max producers", "{} on a topic: each node is one, each idempotent producer of a partition another. "
        "What is above gets KAFKA_STORAGE_ERROR until one leaves", "remove-max-producers-per-topic {}",
        "max_producers_per_topic", "maxProducersPerTopic",
    ),
    _Policy(
        "max consumers", "{} on a topic, with Pulsar's own: each reader of a node is one. Without a place for it, "
        "Fetch gets UNKNOWN_SERVER_ERROR", "remove-max-consumers-per-topic {}",
        "max_consumers_per_topic", "maxConsumersPerTopic",
    ),
    _Policy(
        "max subscriptions", "{} on a topic, with Pulsar's own: each reader of a node is one. Without a place for "
        "it, Fetch gets UNKNOWN_SERVER_ERROR", "remove-max-subscriptions-per-topic {}",
        "max_subscriptions_per_topic", "maxSubscriptionsPerTopic",
    ),
    _Policy(
        "max topics", "{} partitions in the namespace: above it, CreateTopics gets POLICY_VIOLATION",
        "remove-max-topics-per-namespace {}", "max_topics_per_namespace", "maxTopicsPerNamespace",
    ),
    _Policy(
        "encryption", "required: what Kafka clients send is not encrypted, and gets POLICY_VIOLATION",
        "set-encryption-required {} --disable", "encryption_required", severity=Severity.UNFIT,
    ),
    _Policy(
        "schema", "validation is enforced: topics with a schema of Pulsar's take no records of Kafka clients",
        "set-schema-validation-enforce {} --disable", "schema_validation_enforced", "isSchemaValidationEnforced",
    ),
    _Policy(
        "resource group", "{}: its rates are of all topics of its namespaces together, whose clients slow each other "
        "down; each record counts as a message", "remove-resource-group {}", "resource_group_name",
    ),
    _Policy(
        "entry filters", "{}: what they hide, consumers do not get either", "remove-entry-filters {}",
        "entryFilters", "entryFilterNames",
    ),
)  # fmt: skip


async def examine_policies(admin: Admin, namespace: str, runtime: Values | None) -> list[Finding]:
    """A finding for each that hurts; one where none does, or where this login may not look."""
    try:
        policies = await admin.namespace_policies(namespace)
    except AdminError as error:
        return [Finding(_NAME, Severity.UNKNOWN, str(error))]
    known = runtime or {}
    found = [one.examine(namespace, policies, known) for one in _POLICIES]
    found += [look(namespace, policies, known) for look in _LOOKS]
    findings = [one for one in found if one is not None]
    if runtime is None:
        findings.append(Finding(_NAME, Severity.UNKNOWN, "the broker's defaults are not readable"))
    return findings or [Finding(_NAME, Severity.FIT, "none of the namespace hurts; topics may have their own")]


def _clusters(namespace: str, policies: Values, runtime: Values) -> Finding | None:
    clusters, local = policies.get("replication_clusters") or [], runtime.get("clusterName")
    if local is None or not clusters or local in clusters:
        return None
    remedy = f"pulsar-admin namespaces set-clusters {namespace} --clusters {','.join([local, *clusters])}"
    return Finding("clusters", Severity.UNFIT, f"{', '.join(clusters)}: {local} serves no topic of it", remedy)


def _subscription_types(namespace: str, policies: Values, runtime: Values) -> Finding | None:
    types = policies.get("subscription_types_enabled") or []
    if not types or "Exclusive" in types:
        return None
    detail = f"{', '.join(types)}: without Exclusive nothing can be read"
    remedy = f"pulsar-admin namespaces remove-subscription-types-enabled {namespace}"
    return Finding("subscription types", Severity.UNFIT, detail, remedy)


def _backlog_quota(namespace: str, policies: Values, runtime: Values) -> Finding | None:
    quotas = policies.get("backlog_quota_map") or {}
    if not quotas:
        return None
    said = ", ".join(f"{kind}: {quota.get('policy')}" for kind, quota in quotas.items())
    detail = (
        f"{said}. What deduplication has not noted yet counts as backlog: above the quota producers get "
        "KAFKA_STORAGE_ERROR for minutes, though all is read; eviction may let repetitions be stored twice"
    )
    remedy = "   ".join(f"pulsar-admin namespaces remove-backlog-quota {namespace} --type {kind}" for kind in quotas)
    return Finding("backlog quota", Severity.RISK, detail, remedy)


def _rates(namespace: str, policies: Values, runtime: Values) -> Finding | None:
    """Rates are kept for each cluster; 0 and -1 are none."""
    limited = {
        "publish": [_largest(one, "publishThrottlingRateIn") for one in _of(policies, "publishMaxMessageRate")],
        "dispatch": [_largest(one, "dispatchThrottlingRateIn") for one in _of(policies, "topicDispatchRate")],
    }
    kinds = [kind for kind, rates in limited.items() if max(rates, default=0) > 0]
    if not kinds:
        return None
    detail = f"{' and '.join(kinds)}: clients are slowed down, and each record counts as a message"
    remedy = "   ".join(f"pulsar-admin namespaces remove-{kind}-rate {namespace}" for kind in kinds)
    return Finding("rates", Severity.RISK, detail, remedy)


def _of(policies: Values, name: str) -> list[Values]:
    return [one for one in (policies.get(name) or {}).values() if isinstance(one, dict)]


def _largest(rate: Values, prefix: str) -> int:
    return max(int(rate.get(f"{prefix}{unit}") or 0) for unit in ("Msg", "Byte"))


_LOOKS: Final[tuple[Callable[[str, Values, Values], Finding | None], ...]] = (
    _clusters, _subscription_types, _backlog_quota, _rates,
)  # fmt: skip
