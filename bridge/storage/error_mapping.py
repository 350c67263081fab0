"""Translates Pulsar's errors, and all others, into Kafka's: one table."""

from collections.abc import Iterator
from contextlib import contextmanager

from bridge.errors import BatchTooLarge, BridgeError, CorruptBatch, CorruptEntry, InvalidRecord, KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.admin import AdminError, Conflict, Forbidden, NotFound
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import ClientClosed, MessageTooLarge, OperationTimeout, PulsarError, SendCancelled

# Kafka clients retry 3, 5, 6, 7 and 56 (after a metadata refresh) and give up on the others.
_SERVER_ERRORS: dict[int, ErrorCode] = {
    pb.MetadataError: ErrorCode.KAFKA_STORAGE_ERROR,
    pb.PersistenceError: ErrorCode.KAFKA_STORAGE_ERROR,
    # the bridge's own log-in, not the client's: an outage, which a new token ends
    pb.AuthenticationError: ErrorCode.KAFKA_STORAGE_ERROR,
    pb.AuthorizationError: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    pb.ConsumerBusy: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    pb.ServiceNotReady: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    # a quota is like a full disk: it ends when records are read or deleted, or the quota is raised
    pb.ProducerBlockedQuotaExceededError: ErrorCode.KAFKA_STORAGE_ERROR,
    pb.ProducerBlockedQuotaExceededException: ErrorCode.KAFKA_STORAGE_ERROR,
    pb.ChecksumError: ErrorCode.CORRUPT_MESSAGE,
    pb.UnsupportedVersionError: ErrorCode.UNSUPPORTED_VERSION,
    pb.TopicNotFound: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    pb.TooManyRequests: ErrorCode.KAFKA_STORAGE_ERROR,
    pb.TopicTerminatedError: ErrorCode.POLICY_VIOLATION,
    pb.ProducerBusy: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    pb.InvalidTopicName: ErrorCode.INVALID_TOPIC_EXCEPTION,
    pb.IncompatibleSchema: ErrorCode.POLICY_VIOLATION,
    pb.NotAllowedError: ErrorCode.POLICY_VIOLATION,
    pb.ProducerFenced: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}


def of_server_error(code: int) -> ErrorCode:
    """The Kafka error for one of Pulsar's `ServerError`s; those it does not know are retriable storage errors."""
    return _SERVER_ERRORS.get(code, ErrorCode.KAFKA_STORAGE_ERROR)


def translate(error: BaseException) -> KafkaError:
    """The KafkaError a client gets for `error`; UNKNOWN_SERVER_ERROR for any that is not in the table."""
    if isinstance(error, KafkaError):
        return error
    for kind, code in _KINDS:
        if isinstance(error, kind):
            return KafkaError(code, str(error))
    if isinstance(error, PulsarError):
        return KafkaError(of_server_error(error.code), str(error))
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{type(error).__name__}: {error}")


_KINDS: tuple[tuple[type[BaseException], ErrorCode], ...] = (
    (MessageTooLarge, ErrorCode.MESSAGE_TOO_LARGE),
    (
        ClientClosed,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ),  # topic forgotten, or this node stops: clients look again
    (SendCancelled, ErrorCode.INVALID_PRODUCER_EPOCH),  # of a producer that has begun a newer epoch
    (OperationTimeout, ErrorCode.REQUEST_TIMED_OUT),
    (BatchTooLarge, ErrorCode.MESSAGE_TOO_LARGE),  # before CorruptBatch, which it is one of
    (CorruptBatch, ErrorCode.CORRUPT_MESSAGE),
    (InvalidRecord, ErrorCode.INVALID_RECORD),
    (CorruptEntry, ErrorCode.CORRUPT_MESSAGE),
    (NotFound, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (Forbidden, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    (Conflict, ErrorCode.TOPIC_ALREADY_EXISTS),
    (AdminError, ErrorCode.KAFKA_STORAGE_ERROR),
    (TimeoutError, ErrorCode.REQUEST_TIMED_OUT),
    (ConnectionError, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    (OSError, ErrorCode.KAFKA_STORAGE_ERROR),
)


@contextmanager
def translated() -> Iterator[None]:
    """Raise every foreign error inside as the KafkaError the client should get."""
    try:
        yield
    except KafkaError:
        raise
    except (BridgeError, OSError) as error:  # TimeoutError and ConnectionError are OSErrors
        raise translate(error) from error
