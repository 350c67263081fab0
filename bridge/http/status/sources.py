"""Where the status page's numbers come from: what of a node is looked at."""

from collections.abc import Iterable
from typing import Protocol

from bridge.access.security_store.store import SecurityStore
from bridge.cluster import Cluster
from bridge.config import Settings
from bridge.groups.coordinator import GroupCoordinator
from bridge.groups.lag import LagTable
from bridge.groups.store.store import GroupStore
from bridge.http.server import HttpServer
from bridge.pulsar import PulsarClient
from bridge.requests.api import OtherNodes
from bridge.storage.topics.closed_logs import ClosedLogs
from bridge.storage.topics.topics import Topics
from bridge.telemetry.metrics import Metrics


class Services(Protocol):
    """What the node has of one namespace (`NamespaceServices`)."""

    name: str
    is_own: bool
    topics: Topics
    groups: GroupCoordinator
    store: GroupStore
    lag: LagTable
    closed_logs: ClosedLogs


class ObservedNode(Protocol):
    """The node that the status page is about (`Server`)."""

    settings: Settings
    metrics: Metrics
    client: PulsarClient
    cluster: Cluster | None
    http: HttpServer
    security: SecurityStore

    @property
    def other_nodes(self) -> OtherNodes | None:
        """Who asks the other nodes; None: they cannot be asked."""

    def services(self) -> Iterable[Services]:
        """Of all namespaces that are open."""
