"""Pulsar's admin REST interface: what the binary protocol cannot say about topics, namespaces and brokers."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from bridge.config import PulsarSettings
from bridge.pulsar.admin.rest import (
    NO_RESPONSE,
    AdminError,
    Conflict,
    Forbidden,
    NotFound,
    RestClient,
    path_of,
    topic_path,
)
from bridge.pulsar.auth import Access
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import Position

__all__ = [
    "Admin",
    "AdminError",
    "CompactionStatus",
    "Conflict",
    "Forbidden",
    "InternalStats",
    "LedgerInfo",
    "NotFound",
    "PartitionedMetadata",
    "Retention",
]

_PARTITIONED_MARK: Final = "application/vnd.partitioned-topic-metadata+json"


@dataclass(frozen=True, slots=True)
class PartitionedMetadata:
    """What a partitioned topic is; 0 partitions = it is none."""

    partitions: int
    properties: dict[str, str]


@dataclass(frozen=True, slots=True)
class Retention:
    """How long and how much is kept of acknowledged or unsubscribed data; -1 = without limit, 0 = nothing."""

    minutes: int
    megabytes: int


@dataclass(frozen=True, slots=True)
class LedgerInfo:
    """One ledger of a topic; the open one shows what it holds at the moment of asking."""

    ledger_id: int
    entries: int
    size: int
    offloaded: bool


@dataclass(frozen=True, slots=True)
class InternalStats:
    """How a topic's managed ledger stands. Entries of ledgers trimmed away are gone from the list."""

    ledgers: list[LedgerInfo]
    last_confirmed: Position
    entries_added: int
    total_size: int
    cursors: dict[str, dict[str, Any]]
    compacted_ledger: int
    """Where compacted reads come from: each compaction makes another one; -1 before the first."""
    compacted_entries: int = 0


@dataclass(frozen=True, slots=True)
class CompactionStatus:
    """NOT_RUN since the broker loaded the topic, RUNNING, SUCCESS, or ERROR and the reason."""

    status: str
    error: str


