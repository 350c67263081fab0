"""What nodes ask each other about share partitions: Kafka's messages, answers that are lost, coordinators that move."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from bridge.apis import load
from bridge.errors import KafkaError
from bridge.groups.share.state_records import ACKNOWLEDGED, AVAILABLE, ShareState, ShareWrite, StateBatch
from bridge.groups.share.states import ShareStates
from bridge.kafka import message
from bridge.kafka.error_codes import ErrorCode
from bridge.requests import share_states
from bridge.requests.api import Api, Broker, OtherNodes
from bridge.requests.session import Session
from bridge.requests.share_states import NodesShareStates
from bridge.security.principal import NODE
from tests.groups.store.fake_store import FakeStore

_PLACE = "g", UUID(int=7), 3
_BATCHES = (StateBatch(5, 7, ACKNOWLEDGED, 1), StateBatch(9, 9, AVAILABLE, 2))
_AWAY = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "it was asked in vain")


@dataclass
class _Others:
    """Two nodes, 0 and 1; requests and answers go as bytes."""

    states: tuple[ShareStates, ShareStates]
    coordinates: list[int | None] = field(default_factory=lambda: [0])
    """The node of which each question believes that it coordinates; the last one for all that follow."""
    lost: list[str] = field(default_factory=list)
    """What becomes of the next ones: "" comes through, the "request" or the "answer" is lost."""
    asked: list[str] = field(default_factory=list)

    def of(self, namespace: str) -> OtherNodes:
        return self

    def coordinator(self, group_slot: int) -> int | None:
        return self.coordinates.pop(0) if len(self.coordinates) > 1 else self.coordinates[0]

    async def ask(self, node: int, api: Api, request: Any, version: int) -> Any:
        self.asked.append(api.name)
        lost = self.lost.pop(0) if self.lost else ""
        if lost == "request":
            raise _AWAY.bare()
        broker = cast(Broker, SimpleNamespace(groups=SimpleNamespace(share_states=self.states[node])))
        session = Session(1, "127.0.0.1:1", "INTERNAL", principal=NODE)
        body = message.encode(request, version, True)
        answer = await api.handle(api.decode(memoryview(body), version), broker, session)
        if lost:
            raise _AWAY.bare()
        return message.decode(api.response, message.encode(answer, version, True), version, True)


class _Bench:
    """A leader that asks nodes 0 and 1, and the coordinator in its own."""

    def __init__(self) -> None:
        self.store, self.own = FakeStore(), FakeStore()
        self.own.refuses = KafkaError(ErrorCode.NOT_COORDINATOR)
        other = FakeStore()
        other.refuses = KafkaError(ErrorCode.NOT_COORDINATOR)
        self.there = ShareStates(self.store, lambda: 0)
        self.others = _Others((self.there, ShareStates(other)))
        self.states = NodesShareStates(ShareStates(self.own, lambda: 0), lambda group_id: 0)
        self.states.others = self.others


@pytest.fixture
async def bench(monkeypatch: pytest.MonkeyPatch) -> _Bench:
    monkeypatch.setattr(share_states, "_AGAIN_SECONDS", 0.0)
    made = _Bench()
    await made.there.initialize(*_PLACE)
    return made


async def test_a_state_goes_there_and_comes_back(bench: _Bench) -> None:
    assert await bench.states.read(*_PLACE, 1) == ShareState(0, 1)
    await bench.states.write(*_PLACE, ShareWrite(0, 1, 1, 5, _BATCHES, 3))
    await bench.states.check(*_PLACE, 0, 1)
    assert await bench.states.read(*_PLACE, 1) == ShareState(0, 1, 5, _BATCHES, 3, 1)
    assert await bench.there.read(*_PLACE, 1) == ShareState(0, 1, 5, _BATCHES, 3, 1)


@pytest.mark.parametrize("lost", ["request", "answer"])
async def test_what_was_not_answered_is_repeated(bench: _Bench, lost: str) -> None:
    bench.others.lost = [lost]
    assert await bench.states.read(*_PLACE, 1) == ShareState(0, 1)
    bench.others.lost = [lost, lost]
    await bench.states.write(*_PLACE, ShareWrite(0, 1, 1, 5, _BATCHES, 3))
    assert bench.others.asked == ["ReadShareGroupState"] * 2 + ["WriteShareGroupState"] * 3
    assert (await bench.there.read(*_PLACE, 1)).q == 1


async def test_a_coordinator_that_has_moved_is_looked_for(bench: _Bench) -> None:
    bench.others.coordinates = [1, None, 0]  # the wrong node, this one that does not know yet, the right one
    assert await bench.states.read(*_PLACE, 1) == ShareState(0, 1)


async def test_here_nobody_else_is_asked(bench: _Bench) -> None:
    bench.own.refuses = None
    bench.others.coordinates = [None]
    here = bench.states._here
    await here.initialize(*_PLACE)
    assert await bench.states.read(*_PLACE, 1) == ShareState(0, 1)
    await bench.states.write(*_PLACE, ShareWrite(0, 1, 1, 5, (), 0))
    await bench.states.check(*_PLACE, 0, 1)
    assert bench.others.asked == []
    assert (await here.read(*_PLACE, 1)).start == 5


@pytest.mark.parametrize("others", [True, False])
async def test_one_that_is_away_is_an_error_in_the_end(
    bench: _Bench, monkeypatch: pytest.MonkeyPatch, others: bool
) -> None:
    monkeypatch.setattr(share_states, "_SECONDS", 0.0)
    bench.others.coordinates = [1]
    if not others:
        bench.states.others = None
    for work in (
        bench.states.read(*_PLACE, 1),
        bench.states.write(*_PLACE, ShareWrite(0, 1, 1, 5, (), 0)),
        bench.states.check(*_PLACE, 0, 1),
    ):
        with pytest.raises(KafkaError) as raised:
            await work
        assert raised.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_fences_hold_over_there(bench: _Bench) -> None:
    async def code(work: Any) -> int:
        with pytest.raises(KafkaError) as raised:
            await work
        return raised.value.code

    states = bench.states
    assert await code(states.check("g", UUID(int=8), 0, 0, 1)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await code(states.read("g", UUID(int=8), 0, 1)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await states.read(*_PLACE, 1)
    await bench.there.alter(*_PLACE, 4)
    assert await code(states.write(*_PLACE, ShareWrite(0, 1, 1, 5, (), 0))) == ErrorCode.FENCED_STATE_EPOCH
    assert await code(states.check(*_PLACE, 0, 1)) == ErrorCode.FENCED_STATE_EPOCH
    await states.read(*_PLACE, 2)
    assert await code(states.read(*_PLACE, 1)) == ErrorCode.FENCED_LEADER_EPOCH
    assert await code(states.write(*_PLACE, ShareWrite(1, 1, 1, 5, (), 0))) == ErrorCode.FENCED_LEADER_EPOCH
    assert await code(states.check(*_PLACE, 1, 1)) == ErrorCode.FENCED_LEADER_EPOCH
    await states.check(*_PLACE, 1, 2)


async def test_a_write_that_comes_late_is_refused(bench: _Bench) -> None:
    """Its answer was given up, and the leader has gone on."""
    await bench.states.read(*_PLACE, 1)
    await bench.states.write(*_PLACE, ShareWrite(0, 1, 2, 6, (), 0))
    late = asyncio.ensure_future(bench.states.write(*_PLACE, ShareWrite(0, 1, 1, 5, (), 0)))
    with pytest.raises(KafkaError) as raised:
        await late
    assert raised.value.code == ErrorCode.FENCED_STATE_EPOCH
    assert (await bench.there.read(*_PLACE, 1)).start == 6


def test_clients_are_told_of_none() -> None:
    assert not {api.key for api in share_states.APIS} & load().keys()
