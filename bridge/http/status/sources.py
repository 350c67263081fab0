"""Where the status page's numbers come from: what of a node is looked at."""

from collections.abc import Iterable
from typing import Protocol

from bridge.cluster import Cluster
from bridge.config import Settings
from bridge.groups.coordinator import GroupCoordinator
from bridge.groups.lag import LagTable
from bridge.groups.store.store import GroupStore
from bridge.http.server import HttpServer
from bridge.pulsar import PulsarClient
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


class ObservedNode(Protocol):
    """The node that the status page is about (`Server`)."""

    settings: Settings
    metrics: Metrics
    client: PulsarClient
    cluster: Cluster | None
    http: HttpServer

    def services(self) -> Iterable[Services]:
        """Of all namespaces that are open."""
