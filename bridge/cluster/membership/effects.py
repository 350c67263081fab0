"""What the membership state machine wants done, and tells."""

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import TypeAlias

from bridge.cluster.membership.records import Challenge, Heartbeat, Tick, ViewDifference, WholeView
from bridge.cluster.membership.view import ClusterView


class ProbeResult(Enum):
    """Pulsar's answer when the name of a node's producer is opened."""

    FREE = "free"
    """Its connection is gone."""
    BUSY = "busy"
    """Its connection is there, and its event loop has answered the broker."""


class MembershipState(StrEnum):
    """What a node is in its cluster."""

    STARTING = "Starting"
    JOINING = "Joining"
    MEMBER = "Member"
    CONTROLLER = "Controller"
    ENDED = "Ended"


class Serving(StrEnum):
    """How requests are met for the partitions that this node leads."""

    SERVE = "serve"
    HOLD = "hold"
    """It did not run for a while and does not know yet whether it still leads."""
    REFUSE = "refuse"
    """It is not a member, or cut off from Pulsar."""


@dataclass(frozen=True, slots=True)
class SendHeartbeat:
    """Send this to the heartbeat topic; `heartbeat_stored` takes the receipt."""

    heartbeat: Heartbeat


@dataclass(frozen=True, slots=True)
class Append:
    """Append this to the view log, or call `append_failed` if that cannot be: after a reconnect it is sent again."""

    record: WholeView | ViewDifference | Tick | Challenge


@dataclass(frozen=True, slots=True)
class Probe:
    """Open the name of this node's producer, and let go of it at once; `probe_answered` takes what comes of it."""

    name: str


@dataclass(frozen=True, slots=True)
class AskPulsar:
    """Ask any broker anything; `pulsar_answered` takes that there was an answer."""


@dataclass(frozen=True, slots=True)
class WatchHeartbeats:
    """Read the heartbeat topic from its end on, or stop."""

    on: bool


@dataclass(frozen=True, slots=True)
class ReadLogFrom:
    """The view log has no beginning that this node could read: `ViewLog.start_at` this tick, and read on from there."""

    tick: Tick


@dataclass(frozen=True, slots=True)
class ViewChanged:
    """The node goes by a new view from now on."""

    before: ClusterView
    after: ClusterView
    reason: str


@dataclass(frozen=True, slots=True)
class ServingChanged:
    """Requests are met in another way from now on."""

    serving: Serving
    reason: str
    """What is wrong with the contact to Pulsar; empty where nothing is."""

    @property
    def cause(self) -> str:
        """Why, for people."""
        if self.serving is Serving.REFUSE:
            return self.reason or "this node is not a member, or has left"
        return self.reason or "all is known again"


@dataclass(frozen=True, slots=True)
class HandedOver:
    """This node, which leaves, leads nothing any more, or has waited long enough: its sockets can be closed."""


@dataclass(frozen=True, slots=True)
class Left:
    """The others know that this node is gone: the process can end."""


@dataclass(frozen=True, slots=True)
class NameInUse:
    """Another process has this node's name: this one must not start."""

    holder: str


@dataclass(frozen=True, slots=True)
class Replaced:
    """A later process with this node's name is a member: this one must end."""

    incarnation: int


@dataclass(frozen=True, slots=True)
class NodeRefused:
    """A node is refused as a member, and is told why."""

    name: str
    reason: str


Effect: TypeAlias = (
    SendHeartbeat
    | Append
    | Probe
    | AskPulsar
    | WatchHeartbeats
    | ReadLogFrom
    | ViewChanged
    | ServingChanged
    | HandedOver
    | Left
    | NameInUse
    | Replaced
    | NodeRefused
)
