"""What may be wrong with a slot of an owned log, or with a write to it."""

from bridge.errors import BridgeError
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import MessageTooLarge, PulsarError


class OwnedLogError(BridgeError):
    """A slot is not served here now, or a write failed."""


class SlotUnavailable(OwnedLogError):
    """The slot is not taken yet, or Pulsar cannot be reached; try again."""


class SlotLoading(OwnedLogError):
    """The slot is being read; try again."""


class SlotNotOwned(OwnedLogError):
    """Another process owns the slot, or this one is closing."""


class RecordTooLarge(OwnedLogError):
    """A record is larger than the broker takes."""


class WriteTimedOut(OwnedLogError):
    """Pulsar has not acknowledged a write in time; it may be stored yet."""


def error_of_send(error: BaseException) -> OwnedLogError:
    """Why a write failed, from the error of its Pulsar send."""
    if isinstance(error, MessageTooLarge):
        return RecordTooLarge(str(error))
    if isinstance(error, PulsarError) and error.code == pb.ProducerFenced:
        return SlotNotOwned("another process owns the slot now")
    return SlotUnavailable(str(error))


def copy_of(error: OwnedLogError) -> OwnedLogError:
    """The same error without its traceback: each caller raises one of its own."""
    return type(error)(str(error))
