"""The values that pass between the Pulsar client and its users."""

from dataclasses import dataclass
from enum import Enum, IntEnum, auto
from typing import Final

from bridge.errors import BridgeError
from bridge.pulsar.pb import PulsarApi_pb2 as pb

_SIGN: Final = 1 << 63
_WRAP: Final = 1 << 64


def signed(value: int) -> int:
    """A Java long that travelled as an unsigned 64-bit field."""
    return value - _WRAP if value >= _SIGN else value


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """Where an entry lies: its ledger and its number in it, as Java's signed longs."""

    ledger: int
    entry: int

    @classmethod
    def of(cls, message_id: pb.MessageIdData) -> "Position":
        """The entry a message id points into."""
        return cls(signed(message_id.ledger_id), signed(message_id.entry_id))

    @property
    def before(self) -> "Position":
        """The place just before this entry: what was read when this entry comes next."""
        return Position(self.ledger, self.entry - 1)

    @property
    def after(self) -> "Position":
        """The place just after this entry; past a ledger's end it stands for the next ledger's first."""
        return Position(self.ledger, self.entry + 1)

    def __str__(self) -> str:
        return f"{self.ledger}:{self.entry}"


EARLIEST: Final = Position(-1, -1)
LATEST: Final = Position(_SIGN - 1, _SIGN - 1)


class AccessMode(IntEnum):
    """Which other producers a topic may have (PIP-68)."""

    SHARED = pb.Shared
    EXCLUSIVE = pb.Exclusive
    WAIT_FOR_EXCLUSIVE = pb.WaitForExclusive
    EXCLUSIVE_WITH_FENCING = pb.ExclusiveWithFencing


class SubscriptionType(IntEnum):
    """How a subscription's entries are shared among its consumers."""

    EXCLUSIVE = pb.CommandSubscribe.Exclusive
    SHARED = pb.CommandSubscribe.Shared
    FAILOVER = pb.CommandSubscribe.Failover
    KEY_SHARED = pb.CommandSubscribe.Key_Shared

    @property
    def acknowledges_individually(self) -> bool:
        """Whether several consumers get entries at a time, so that none can acknowledge for the others."""
        return self in (SubscriptionType.SHARED, SubscriptionType.KEY_SHARED)


@dataclass(slots=True)
class Receipt:
    """Proof that an entry is stored. `duplicate`: deduplication is_cancelled it, an earlier send of it is stored."""

    position: Position
    sequence_id: int
    highest_sequence_id: int
    duplicate: bool


@dataclass(slots=True)
class Entry:
    """One stored entry as the broker sent it; the payload is still compressed."""

    position: Position
    index: int | None  # of the entry's last message; None when the broker does not expose it
    broker_timestamp: int | None
    metadata: pb.MessageMetadata
    payload: memoryview
    size: int  # bytes on the wire


@dataclass(slots=True)
class ConsumedEntry(Entry):
    """An entry as a consumer gets it."""

    redelivery_count: int  # counted by the broker for SHARED and KEY_SHARED
    ack_set: tuple[int, ...]  # of a batch acknowledged in part: see `bridge.pulsar.consumer.ack_sets`


# Trying again with a fresh lookup cannot help these; all others may be a matter of time.
_PERMANENT: Final = frozenset(
    {
        pb.AuthenticationError,
        pb.AuthorizationError,
        pb.UnsupportedVersionError,
        pb.TopicNotFound,
        pb.SubscriptionNotFound,
        pb.TopicTerminatedError,
        pb.InvalidTopicName,
        pb.IncompatibleSchema,
        pb.ConsumerAssignError,
        pb.NotAllowedError,
        pb.ProducerFenced,
        # it lasts until records are read, or the quota is raised: who sends is told, and has nothing to wait for
        pb.ProducerBlockedQuotaExceededError,
        pb.ProducerBlockedQuotaExceededException,
    }
)


class Refusal(Enum):
    """A policy of the topic or namespace for which a broker refuses."""

    LIMIT = auto()
    """There are as many producers, consumers or subscriptions as may be."""
    ENCRYPTION = auto()
    """Only encrypted entries are taken."""
    CLUSTERS = auto()
    """The namespace is not of this Pulsar cluster."""
    SIZE = auto()
    """The entry is above the topic's own limit."""
    SUBSCRIPTION_TYPE = auto()
    """The topic may not be read by exclusive subscriptions, as readers are."""


# The same code says more than one thing, and only its text says which. The words are Pulsar 4.0's; with a version that
# writes others, the code alone counts.
_WORDS: Final = (
    (pb.ProducerBusy, "reached max", Refusal.LIMIT),  # else another one has the name
    (pb.ConsumerBusy, "reached max", Refusal.LIMIT),  # else another one has the subscription
    (pb.NotAllowedError, "maximum number of subscriptions", Refusal.LIMIT),
    (pb.MetadataError, "Encryption is required", Refusal.ENCRYPTION),
    (pb.MetadataError, "missing local cluster", Refusal.CLUSTERS),
    (pb.NotAllowedError, "maximum message size", Refusal.SIZE),
    (pb.NotAllowedError, "support Exclusive sub type", Refusal.SUBSCRIPTION_TYPE),
)


class PulsarError(BridgeError):
    """The broker refused, in its own words; `code` is a `pb.ServerError`, or a number newer than this client."""

    def __init__(self, code: int, message: str = "") -> None:
        super().__init__(f"{error_name(code)}: {message}" if message else error_name(code))
        self.code = int(code)
        self.message = message

    @property
    def refusal(self) -> Refusal | None:
        """The policy that it is about, if its text tells one."""
        return next((one for code, words, one in _WORDS if code == self.code and words in self.message), None)

    @property
    def retriable(self) -> bool:
        """Whether the same request may succeed later, and nothing has to be done for it."""
        return self.code not in _PERMANENT and self.refusal is None


class ConnectionLost(PulsarError):
    """The connection broke, could not be made, or was closed: what was under way on it has no known outcome."""

    def __init__(self, message: str) -> None:
        super().__init__(pb.ServiceNotReady, message)


class ConnectionsRefused(ConnectionLost):
    """The broker has as many connections as it takes (brokerMaxConnections, brokerMaxConnectionsPerIp), for now."""


class OperationTimeout(PulsarError):
    """The broker did not answer in time: what was asked has no known outcome."""

    def __init__(self, message: str) -> None:
        super().__init__(pb.ServiceNotReady, message)


class MessageTooLarge(PulsarError):
    """The entry is above the broker's max_message_size; it was not sent."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(pb.NotAllowedError, f"entry of {size} bytes is above the broker's limit of {limit}")


class ClientClosed(PulsarError):
    """This producer, reader or client was closed here."""

    def __init__(self, what: str) -> None:
        super().__init__(pb.NotAllowedError, f"{what} is closed")


class SendCancelled(PulsarError):
    """The caller has cancelled this send; an entry that was written already may be stored all the same."""

    def __init__(self) -> None:
        super().__init__(pb.ServiceNotReady, "the send was cancelled")


def error_name(code: int) -> str:
    """The name of a ServerError, also of one this client does not know."""
    try:
        return pb.ServerError.Name(pb.ServerError.ValueType(code))
    except ValueError:
        return f"ServerError{code}"
