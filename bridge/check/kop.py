"""What Kafka-on-Pulsar has left, and whether it still runs: what `bridge check` tells before the first start."""

from typing import Final

from bridge.check.findings import Finding, Severity
from bridge.config import PulsarSettings
from bridge.pulsar import Admin, AdminError
from bridge.runtime.futures import gathered

_OFFSETS: Final = "__consumer_offsets"
_TRANSACTIONS: Final = "__transaction_state"
_NAME: Final = "KoP"
_STOP: Final = "take kafka out of messagingProtocols in broker.conf, and restart the brokers one by one"
_IMPORT: Final = "bridge import kop --bootstrap HOST:PORT --metadata-namespace {} --dry-run"


async def examine_kop(admin: Admin, pulsar: PulsarSettings) -> list[Finding]:
    """Of the namespaces in which KoP keeps its own topics; nothing where there are none, or where one may not look."""
    namespaces = dict.fromkeys((f"{pulsar.tenant}/__kafka", "public/__kafka"))
    return [finding for namespace in namespaces for finding in await _examine(admin, namespace)]


async def _examine(admin: Admin, namespace: str) -> list[Finding]:
    try:
        own = {topic.rpartition("/")[2]: topic for topic in await admin.partitioned_topics(namespace)}
        if _OFFSETS not in own:
            return []
        attached = await _attached(admin, own[_OFFSETS])
    except AdminError:
        return []
    findings = []
    if attached:
        detail = f"it runs: {attached} of its producers and readers are on {_OFFSETS} of {namespace}. Each of the two "
        detail += "coordinates groups without the other, so one stays stopped while the other serves"
        findings.append(Finding(_NAME, Severity.RISK, detail, _STOP))
    detail = f"groups have committed in {namespace}; the bridge knows what was imported of it"
    findings.append(Finding(_NAME, Severity.RISK, detail, _IMPORT.format(namespace)))
    if _TRANSACTIONS in own:
        detail = (
            f"there were transactions ({namespace}): records that KoP aborted are read as if they had been committed"
        )
        findings.append(Finding(_NAME, Severity.RISK, detail))
    return findings


async def _attached(admin: Admin, topic: str) -> int:
    """How many producers and consumers a partitioned topic has."""
    count = (await admin.partitioned_metadata(topic)).partitions
    return sum(await gathered(admin.clients(f"{topic}-partition-{number}") for number in range(count)))
