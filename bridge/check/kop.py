"""What Kafka-on-Pulsar has left, what of it is served, and whether it still runs: what `bridge check` tells before the
first start.
"""

from typing import Final

from bridge.check.findings import Finding, Severity
from bridge.config import PulsarSettings
from bridge.pulsar import Admin, AdminError
from bridge.runtime.futures import gathered
from bridge.storage.names import is_partition, is_shown

_OFFSETS: Final = "__consumer_offsets"
_TRANSACTIONS: Final = "__transaction_state"
_OWN: Final = (_OFFSETS, _TRANSACTIONS)
_SCHEMAS: Final = "__schema-registry"
_NAME: Final = "KoP"
_STOP: Final = "take kafka out of messagingProtocols in broker.conf, and restart the brokers one by one"
_IMPORT: Final = "bridge import kop --bootstrap HOST:PORT --metadata-namespace {} --dry-run"
_MOST_NAMED: Final = 5


async def examine_kop(admin: Admin, pulsar: PulsarSettings) -> list[Finding]:
    """Of the namespaces in which KoP keeps its own topics; nothing where there are none, or where one may not look."""
    namespaces = dict.fromkeys((f"{pulsar.tenant}/__kafka", "public/__kafka"))
    findings = [finding for namespace in namespaces for finding in await _examine(admin, namespace)]
    if findings:
        findings += await _examine_topics(admin, pulsar.full_namespace)
        for tenant in dict.fromkeys((pulsar.tenant, "public")):
            findings += await _examine_schemas(admin, f"{tenant}/__kafka_schemaregistry")
    return findings


async def _examine(admin: Admin, namespace: str) -> list[Finding]:
    try:
        own = {topic.rpartition("/")[2] for topic in await admin.partitioned_topics(namespace)}
        if _OFFSETS not in own:
            return []
        running = await attached(admin, namespace)
    except AdminError:
        return []
    findings = []
    if running:
        detail = (
            f"it runs: {running} of its producers and readers are on its topics in {namespace}. Records of both have "
            "their offsets of the broker, but each of the two coordinates groups and transactions without the other: "
            "groups with members at both read everything twice, and what one has aborted the other shows. So one stays "
            "stopped while the other serves"
        )
        findings.append(Finding(_NAME, Severity.UNFIT, detail, _STOP))
    detail = f"groups have committed in {namespace}; the bridge knows what was imported of it"
    findings.append(Finding(_NAME, Severity.RISK, detail, _IMPORT.format(namespace)))
    if _TRANSACTIONS in own:
        detail = (
            f"there were transactions ({namespace}): records that KoP aborted are read as if they had been committed, "
            "until it is imported which they are"
        )
        findings.append(Finding(_NAME, Severity.RISK, detail, _IMPORT.format(namespace) + " --what transactions"))
    return findings


async def _examine_topics(admin: Admin, namespace: str) -> list[Finding]:
    """Which of the namespace's topics Kafka clients will see, whoever made them."""
    try:
        partitioned, stored = await admin.partitioned_topics(namespace), await admin.non_partitioned_topics(namespace)
    except AdminError:
        return []
    every = {topic.rpartition("/")[2] for topic in (*partitioned, *(one for one in stored if not is_partition(one)))}
    served = {name for name in every if is_shown(name)}
    hidden = sorted(name for name in every - served if not name.startswith("__"))
    findings = []
    if served:
        detail = f"{len(served)} topics of {namespace} are served, with the records, ids and offsets that they have"
        findings.append(Finding("KoP topics", Severity.FIT, detail))
    if hidden:
        more = f" and {len(hidden) - _MOST_NAMED} more" if len(hidden) > _MOST_NAMED else ""
        detail = f"not served, as Kafka has no such names: {', '.join(hidden[:_MOST_NAMED])}{more}"
        findings.append(Finding("KoP topics", Severity.RISK, detail))
    return findings


async def _examine_schemas(admin: Admin, namespace: str) -> list[Finding]:
    try:
        topics = await admin.non_partitioned_topics(namespace)
    except AdminError:
        return []
    if all(topic.rpartition("/")[2] != _SCHEMAS for topic in topics):
        return []
    detail = (
        f"the schema registry of KoP ({namespace}) is not served: run one beside Pulsar, and give it the schemas "
        "with their numbers"
    )
    return [Finding(_NAME, Severity.RISK, detail)]


async def attached(admin: Admin, namespace: str) -> int:
    """How many producers and consumers KoP's own topics have; AdminError."""
    own = [topic for topic in await admin.partitioned_topics(namespace) if topic.rpartition("/")[2] in _OWN]
    return sum(await gathered(_attached(admin, topic) for topic in own))


async def _attached(admin: Admin, topic: str) -> int:
    """How many producers and consumers a partitioned topic has."""
    count = (await admin.partitioned_metadata(topic)).partitions
    return sum(await gathered(admin.clients(f"{topic}-partition-{number}") for number in range(count)))
