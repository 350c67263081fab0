"""A record keeps its fields, its place and its time; what is absent, null and empty stays distinct."""

from __future__ import annotations

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME

from tests.contract.log import Log

TIME = 1_600_000_000_123
HEADERS = [("n", None), ("e", b""), ("a", b"1"), ("a", b"2"), ("b", b"\xff\x00")]


@pytest.mark.parametrize("key", [None, b"", b"key", b"\xff\x00"])
@pytest.mark.parametrize("value", [None, b"", b"value"])
def test_null_and_empty_keys_and_values_are_distinct(log: Log, key: bytes | None, value: bytes | None) -> None:
    log.write([value], key=key)
    (message,) = log.read(0)
    assert (message.key(), message.value()) == (key, value)


def test_headers_keep_their_order_their_repetitions_and_their_nulls(log: Log) -> None:
    log.write([b"v"], headers=HEADERS)
    log.write([b"v"])
    having, without = log.read(0)
    assert having.headers() == HEADERS
    assert without.headers() is None


def test_the_time_is_the_writers(log: Log) -> None:
    for timestamp in (TIME, TIME - 1000, TIME + 1):
        log.write([b"v"], timestamp=timestamp)
    told = [message.timestamp() for message in log.read(0)]
    assert told == [(TIMESTAMP_CREATE_TIME, time) for time in (TIME, TIME - 1000, TIME + 1)]


def test_the_partition_is_the_writers(log: Log) -> None:
    log.write([b"a", b"b"], partition=1)
    log.write([b"c"], partition=0)
    assert [message.value() for message in log.read(0, partition=1)] == [b"a", b"b"]
    assert [message.value() for message in log.read(0, partition=0)] == [b"c"]
