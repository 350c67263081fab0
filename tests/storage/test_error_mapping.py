"""Foreign errors in Kafka's words."""

import pytest

from bridge.errors import BatchTooLarge, CorruptBatch, CorruptEntry, InvalidRecord, KafkaError, StartupError
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.admin import AdminError, Conflict, Forbidden, NotFound
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import ClientClosed, ConnectionLost, MessageTooLarge, OperationTimeout, PulsarError
from bridge.storage.error_mapping import fetch_error, of_server_error, translate, translated


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


@pytest.mark.parametrize(
    ("error", "sending", "reading"),
    [
        ("ProducerBusy: Topic 't' reached max producers limit", 56, -1),
        ("ProducerBusy: Topic reached max same address producers limit", 56, -1),
        ("ProducerBusy: Producer with name 'p' is already connected to topic", 6, 6),
        ("ConsumerBusy: Topic reached max consumers limit", 56, -1),
        ("ConsumerBusy: Exclusive consumer is already connected", 6, 6),
        ("NotAllowedError: Exceed the maximum number of subscriptions of the topic: t", 56, -1),
        ("NotAllowedError: Exceed maximum message size", 10, -1),
        ("NotAllowedError: Topic[{t}] doesn't support Exclusive sub type!", 44, -1),
        ("MetadataError: Encryption is required in t", 44, -1),
        ("MetadataError: Namespace missing local cluster name in clusters list", 56, -1),
        ("MetadataError: the store does not answer", 56, 56),
    ],
)
def test_what_only_the_text_tells_is_told_apart(error: str, sending: int, reading: int) -> None:
    code, _, text = error.partition(": ")
    refused = PulsarError(pb.ServerError.Value(code), text)
    for is_reading, expected in ((False, sending), (True, reading)):
        with pytest.raises(KafkaError) as raised, translated(reading=is_reading):
            raise refused
        assert raised.value.code == expected
    assert refused.retriable == (refused.refusal is None and code != "NotAllowedError")


@pytest.mark.parametrize("code", ErrorCode)
def test_a_fetch_has_no_code_that_ends_java_s_poll(code: ErrorCode) -> None:
    """Those that `FetchCollector.handleInitializeErrors` names; 76 goes to older clients alone, as Kafka's does."""
    named = {-1, 1, 2, 3, 6, 9, 29, 56, 74, 75, 76, 78, 100, 103}
    assert fetch_error(code) in named
    assert fetch_error(code) == code or code not in {-1, 1, 2, 3, 6, 29, 56, 74, 75, 76, 100}


def test_a_mistake_of_ours_is_not_dressed_up() -> None:
    with pytest.raises(KeyError), translated():
        raise KeyError("bug")
