"""A ShareFetch of several partitions, one of which Pulsar does not answer for, or cannot be opened."""

import asyncio
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from bridge.apis import share_fetch
from bridge.codec import Rebuild, Record, build_batch
from bridge.config import GroupSettings, Settings
from bridge.groups.configs import GroupConfigs
from bridge.groups.share.states import ShareStates
from bridge.runtime.fairness import Quota
from bridge.runtime.futures import loop_time
from bridge.shares.partitions import Shares
from bridge.storage.read.log_end import LogEnd
from bridge.telemetry.metrics import ShareMetrics
from bridge.telemetry.traffic import Traffic
from tests.groups.store.fake_store import FakeStore

_TOPIC = UUID(int=7)
_SLOW, _SOUND = 0, 1


class _Log:
    """A log of three records, which its broker may not answer for."""

    known_start = 0
    is_led = True

    def __init__(self, hangs: str) -> None:
        self.end = LogEnd()
        self.traffic = Traffic()
        self._hangs = hangs
        self.answers = asyncio.Event()

    async def earliest(self) -> int:
        if self._hangs == "opening":
            await self.answers.wait()
        return 0

    def read_nowait(self, offset: int, max_bytes: int, *, committed: bool = False) -> list[bytes] | None:
        return None if self._hangs == "reading" else self._records(offset)

    async def read(self, offset: int, max_bytes: int, seconds: float, *, committed: bool = False) -> list[bytes]:
        await self.answers.wait()
        return self._records(offset)

    def _records(self, offset: int) -> list[bytes]:
        records = [Record(number, 0, None, b"value", ()) for number in range(3)]
        return [build_batch(records, Rebuild(0, 3, 0))] if offset < 3 else []


class _Bench:
    def __init__(self, hangs: str) -> None:
        states = ShareStates(FakeStore())
        configs = GroupConfigs(GroupSettings(), lambda group_id: {"share.auto.offset.reset": "earliest"})
        self.states, self.logs = states, [_Log(hangs), _Log("")]
        topic = SimpleNamespace(name="t", partitions=2)
        leader = SimpleNamespace(epoch=1)
        snapshot = SimpleNamespace(nodes=[], leader=lambda name, partition: leader)
        topics = SimpleNamespace(cached_by_id=lambda topic_id: topic, log=lambda topic, index: self.logs[index])
        cluster = SimpleNamespace(
            node_id=1, snapshot=snapshot, follows=lambda *asked: False, check=lambda *asked, **more: None
        )
        self._broker: Any = SimpleNamespace(
            shares=Shares(states, configs, ShareMetrics()), topics=topics, authorization=None, settings=Settings(),
            cluster=cluster, waiting_fetches=Quota(100),
        )  # fmt: skip
        self._session: Any = SimpleNamespace(
            id=1,
            listener="",
            on_close=lambda key, call: True,
            off_close=lambda key: None,
            remaining_response_bytes=lambda: 1 << 20,
        )

    async def fetch(self, epoch: int, *partitions: int) -> dict[int, list[tuple[int, int, int]]]:
        for index in partitions:
            await self.states.initialize("g", _TOPIC, index)
        places = [share_fetch.FetchPartition(partition_index=one, acknowledgement_batches=[]) for one in partitions]
        request = share_fetch.Request(
            group_id="g", member_id="m", share_session_epoch=epoch, max_wait_ms=100, min_bytes=1, max_records=500,
            batch_size=500, topics=[share_fetch.FetchTopic(topic_id=_TOPIC, partitions=places)] if places else [],
            forgotten_topics_data=[],
        )  # fmt: skip
        answer = await share_fetch.handle(request, self._broker, self._session)
        return {
            part.partition_index: [
                (one.first_offset, one.last_offset, one.delivery_count) for one in part.acquired_records
            ]
            for topic in answer.responses
            for part in topic.partitions
        }


@pytest.mark.parametrize("hangs", ["opening", "reading"])
async def test_a_partition_that_hangs_keeps_no_other_from_its_member(hangs: str) -> None:
    """It took Pulsar's time-out of 30 s, in which clients give up: the member got nothing of any partition."""
    bench = _Bench(hangs)
    begun = loop_time()
    async with asyncio.timeout(20):
        epoch, found = 0, await bench.fetch(0, _SLOW, _SOUND)
        while not found:
            epoch += 1
            found = await bench.fetch(epoch)
        assert found == {_SOUND: [(0, 2, 1)]}
        assert loop_time() - begun < 5
        bench.logs[_SLOW].answers.set()
        found = {}
        while not found:
            epoch += 1
            found = await bench.fetch(epoch)
        assert found == {_SLOW: [(0, 2, 1)]}
