"""What share sessions and their fetches may hold, and requests of one session that overtake each other."""

import asyncio
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from bridge.apis import share_fetch
from bridge.config import GroupSettings, Settings
from bridge.errors import KafkaError
from bridge.groups.configs import GroupConfigs
from bridge.kafka.error_codes import ErrorCode
from bridge.requests import share
from bridge.requests.session import Session
from bridge.runtime.fairness import Quota
from bridge.shares import sessions
from bridge.shares.partitions import Shares
from bridge.shares.sessions import ShareSessions
from bridge.telemetry.metrics import ShareMetrics

_FIRST, _SECOND = UUID(int=7), UUID(int=8)


def test_the_sessions_read_only_so_many_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MOST_PARTITIONS", 3)
    made = ShareSessions(ShareMetrics())
    a, b = made.open("g", "a", 1), made.open("g", "b", 2)
    made.read(a, [(_FIRST, 0), (_FIRST, 1)], [])
    made.read(a, [(_FIRST, 1)], [(_FIRST, 0), (_FIRST, 9)])
    made.read(b, [(_FIRST, 0), (_FIRST, 1)], [])
    with pytest.raises(KafkaError) as raised:
        made.read(b, [(_SECOND, 0)], [])
    assert raised.value.code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert not b.is_open
    made.read(a, [(_SECOND, 0), (_SECOND, 1)], [])
    assert list(a.partitions) == [(_FIRST, 1), (_SECOND, 0), (_SECOND, 1)]


class _Bench:
    """A node that knows no topic, and says so when `is_known` is set."""

    def __init__(self, most_waiting: int = 100) -> None:
        self.is_known = asyncio.Event()
        configs: Any = GroupConfigs(GroupSettings(), lambda group_id: {})
        persister: Any = None
        self._broker: Any = SimpleNamespace(
            shares=Shares(persister, configs, ShareMetrics()), topics=self, authorization=None, settings=Settings(),
            cluster=SimpleNamespace(node_id=1, snapshot=SimpleNamespace(nodes=[])), waiting_fetches=Quota(most_waiting),
        )  # fmt: skip
        self._session: Any = SimpleNamespace(
            id=1, listener="", on_close=lambda key, call: True, off_close=lambda key: None
        )

    def cached_by_id(self, topic_id: UUID) -> None:
        return None

    async def by_id(self, topic_id: UUID) -> None:
        await self.is_known.wait()

    def fetch(self, epoch: int, topic_id: UUID) -> "asyncio.Future[share_fetch.Response]":
        one = share_fetch.FetchPartition(partition_index=0, acknowledgement_batches=[])
        topic = share_fetch.FetchTopic(topic_id=topic_id, partitions=[one])
        request = share_fetch.Request(
            group_id="g", member_id="m", share_session_epoch=epoch, max_wait_ms=0, min_bytes=1, max_records=1,
            batch_size=1, topics=[topic], forgotten_topics_data=[],
        )  # fmt: skip
        return asyncio.ensure_future(share_fetch.handle(request, self._broker, self._session))

    @property
    def may_wait(self) -> int:
        return int(self._broker.waiting_fetches.left)


async def test_a_request_that_adds_partitions_while_the_one_before_opens_its_own() -> None:
    bench = _Bench()
    first = bench.fetch(0, _FIRST)
    await asyncio.sleep(0)
    second = bench.fetch(1, _SECOND)
    await asyncio.sleep(0)
    bench.is_known.set()
    told = [[topic.topic_id for topic in (await one).responses] for one in (first, second)]
    assert told == [[_FIRST], [_FIRST, _SECOND]]


async def test_a_fetch_beyond_what_may_wait_reads_nothing() -> None:
    bench = _Bench(most_waiting=1)
    bench.is_known.set()
    answer = await bench.fetch(0, _FIRST)
    assert (len(answer.responses), answer.throttle_time_ms) == (1, 0)
    answer = await bench.fetch(1, _SECOND)
    assert (answer.error_code, len(answer.responses), answer.throttle_time_ms) == (0, 0, 100)
    assert bench.may_wait == 1


async def test_a_connection_holds_nothing_of_the_sessions_that_are_closed() -> None:
    configs: Any = GroupConfigs(GroupSettings(), lambda group_id: {})
    persister: Any = None
    shares = Shares(persister, configs, ShareMetrics())
    connection, other = Session(1, "peer", "listener"), Session(2, "peer", "listener")
    for member in ("m", "n"):
        opened = share.session_of(shares, "g", member, 0, connection)
        shares.sessions.close(opened, counts=False)
    assert connection.close_actions == {}
    share.session_of(shares, "g", "m", 0, connection)
    share.session_of(shares, "g", "m", 0, other)
    assert connection.close_actions == {}
    connection.closed()
    assert len(shares.sessions) == 1
    other.closed()
    assert len(shares.sessions) == 0