class Admin(RestClient):
    """What the admin interface offers, operation by operation."""

    def __init__(self, settings: PulsarSettings, access: Access | None = None) -> None:
        super().__init__(settings, access)
        self._access.hosts.ask_brokers = self.broker_hosts

    # --- topics ---------------------------------------------------------------------------------------------------

    async def partitioned_topics(self, namespace: str) -> list[str]:
        """Full names of the namespace's partitioned topics."""
        return _names(await self.get(f"persistent/{path_of(namespace)}/partitioned"))

    async def non_partitioned_topics(self, namespace: str) -> list[str]:
        """Full names of the namespace's topics that hold data: each partition is one."""
        return _names(await self.get(f"persistent/{path_of(namespace)}"))

    async def create_partitioned(
        self, topic: str, partitions: int, properties: Mapping[str, str] | None = None
    ) -> None:
        """Create a partitioned topic; Conflict when it exists, partitioned or not."""
        # The media type decides whether the body is a bare count or an object with properties.
        body = json.dumps({"partitions": partitions, "properties": dict(properties or {})})
        await self.call("PUT", f"{topic_path(topic)}/partitions", body=body, content_type=_PARTITIONED_MARK)

    async def create_non_partitioned(self, topic: str) -> None:
        """Create a topic without partitions; Conflict when it exists."""
        await self.call("PUT", topic_path(topic), body="{}")

    async def update_partitions(self, topic: str, partitions: int) -> None:
        """Give a partitioned topic more partitions (never fewer); the new ones exist when this returns."""
        await self.call("POST", f"{topic_path(topic)}/partitions", body=json.dumps(partitions))

    async def delete_partitioned(self, topic: str, *, force: bool = True) -> None:
        """Delete a partitioned topic and its partitions; force: although clients are connected."""
        await self.call("DELETE", f"{topic_path(topic)}/partitions", query={"force": _bool(force)})

    async def delete_non_partitioned(self, topic: str, *, force: bool = True) -> None:
        """Delete a topic without partitions; force: although clients are connected."""
        await self.call("DELETE", topic_path(topic), query={"force": _bool(force)})

    async def partitioned_metadata(self, topic: str) -> PartitionedMetadata:
        """How many partitions, with the topic's properties. Asking never creates the topic."""
        query = {"authoritative": "false", "checkAllowAutoCreation": "false"}
        found = _object(await self.call("GET", f"{topic_path(topic)}/partitions", query=query))
        with _understood():
            return PartitionedMetadata(int(found.get("partitions", 0)), dict(found.get("properties") or {}))

    async def topic_properties(self, topic: str) -> dict[str, str]:
        """The properties given at creation or updated since."""
        return dict(_object(await self.get(f"{topic_path(topic)}/properties")))

    async def update_topic_properties(self, topic: str, properties: Mapping[str, str]) -> None:
        """Add or replace these properties; others stay."""
        await self.call("PUT", f"{topic_path(topic)}/properties", body=json.dumps(dict(properties)))

    async def remove_topic_property(self, topic: str, key: str) -> None:
        """Remove one property, if it is there; others stay."""
        await self.call("DELETE", f"{topic_path(topic)}/properties", query={"key": key})

    async def internal_stats(self, topic: str) -> InternalStats:
        """Ledgers, last entry and cursors of a topic or one partition."""
        stats = _object(await self.get(f"{topic_path(topic)}/internalStats"))
        with _understood():
            compacted = stats.get("compactedLedger") or {}
            return InternalStats(
                ledgers=_ledgers(stats),
                last_confirmed=_position(str(stats.get("lastConfirmedEntry", "-1:-1"))),
                entries_added=int(stats.get("entriesAddedCounter", 0)),
                total_size=int(stats.get("totalSize", 0)),
                cursors=dict(stats.get("cursors") or {}),
                compacted_ledger=int(compacted.get("ledgerId", -1)),
                compacted_entries=int(compacted.get("entries", 0)),
            )

    async def subscriptions(self, topic: str) -> dict[str, dict[str, str]]:
        """The subscriptions of a topic that is no partitioned one, or of one partition, each with its properties."""
        stats = _object(await self.get(f"{topic_path(topic)}/stats"))
        with _understood():
            found = stats.get("subscriptions") or {}
            return {name: dict(one.get("subscriptionProperties") or {}) for name, one in found.items()}

    async def producers(self, topic: str) -> list[str]:
        """The names of the producers that a topic has now."""
        stats = _object(await self.get(f"{topic_path(topic)}/stats"))
        with _understood():
            return [str(one.get("producerName")) for one in stats.get("publishers") or []]

    async def clients(self, topic: str) -> int:
        """How many producers and consumers, readers among them, a topic has now."""
        stats = _object(await self.get(f"{topic_path(topic)}/stats"))
        with _understood():
            consumers = [len(one.get("consumers") or ()) for one in (stats.get("subscriptions") or {}).values()]
            return len(stats.get("publishers") or ()) + sum(consumers)

    async def is_terminated(self, topic: str) -> bool:
        """Whether Pulsar takes no more entries for a topic that is no partitioned one, or for one partition."""
        return bool(_object(await self.get(f"{topic_path(topic)}/internalStats")).get("state") == "Terminated")

    async def acknowledged(self, topic: str, subscription: str) -> Position | None:
        """Up to where a subscription has acknowledged everything; None: there is none of that name."""
        cursor = (await self.internal_stats(topic)).cursors.get(subscription)
        with _understood():
            return None if cursor is None else _position(str(cursor["markDeletePosition"]))

    async def internal_info(self, topic: str) -> dict[str, Any]:
        """The managed ledger's stored metadata: closed ledgers, cursors, properties (refreshed at roll-over only)."""
        # Answered as text/plain in some versions.
        return _object(await self.get(f"{topic_path(topic)}/internal-info"))

    async def ledgers(self, topic: str) -> list[LedgerInfo]:
        """The topic's ledgers, oldest first, the open one with its present count."""
        return (await self.internal_stats(topic)).ledgers

    async def marker_index(self, topic: str, position: Position) -> int | None:
        """The index of an entry that the broker keeps from readers; None for one that they get."""
        headers = await self._entry_headers(topic, position)
        return _index_in(headers) if "x-pulsar-marker-type" in headers else None

    async def index(self, topic: str, position: Position) -> int:
        """The index of an entry, -1 where it has none."""
        return _index_in(await self._entry_headers(topic, position))

    async def transaction_end(self, topic: str, position: Position) -> tuple[int, int, int] | None:
        """Of an entry that ends a transaction: the halves of the transaction's id, and the marker's type."""
        headers = await self._entry_headers(topic, position)
        names = ("marker-type", "txnid-most-bits", "txnid-least-bits")
        with _understood():
            kind, most, least = (int(headers.get(f"x-pulsar-{name}", -1)) for name in names)
        return (most, least, kind) if kind in (pb.TXN_COMMIT, pb.TXN_ABORT) else None

    async def _entry_headers(self, topic: str, position: Position) -> Mapping[str, str]:
        return await self.headers(f"{topic_path(topic)}/ledger/{position.ledger}/entry/{position.entry}")

    async def partition_sizes(self, topic: str) -> dict[str, int]:
        """The stored bytes of each partition, by its full name."""
        query = {"perPartition": "true", "getPreciseBacklog": "false", "subscriptionBacklogSize": "false"}
        stats = _object(await self.call("GET", f"{topic_path(topic)}/partitioned-stats", query=query))
        with _understood():
            return {name: int(one.get("storageSize", 0)) for name, one in (stats.get("partitions") or {}).items()}

    async def trim(self, topic: str) -> None:
        """Delete at once, in the background, the closed ledgers that neither retention nor a subscription keeps."""
        await self.call("POST", f"{topic_path(topic)}/trim")

    async def unload(self, topic: str) -> None:
        """Have the owning broker let go of the topic; clients find it again by lookup."""
        await self.call("PUT", f"{topic_path(topic)}/unload")

    async def terminate(self, topic: str) -> None:
        """Allow no more entries; readers are told when they reach the end."""
        await self.call("POST", f"{topic_path(topic)}/terminate")

    async def compact(self, topic: str) -> None:
        """Begin to compact the topic (or one partition); Conflict while it is being compacted."""
        await self.call("PUT", f"{topic_path(topic)}/compaction")

    async def compaction_status(self, topic: str) -> CompactionStatus:
        """How the latest compaction went."""
        status = _object(await self.get(f"{topic_path(topic)}/compaction"))
        return CompactionStatus(str(status.get("status", "")), str(status.get("lastError") or ""))

    # --- policies -------------------------------------------------------------------------------------------------

    async def namespace_policies(self, namespace: str) -> dict[str, Any]:
        """Every policy of the namespace as Pulsar writes them."""
        return _object(await self.get(f"namespaces/{path_of(namespace)}"))

    async def namespace_retention(self, namespace: str) -> Retention | None:
        """The namespace's own retention; None = the broker's default applies."""
        return _retention(await self.get(f"namespaces/{path_of(namespace)}/retention"))

    async def namespace_ack_quorum(self, namespace: str) -> int | None:
        """How many bookies acknowledge an entry by the namespace's own policy; None = the broker's default applies."""
        quorum = _object(await self.get(f"namespaces/{path_of(namespace)}/persistence")).get("bookkeeperAckQuorum")
        with _understood():
            return None if quorum is None else int(quorum)

    async def set_namespace_retention(self, namespace: str, retention: Retention) -> None:
        """Set the namespace's retention."""
        await self.call("POST", f"namespaces/{path_of(namespace)}/retention", body=_retention_body(retention))

    async def topic_policy(self, topic: str, name: str) -> Any:
        """A policy of the topic's own, None if it has none."""
        return await self.call("GET", f"{topic_path(topic)}/{name}", query={"applied": "false"})

    async def set_topic_policy(self, topic: str, name: str, value: object) -> None:
        """Set a policy for one topic, None removes it (needs topic policies on the broker)."""
        if value is None:
            await self.call("DELETE", f"{topic_path(topic)}/{name}")
        else:
            await self.call("POST", f"{topic_path(topic)}/{name}", body=json.dumps(value))

    async def topic_retention(self, topic: str) -> Retention | None:
        """The topic's own retention; None = the namespace's applies."""
        return _retention(await self.get(f"{topic_path(topic)}/retention"))

    async def set_topic_retention(self, topic: str, retention: Retention) -> None:
        """Set the topic's own retention (needs topic policies on the broker)."""
        await self.call("POST", f"{topic_path(topic)}/retention", body=_retention_body(retention))

    async def keep_inactive_topics(self, namespace: str) -> None:
        """Let the broker delete no unused topic of the namespace."""
        body = {
            "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
            "maxInactiveDurationSeconds": 3600,
            "deleteWhileInactive": False,
        }
        await self.call("POST", f"namespaces/{path_of(namespace)}/inactiveTopicPolicies", body=json.dumps(body))

    async def namespace_deduplication(self, namespace: str) -> bool | None:
        """The namespace's own setting; None = the broker's default applies."""
        return _flag(await self.get(f"namespaces/{path_of(namespace)}/deduplication"))

    async def set_namespace_deduplication(self, namespace: str, enabled: bool) -> None:
        """Turn deduplication on or off for the namespace."""
        await self.call("POST", f"namespaces/{path_of(namespace)}/deduplication", body=_bool(enabled))

    async def topic_deduplication(self, topic: str) -> bool | None:
        """The topic's own setting; None = the namespace's applies."""
        return _flag(await self.get(f"{topic_path(topic)}/deduplicationEnabled"))

    async def set_topic_deduplication(self, topic: str, enabled: bool) -> None:
        """Turn deduplication on or off for one topic (needs topic policies on the broker)."""
        await self.call("POST", f"{topic_path(topic)}/deduplicationEnabled", body=_bool(enabled))

    async def deduplication_status(self, topic: str) -> str:
        """What the topic's broker does about it at present: "Enabled", "Disabled", or on the way from one to the other.

        Of a topic that is no partitioned one, or of one partition.
        """
        return str(_object(await self.get(f"{topic_path(topic)}/stats")).get("deduplicationStatus"))

    # --- brokers --------------------------------------------------------------------------------------------------

    async def create_namespace(self, namespace: str, policies: Mapping[str, object] | None = None) -> None:
        """Create the namespace, with these policies from its first moment on; Conflict when it exists."""
        body = None if policies is None else json.dumps(policies)
        await self.call("PUT", f"namespaces/{path_of(namespace)}", body=body)

    async def tenants(self) -> list[str]:
        """All tenants (for super-users only)."""
        return _names(await self.get("tenants"))

    async def namespaces(self, tenant: str) -> list[str]:
        """The tenant's namespaces, as `tenant/namespace`."""
        return _names(await self.get(f"namespaces/{path_of(tenant)}"))

    async def tenant_admins(self, tenant: str) -> list[str]:
        """The roles that may do everything in the tenant's namespaces."""
        return _names(_object(await self.get(f"tenants/{path_of(tenant)}")).get("adminRoles"))

    async def broker_hosts(self) -> list[str] | None:
        """The hosts of the brokers that are alive; None: that is not told us (only to super-users, in Pulsar 4)."""
        try:
            brokers = _names(await self.get("brokers"))
        except AdminError:
            return None
        return [broker.rpartition(":")[0].strip("[]") for broker in brokers]

    async def clusters(self) -> list[str]:
        """The clusters of this instance."""
        return _names(await self.get("clusters"))

    async def runtime_config(self) -> dict[str, Any]:
        """The answering broker's configuration (its super-users only, where authorization is on)."""
        return _object(await self.get("brokers/configuration/runtime"))

    async def brokers_health(self) -> None:
        """Return when the broker says it is healthy; AdminError otherwise."""
        answer = await self.get("brokers/health")
        if answer != "ok":
            raise AdminError(200, f"brokers/health answered {answer!r}")


