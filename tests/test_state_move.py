"""`bridge move-state` and its undo: nothing is lost, groups go on, and bridges of both sides are kept apart."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from bridge import check, state_move, users
from bridge.cluster.topics import HEARTBEATS
from bridge.config import PulsarSettings, Settings
from bridge.errors import BridgeError, StartupError
from bridge.groups.store.store import TOPIC as GROUPS
from bridge.pulsar import Admin
from bridge.security_store import security_log
from bridge.security_store.security_log import TOPIC as SECURITY
from bridge.standalone.ports import HOST, any_free
from tests.support.bridges import BridgeThread, settings_for, started_nodes
from tests.support.pulsar import PulsarAddress

SHA = "SCRAM-SHA-256"
PARTITIONS = 4


@pytest.fixture
def settings(pulsar: PulsarAddress) -> Settings:
    return settings_for(pulsar, pulsar.create_namespace(), {"cluster": {"name": "one"}}, any_free())


class _Older:
    """While it lasts, bridges of this process keep their state where those did that knew no other place."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch

    def __enter__(self) -> None:
        async def nothing(*_: object) -> None:
            pass

        self._patch.setattr(PulsarSettings, "state_topic", PulsarSettings.old_state_topic)
        self._patch.setattr(check, "ensure_state", nothing)
        self._patch.setattr(users, "ensure_state", nothing)

    def __exit__(self, *_: object) -> None:
        self._patch.undo()


@pytest.fixture
def older() -> Iterator[_Older]:
    with pytest.MonkeyPatch.context() as patch:
        yield _Older(patch)


async def move(settings: Settings, *, undo: bool = False) -> str:
    out = io.StringIO()
    assert await state_move.move(settings, out, undo=undo) == 0
    return out.getvalue()


def running(settings: Settings) -> Iterator[BridgeThread]:
    with started_nodes(settings, 1) as (node,):
        yield node


class Load:
    """A group that reads and commits a record at a time, and a producer, whatever becomes of their bridge."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: dict[int, int] = {}
        """Offsets by partition, as they were committed last."""
        self.produced = 0
        self.read: list[int] = []
        self._bootstrap = bootstrap
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=run) for run in (self._consume, self._produce)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _produce(self) -> None:
        settings: dict[str, Any] = {"bootstrap.servers": self._bootstrap, "enable.idempotence": True, "log_level": 0}
        producer = confluent_kafka.Producer(settings)
        while not self._ended.is_set():
            producer.produce("t", b"%d" % self.produced, partition=self.produced % PARTITIONS)
            self.produced += 1
            producer.flush(60)

    def _consume(self) -> None:
        settings: dict[str, Any] = {
            "bootstrap.servers": self._bootstrap, "group.id": "g", "auto.offset.reset": "earliest",
            "enable.auto.commit": False, "log_level": 0,
        }  # fmt: skip
        consumer = confluent_kafka.Consumer(settings)
        consumer.subscribe(["t"])
        while not self._ended.is_set():
            message = consumer.poll(0.1)
            if message is None or message.error() is not None:
                continue
            try:
                consumer.commit(message, asynchronous=False)
            except confluent_kafka.KafkaException:
                continue
            self.acknowledged[message.partition() or 0] = (message.offset() or 0) + 1
        consumer.close()

    def wait(self, more: int) -> None:
        """Until so many records more are committed."""
        start = sum(self.acknowledged.values())
        for _ in range(600):
            if sum(self.acknowledged.values()) >= start + more:
                return
            self._ended.wait(0.1)
        raise AssertionError("the group does not go on")


def committed(bridge: BridgeThread) -> dict[int, int]:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bridge.kafka, "group.id": "g"})
    try:
        asked = [confluent_kafka.TopicPartition("t", index) for index in range(PARTITIONS)]
        return {one.partition: one.offset for one in consumer.committed(asked, timeout=30) if one.offset >= 0}
    finally:
        consumer.close()


def quotas(bridge: BridgeThread) -> object:
    return bridge.server.security.quotas()


async def test_a_group_goes_on_with_its_offsets_in_both_directions(settings: Settings, older: _Older) -> None:
    with older, started_nodes(settings, 1) as (bridge,):
        assert bridge.server.cluster is not None
        ids = dict(bridge.server.cluster.view.ids)
        admin = AdminClient({"bootstrap.servers": bridge.kafka})
        admin.create_topics([NewTopic("t", PARTITIONS, 1)])["t"].result(30)
        await users.add(settings, "alice", "secret", [SHA], 4096)
        with pytest.raises(StartupError, match="these nodes are running: stop them first: one"):
            await with_new_places(older, settings)
        load = Load(settings.kafka.listen)
        load.__enter__()
        load.wait(20)
    try:
        with pytest.raises(StartupError, match="Stop all nodes and run: bridge move-state"):
            BridgeThread(settings).start()
        assert "moved to" in await move(settings)
        for _ in range(2):  # and again: it does nothing
            assert "is there already" in await move(settings)
        with started_nodes(settings, 1) as (bridge,):
            load.wait(20)
            assert set(bridge.server.security.users()) == {"alice"}
            assert bridge.server.cluster is not None
            assert bridge.server.cluster.view.ids == ids
            with pytest.raises(StartupError, match="these nodes are running"):
                await move(settings, undo=True)
        assert "moved to" in await move(settings, undo=True)
        with pytest.raises(StartupError, match="Stop all nodes and run: bridge move-state"):
            BridgeThread(settings).start()
        assert "is there already" in await move(settings, undo=True)
        with older, started_nodes(settings, 1) as (bridge,):
            load.wait(20)
            load.__exit__()
            found = committed(bridge)
            assert all(found[partition] >= offset for partition, offset in load.acknowledged.items())
            assert set(bridge.server.security.users()) == {"alice"}
    finally:
        load.__exit__()


async def with_new_places(older: _Older, settings: Settings) -> None:
    """Move while a bridge of before is running."""
    older.__exit__()
    try:
        await move(settings)
    finally:
        older.__enter__()
