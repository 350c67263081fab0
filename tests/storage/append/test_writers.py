"""Writers and the connections that they are of, without a Pulsar: what a writer leaves with them when it ends."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from bridge.pulsar.client import PulsarClient
from bridge.requests import session as sessions
from bridge.requests.session import Session
from bridge.storage.append.writers import Writer, Writers


async def _done(**how: object) -> None:
    pass


class _Client:
    """Opens producers at once."""

    def producer(self, *named: Any, **more: Any) -> Any:
        return SimpleNamespace(last_sequence_id=-1, closing=False, opened=_done, close=_done)


@pytest.fixture
async def writers() -> Writers:
    return Writers("t", cast(PulsarClient, _Client()))


def _session(number: int) -> Session:
    return Session(number, "10.0.0.1:1", "")


async def _opened(writers: Writers, producer_id: int, session: Session) -> Writer:
    return await writers.open((producer_id, 0, 0), session)


async def test_a_writer_that_ends_leaves_nothing_with_its_connections(writers: Writers) -> None:
    first, second = _session(1), _session(2)
    for one in (first, second):
        writer = await _opened(writers, 7, one)
    kept = await _opened(writers, 8, first)
    writers.drop(7, writer)
    assert second.close_actions == {}
    again = await _opened(writers, 7, first)
    first.closed()
    assert kept.abandoned
    assert again.abandoned
    assert not second.close_actions
    await writers.close()


async def test_a_connection_with_many_producers_one_after_another_keeps_the_last_ones(
    writers: Writers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "_MAX_CLOSE_ACTIONS", 2)
    session = _session(1)
    for producer_id in range(4):
        writer = await _opened(writers, producer_id, session)
        assert not writer.abandoned, f"writer {producer_id} would be closed after each outcome"
        writers.drop(producer_id, writer)
    await writers.close()
