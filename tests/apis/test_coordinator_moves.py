"""A real consumer asks for its offsets just as its coordinator moves: it reads on."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from bridge.errors import KafkaError
from bridge.groups.offsets import Offsets
from bridge.kafka.error_codes import ErrorCode
from tests.apis.wire import unique
from tests.support.bridges import BridgeThread

MOVES = [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE]
_SECONDS = 30.0


@pytest.fixture
def moving(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The groups that asked, of which the first two questions met a coordinator that had just moved."""
    asked: list[str] = []
    fetch = Offsets.fetch

    async def refused(offsets: Offsets, group_id: str, *, require_stable: bool) -> Any:
        asked.append(group_id)
        if len(asked) <= len(MOVES):
            raise KafkaError(MOVES[len(asked) - 1])
        return await fetch(offsets, group_id)

    monkeypatch.setattr(Offsets, "fetch", refused)
    return asked


@pytest.mark.parametrize("assigns", [False, True], ids=["subscribes", "assigns"])
def test_a_real_consumer_reads_on(bridge: BridgeThread, written_topic: str, moving: list[str], assigns: bool) -> None:
    settings = {"bootstrap.servers": bridge.kafka, "group.id": unique("g"), "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "log_level": 0})
    try:
        if assigns:
            consumer.assign([TopicPartition(written_topic, 0)])
        else:
            consumer.subscribe([written_topic])
        read: list[bytes | None] = []
        until = time.monotonic() + _SECONDS
        while len(read) < 7:
            assert time.monotonic() < until, f"read {read}, asked {moving}"
            read += [one.value() for one in consumer.consume(7, 1) if one.error() is None]
        assert read == [b"%d" % number for number in range(7)]
        assert len(moving) > len(MOVES)
    finally:
        consumer.close()
