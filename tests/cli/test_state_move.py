"""`bridge move-state` and its undo: nothing is lost, groups go on, and bridges of both sides are kept apart."""

from __future__ import annotations

import io
import itertools
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from bridge import check
from bridge.access.password_file import line_of
from bridge.cli import state_move, users
from bridge.config import PulsarSettings, Settings
from bridge.errors import BridgeError, StartupError
from bridge.pulsar import PulsarError
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.security.quotas.entities import QuotaKey, checked_entity
from bridge.security.records import quota_record
from bridge.standalone.ports import any_free
from tests.security.users import credential
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


class Load:
    """A group that reads and commits a record at a time, and a producer, whatever becomes of their bridge."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: dict[int, int] = {}
        """Offsets by partition, as they were committed last."""
        self.stored: dict[bytes, tuple[int, int]] = {}
        """Partition and offset of each record that was acknowledged."""
        self.read: dict[int, set[int]] = {}
        """Offsets by partition, as the group was given them."""
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
        for number in itertools.count():
            if self._ended.is_set():
                break
            producer.produce("t", b"%d" % number, partition=number % PARTITIONS, on_delivery=self._delivered)
            producer.flush(60)

    def _delivered(self, error: object, message: confluent_kafka.Message) -> None:
        if error is None:
            self.stored[message.value() or b""] = (message.partition() or 0, message.offset() or 0)

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
            self.read.setdefault(message.partition() or 0, set()).add(message.offset() or 0)
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


def all_records(bridge: BridgeThread) -> dict[bytes, tuple[int, int]]:
    """What is in the topic: partition and offset of each value."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bridge.kafka, "group.id": "all"})
    ends = [
        consumer.get_watermark_offsets(confluent_kafka.TopicPartition("t", one), 30)[1] for one in range(PARTITIONS)
    ]
    consumer.assign([confluent_kafka.TopicPartition("t", partition, 0) for partition in range(PARTITIONS)])
    found: dict[bytes, tuple[int, int]] = {}
    for message in consumer.consume(sum(ends), 60):
        found[message.value() or b""] = (message.partition() or 0, message.offset() or 0)
    consumer.close()
    assert len(found) == sum(ends)  # none twice
    return found


def committed(bridge: BridgeThread, client_id: str = "own", **login: str) -> dict[int, int]:
    words = {"bootstrap.servers": bridge.kafka, "group.id": "g", "client.id": client_id, **login}
    consumer = confluent_kafka.Consumer(words)
    try:
        asked = [confluent_kafka.TopicPartition("t", index) for index in range(PARTITIONS)]
        return {one.partition: one.offset for one in consumer.committed(asked, timeout=30) if one.offset >= 0}
    finally:
        consumer.close()


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
            assert all(offsets == set(range(max(offsets) + 1)) for offsets in load.read.values())  # none passed over
            assert load.stored.items() <= all_records(bridge).items()
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


async def test_an_interrupted_move_is_gone_on_with_and_an_older_bridge_is_refused(
    pulsar: PulsarAddress, settings: Settings, older: _Older
) -> None:
    tenant = pulsar.create_namespace()
    settings = settings.with_values(tenants={"rules": f"client_id lab-* -> {tenant}", "required": False})
    quotas = [quota_record(checked_entity([("user", "alice")]), QuotaKey.PRODUCE, 1e6)]
    with older, started_nodes(settings, 1) as (bridge,):
        bridge.call(bridge.server.security.change_quotas(quotas))
        for client_id in ("own", "lab-1"):
            commit(bridge, client_id)

    async def fail(*_: object) -> None:
        raise PulsarError(pb.ServiceNotReady, "interrupted")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state_move._Move, "_copy_view", fail)
        with pytest.raises(StartupError, match="interrupted; nothing is lost: run it again"):
            await move(settings)
    with pytest.raises(BridgeError, match="does not have all records yet: run `bridge move-state` again"):
        BridgeThread(settings).start()
    told = await move(settings)
    assert f"{tenant}: is there already" in told
    assert f"{settings.pulsar.full_namespace}: moved to" in told
    left = f"{settings.pulsar.full_namespace}/__bridge_security is terminated: `bridge move-state` has moved"
    with older, pytest.raises(StartupError, match=left):
        BridgeThread(settings).start()
    with started_nodes(settings, 1) as (bridge,):
        assert len(bridge.server.security.quotas()) == 1
        assert [committed(bridge, client_id) for client_id in ("own", "lab-1")] == [{0: 7}, {0: 7}]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state_move._Move, "_copy_view", fail)
        with pytest.raises(StartupError, match="interrupted; nothing is lost: run it again"):
            await move(settings, undo=True)
    left = f"{settings.pulsar.full_state_namespace}/__bridge_security is terminated: .* run the same command again"
    with pytest.raises(StartupError, match=left):
        BridgeThread(settings).start()
    await move(settings, undo=True)
    with older, started_nodes(settings, 1) as (bridge,):
        assert len(bridge.server.security.quotas()) == 1
        assert [committed(bridge, client_id) for client_id in ("own", "lab-1")] == [{0: 7}, {0: 7}]


async def test_namespaces_that_clients_names_make_are_moved_each(
    pulsar: PulsarAddress, settings: Settings, older: _Older, tmp_path: Path
) -> None:
    tenants = {pulsar.create_namespace(): offset for offset in (3, 5)}
    stranger = pulsar.create_namespace()
    one = credential(SHA, "words")
    (tmp_path / "users").write_text("".join(line_of(name, one) + "\n" for name in (*tenants, stranger)))
    settings = settings.with_values(
        kafka={
            "listen": "127.0.0.1:9092", "listeners": f"SASL_PLAINTEXT://{settings.kafka.listen}",
            "sasl_enabled_mechanisms": "PLAIN",
        },
        security={"password_file": str(tmp_path / "users")},
        tenants={"rules": "principal User:*/* -> $1/$2", "namespaces": ",".join((*tenants, stranger))},
    )  # fmt: skip

    def login(name: str) -> dict[str, str]:
        return {
            "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": name,
            "sasl.password": "words",
        }  # fmt: skip

    def offsets(bridge: BridgeThread) -> dict[str, int]:
        return {name: committed(bridge, **login(name))[0] for name in tenants}

    with older, started_nodes(settings, 1) as (bridge,):
        for name, offset in tenants.items():
            commit(bridge, "own", offset, **login(name))
    for undo in (False, True, False):
        told = await move(settings, undo=undo)
        assert all(f"{name}: moved to" in told for name in (*tenants, settings.pulsar.full_namespace))
        assert f"{stranger}: there is nothing to move" in told
        told = await move(settings, undo=undo)
        assert all(f"{name}: is there already" in told for name in (*tenants, settings.pulsar.full_namespace))
        with older if undo else nullcontext(), started_nodes(settings, 1) as (bridge,):
            assert offsets(bridge) == tenants
    with started_nodes(settings, 1) as (bridge,):
        assert committed(bridge, **login(stranger)) == {}


def commit(bridge: BridgeThread, client_id: str, offset: int = 7, **login: str) -> None:
    """An offset of a topic that this client sees."""
    settings: dict[str, Any] = {"bootstrap.servers": bridge.kafka, "client.id": client_id, **login}
    admin = AdminClient(settings)
    admin.create_topics([NewTopic("t", PARTITIONS, 1)])["t"].result(30)
    consumer = confluent_kafka.Consumer({**settings, "group.id": "g"})
    consumer.commit(offsets=[confluent_kafka.TopicPartition("t", 0, offset)], asynchronous=False)
    consumer.close()
