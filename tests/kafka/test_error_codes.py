"""Kafka's error codes, compared with kafka-python's table."""

import warnings
from importlib import import_module

from bridge.kafka.error_codes import ErrorCode

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    _KAFKA_ERRORS = import_module("kafka.errors").kafka_errors


def test_there_is_no_gap() -> None:
    assert sorted(ErrorCode) == list(range(-1, 134))


def test_every_code_that_kafka_python_knows_is_there() -> None:
    assert {code for code in _KAFKA_ERRORS if code is not None} <= set(ErrorCode)


def test_retriability() -> None:
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER.retriable
    assert ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.retriable
    assert not ErrorCode.MESSAGE_TOO_LARGE.retriable
    assert not ErrorCode.NONE.retriable