@contextmanager
def _understood() -> Iterator[None]:
    """What is read inside is as Pulsar writes it; AdminError otherwise."""
    try:
        yield
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise AdminError(NO_RESPONSE, f"not as Pulsar answers: {str(error)[:200]}") from error


def _index_in(headers: Mapping[str, str]) -> int:
    with _understood():
        return int(headers.get("x-pulsar-broker-entry-metadata-index", -1))


def _object(answer: Any) -> dict[str, Any]:
    if answer is None:
        return {}
    if not isinstance(answer, dict):
        raise AdminError(NO_RESPONSE, f"expected an object, got {str(answer)[:200]!r}")
    return answer


def _names(answer: Any) -> list[str]:
    if answer is None:
        return []
    if not isinstance(answer, list):
        raise AdminError(NO_RESPONSE, f"expected a list, got {str(answer)[:200]!r}")
    return [str(name) for name in answer]


def _flag(answer: Any) -> bool | None:
    return answer if isinstance(answer, bool) else None


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _retention(answer: Any) -> Retention | None:
    found = _object(answer)
    if not found:
        return None
    with _understood():
        return Retention(int(found["retentionTimeInMinutes"]), int(found["retentionSizeInMB"]))


def _retention_body(retention: Retention) -> str:
    return json.dumps({"retentionTimeInMinutes": retention.minutes, "retentionSizeInMB": retention.megabytes})


def _position(text: str) -> Position:
    ledger, _, entry = text.partition(":")
    return Position(int(ledger), int(entry))


def _ledgers(stats: Mapping[str, Any]) -> list[LedgerInfo]:
    """The last ledger is open: its own record says 0 entries until it is closed."""
    found = [
        LedgerInfo(int(one["ledgerId"]), int(one["entries"]), int(one["size"]), bool(one.get("offloaded", False)))
        for one in stats.get("ledgers") or []
    ]
    if found and found[-1].entries == 0:
        entries, size = int(stats.get("currentLedgerEntries", 0)), int(stats.get("currentLedgerSize", 0))
        found[-1] = LedgerInfo(found[-1].ledger_id, entries, size, found[-1].offloaded)
    return found
