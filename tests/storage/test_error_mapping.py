"""Foreign errors in Kafka's words."""

import pytest

from bridge.errors import BatchTooLarge, CorruptBatch, CorruptEntry, InvalidRecord, KafkaError, StartupError
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.admin import AdminError, Conflict, Forbidden, NotFound
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import ClientClosed, ConnectionLost, MessageTooLarge, OperationTimeout, PulsarError
from bridge.storage.error_mapping import of_server_error, translate, translated


@pytest.mark.parametrize("code", pb.ServerError.values())
def test_every_error_of_pulsar_has_a_kafka_error(code: int) -> None:
    assert of_server_error(code) not in (ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (BatchTooLarge("x"), ErrorCode.MESSAGE_TOO_LARGE),
        (ClientClosed("x"), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (CorruptBatch("x"), ErrorCode.CORRUPT_MESSAGE),
        (InvalidRecord("x"), ErrorCode.INVALID_RECORD),
        (CorruptEntry("x"), ErrorCode.CORRUPT_MESSAGE),
        (NotFound(404, "x"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (Forbidden(403, "x"), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (Conflict(409, "x"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (AdminError(500, "x"), ErrorCode.KAFKA_STORAGE_ERROR),
        (PulsarError(pb.TopicNotFound, "x"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ConnectionLost("x"), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (OperationTimeout("x"), ErrorCode.REQUEST_TIMED_OUT),
        (MessageTooLarge(2, 1), ErrorCode.MESSAGE_TOO_LARGE),
        (TimeoutError(), ErrorCode.REQUEST_TIMED_OUT),
        (ConnectionResetError(), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (KafkaError(ErrorCode.POLICY_VIOLATION), ErrorCode.POLICY_VIOLATION),
        (StartupError("x"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_errors_are_translated_where_they_cross(error: Exception, code: ErrorCode) -> None:
    assert translate(error).code == code
    with pytest.raises(KafkaError) as raised, translated():
        raise error
    assert raised.value.code == code


def test_a_mistake_of_ours_is_not_dressed_up() -> None:
    with pytest.raises(KeyError), translated():
        raise KeyError("bug")
