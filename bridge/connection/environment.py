"""What surrounds the requests of a connection: what it shares with others, and the connection itself."""

from typing import Protocol

from bridge.connection.parts import Refused
from bridge.connection.requests import LargeRequestThreads
from bridge.connection.throttling import Throttle
from bridge.requests.api import Broker
from bridge.runtime.scheduler import LoopScheduler, LoopShare
from bridge.security.quotas.usage import ClientQuotas


class Environment(Protocol):
    """What the connections of a listener share."""

    broker: Broker
    scheduler: LoopScheduler
    large: LargeRequestThreads
    quotas: ClientQuotas
    throttled: set[Throttle]

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
