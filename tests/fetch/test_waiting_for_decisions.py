"""A Fetch of committed records that waits at an open transaction whose records are not in memory."""

import asyncio
from typing import Any, cast

from bridge.fetch import waiting
from bridge.fetch.partitions import FetchPartition
from bridge.fetch.pending_fetch import PendingFetch
from bridge.kafka.fetch_messages import READ_COMMITTED
from bridge.kafka.fetch_wire import Request, RequestPartition, RequestTopic
from bridge.kafka.message import ZERO_UUID
from bridge.requests.api import Broker
from bridge.requests.responses import LongPoll
from bridge.requests.session import Session
from tests.fetch.test_waiting import RECORDS, Bench, Log, answer_of, sizes, turns


class Held(Log):
    """A log with one record, which lies before what is in memory, of a transaction that is open."""

    def __init__(self) -> None:
        super().__init__()
        self.is_open = self.is_slow = True
        self.reads = 0
        self.append()

    @property
    def last_stable(self) -> int:
        return 0 if self.is_open else self.end.offset

    async def read(
        self, offset: int, max_bytes: int, timeout_seconds: float, *, committed: bool = False
    ) -> list[bytes]:
        self.reads += 1
        await asyncio.sleep(0)
        assert committed
        return [] if self.is_open else [RECORDS]


async def test_it_is_answered_as_soon_as_that_is_decided() -> None:
    log = Held()
    bench = Bench([log])
    session = Session(1, "", "", api_version=12)
    wanted = RequestPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    request = Request(
        max_wait_ms=0,
        min_bytes=1,
        isolation_level=READ_COMMITTED,
        topics=[RequestTopic(topic="t", partitions=[wanted])],
    )
    part = FetchPartition("t", ZERO_UUID, wanted, committed=True, log=cast(Any, log))
    now = asyncio.get_running_loop().time()
    broker = cast(Broker, bench)
    fetch = PendingFetch(request, broker, session, [part], now + 60, bench.cluster.snapshot)
    poll = waiting.answered(fetch, broker, session, now)
    assert isinstance(poll, LongPoll)
    await turns()
    for _ in range(3):  # something happens there, and the transaction is still open
        log.end.wake_waiters()
        await turns()
    assert log.reads == 1
    assert not cast(Any, poll.future).done()
    log.is_open = False
    log.end.wake_waiters()  # as `StableOffset._decided`
    assert sizes(await answer_of(cast(Any, poll.future))) == [len(RECORDS)]
    bench.assert_nothing_is_left()
