"""A consumer asks for its offsets just as its coordinator moves: it reads on, whichever library it is built on."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, TopicPartition

from bridge.api import Broker, Session
from bridge.apis import offset_fetch
from bridge.errors import KafkaError, Unanswered
from bridge.groups.offsets import Offsets
from bridge.kafka.error_codes import ErrorCode
from tests.apis.wire import unique
from tests.support.bridges import BridgeThread

MOVES = [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE]
LIBRDKAFKA = ("librdkafka", "2.16.0")
_SECONDS = 30.0


class _Refusing:
    def __init__(self, code: ErrorCode) -> None:
        self._code = code

    async def fetch(self, group_id: str) -> Any:
        raise KafkaError(self._code)


async def fetched(code: ErrorCode, software: tuple[str, str], version: int) -> offset_fetch.Response:
    broker = cast(Broker, SimpleNamespace(offsets=_Refusing(code)))
    session = Session(1, "10.0.0.1:1", "", client_software=software, api_version=version)
    if version < 8:
        return await offset_fetch.handle(offset_fetch.Request(group_id="g", topics=[]), broker, session)
    groups = [offset_fetch.RequestGroup(group_id="g", topics=[])]
    return await offset_fetch.handle(offset_fetch.Request(groups=groups), broker, session)


@pytest.mark.parametrize("version", [1, 7, 9])
@pytest.mark.parametrize("code", MOVES)
async def test_librdkafka_is_told_by_its_connection_alone(code: ErrorCode, version: int) -> None:
    with pytest.raises(Unanswered) as caught:
        await fetched(code, LIBRDKAFKA, version)
    assert caught.value.code == code


@pytest.mark.parametrize("version", [7, 9])
async def test_all_else_is_answered(version: int) -> None:
    for code, software in [(one, ("apache-kafka-java", "4.1.0")) for one in MOVES] + [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, LIBRDKAFKA),
        (ErrorCode.UNKNOWN_MEMBER_ID, LIBRDKAFKA),
    ]:
        answer = await fetched(code, software, version)
        assert (answer.groups[0] if answer.groups else answer).error_code == code


@pytest.fixture
def moving(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The groups that asked, of which the first two questions met a coordinator that had just moved."""
    asked: list[str] = []
    fetch = Offsets.fetch

    async def refused(offsets: Offsets, group_id: str) -> Any:
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
