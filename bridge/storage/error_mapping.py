"""Translates Pulsar's errors, and all others, into Kafka's: one table."""

from collections.abc import Iterator
from contextlib import contextmanager

from bridge.errors import BatchTooLarge, BridgeError, CorruptBatch, CorruptEntry, InvalidRecord, KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.admin import AdminError, Conflict, Forbidden, NotFound
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import ClientClosed, MessageTooLarge, OperationTimeout, PulsarError, Refusal, SendCancelled

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
# Where the broker's text says more than its code.
_REFUSALS: dict[Refusal, ErrorCode] = {
    Refusal.LIMIT: ErrorCode.KAFKA_STORAGE_ERROR,  # it ends when another one leaves, as a quota when records are read
    Refusal.ENCRYPTION: ErrorCode.POLICY_VIOLATION,
    Refusal.CLUSTERS: ErrorCode.KAFKA_STORAGE_ERROR,  # nothing is wrong with what is sent
    Refusal.SIZE: ErrorCode.MESSAGE_TOO_LARGE,
    Refusal.SUBSCRIPTION_TYPE: ErrorCode.POLICY_VIOLATION,
}
# What consumers know of in a Fetch (`FetchCollector.handleInitializeErrors`). For any other, Java's ends its program's
# poll with IllegalStateException.
_FETCH_ERRORS = frozenset(
    {
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
_PASSING = frozenset({ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT})


def of_server_error(code: int) -> ErrorCode:
    """The Kafka error for one of Pulsar's `ServerError`s; those it does not know are retriable storage errors."""
    return _SERVER_ERRORS.get(code, ErrorCode.KAFKA_STORAGE_ERROR)


def translate(error: BaseException, *, reading: bool = False) -> KafkaError:
    """The KafkaError a client gets for `error`; UNKNOWN_SERVER_ERROR for any that is not in the table.

    `reading`: the client is a consumer. It tries again after KAFKA_STORAGE_ERROR forever, and says nothing; so what
    Pulsar refuses by a policy is UNKNOWN_SERVER_ERROR to it, which it tells its operators.
    """
    if isinstance(error, KafkaError):
        return error
    for kind, code in _KINDS:
        if isinstance(error, kind):
            return KafkaError(code, str(error))
    if isinstance(error, PulsarError):
        if error.refusal is None:
            return KafkaError(of_server_error(error.code), str(error))
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR if reading else _REFUSALS[error.refusal], str(error))
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


def fetch_error(code: int) -> int:
    """What a consumer is told in a Fetch: a code that all know. All try again after these, and mention the second."""
    if code in _FETCH_ERRORS:
        return code
    return ErrorCode.KAFKA_STORAGE_ERROR if code in _PASSING else ErrorCode.UNKNOWN_SERVER_ERROR


@contextmanager
def translated(*, reading: bool = False) -> Iterator[None]:
    """Raise every foreign error inside as `translate` has it."""
    try:
        yield
    except KafkaError:
        raise
    except (BridgeError, OSError) as error:  # TimeoutError and ConnectionError are OSErrors
        raise translate(error, reading=reading) from error  # no local has it: its traceback has this frame
