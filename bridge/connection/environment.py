"""What surrounds the requests of a connection: what it shares with others, and the connection itself."""

from typing import Protocol

from bridge.connection.parts import Refused
from bridge.connection.requests import LargeRequestThreads
from bridge.connection.throttling import Throttle
from bridge.requests.api import Broker
from bridge.runtime.scheduler import LoopScheduler, LoopShare
from bridge.security.quotas.usage import ClientQuotas
from bridge.security.tenants import Tenants


class TenantNamespaces(Protocol):
    """The namespaces that the connections of a listener may lead to."""

    rules: Tenants

    async def for_clients(self, namespace: str, *, administers: bool) -> Broker:
        """What requests of this namespace's clients are handled with; NamespaceUnavailable. `administers`: whether they
        may ask for what is the whole cluster's."""

    async def for_nodes(self, namespace: str) -> Broker:
        """What requests that other nodes pass on are handled with; NamespaceUnavailable, also where no client works."""


class Environment(Protocol):
    """What the connections of a listener share."""

    broker: Broker
    scheduler: LoopScheduler
    large: LargeRequestThreads
    quotas: ClientQuotas
    throttled: set[Throttle]
    namespaces: TenantNamespaces | None
    """None: the clients of this listener have the bridge's own."""

    def stranger_share(self, host: str) -> LoopShare:
        """What the connections of an address share of the event loop until they have logged in."""


class Connection(Protocol):
    """The connection that a runner's requests belong to."""

    def wake(self) -> None:
        """Something has changed: do whatever has become possible."""

    def progressed(self) -> None:
        """A request has begun or is answered: do what has become possible by that."""

    def throttled_no_more(self) -> None:
        """The client has waited for its quota."""

    def refuse(self, refused: Refused) -> None:
        """Close for what the client has sent."""

    def close(self) -> None:
        """Close after what is written has gone out."""

    def close_soon(self) -> None:
        """Let the client hang up first, for a moment."""

    def abort(self) -> None:
        """Close at once."""

    def log_fields(self, **fields: object) -> dict[str, object]:
        """These fields and those that name the connection."""
