"""`bridge move-state` and its undo: nothing is lost, groups go on, and bridges of both sides are kept apart."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from bridge.access.password_file import line_of
from bridge.cli import state_move, users
from bridge.config import Settings
from bridge.errors import BridgeError, StartupError
from bridge.pulsar import PulsarError
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.security.quotas.entities import QuotaKey, checked_entity
from bridge.security.records import quota_record
from bridge.standalone.ports import any_free
from tests.security.users import credential
from tests.support.bridges import BridgeThread, settings_for, started_nodes
from tests.support.pulsar import PulsarAddress
from tests.support.state_moves import PARTITIONS, Load, Older, all_records, committed

SHA = "SCRAM-SHA-256"


@pytest.fixture
def settings(pulsar: PulsarAddress) -> Settings:
    return settings_for(pulsar, pulsar.create_namespace(), {"cluster": {"name": "one"}}, any_free())


@pytest.fixture
def older() -> Iterator[Older]:
    with pytest.MonkeyPatch.context() as patch:
        yield Older(patch)


async def move(settings: Settings, *, undo: bool = False) -> str:
    out = io.StringIO()
    assert await state_move.move(settings, out, undo=undo) == 0
    return out.getvalue()


async def test_a_group_goes_on_with_its_offsets_in_both_directions(settings: Settings, older: Older) -> None:
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
            found = committed(bridge.kafka)
            assert all(found[partition] >= offset for partition, offset in load.acknowledged.items())
            assert all(offsets == set(range(max(offsets) + 1)) for offsets in load.read.values())  # none passed over
            assert load.stored.items() <= all_records(bridge.kafka).items()
            assert set(bridge.server.security.users()) == {"alice"}
    finally:
        load.__exit__()


async def test_two_places_that_are_both_live_are_refused_before_anything_is_ended(
    settings: Settings, older: Older
) -> None:
    """A bridge of before was started beside the state of this one."""
    with started_nodes(settings, 1):
        pass
    with older, started_nodes(settings, 1):
        pass
    for undo in (False, True):
        with pytest.raises(StartupError, match="there is state both in"):
            await move(settings, undo=undo)
    with started_nodes(settings, 1) as (bridge,):
        commit(bridge, "own")
        assert committed(bridge.kafka, "own") == {0: 7}


async def with_new_places(older: Older, settings: Settings) -> None:
    """Move while a bridge of before is running."""
    older.__exit__()
    try:
        await move(settings)
    finally:
        older.__enter__()


async def test_an_interrupted_move_is_gone_on_with_and_an_older_bridge_is_refused(
    pulsar: PulsarAddress, settings: Settings, older: Older
) -> None:
    tenant = pulsar.create_namespace()
    settings = settings.with_values(tenants={"rules": f"client_id lab-* -> {tenant}", "required": False})
    quotas = [quota_record(checked_entity([("user", "alice")]), QuotaKey.PRODUCE, 1e6)]
    with older, started_nodes(settings, 1) as (bridge,):
        bridge.call(bridge.server.security.change(quotas))
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
        assert [committed(bridge.kafka, client_id) for client_id in ("own", "lab-1")] == [{0: 7}, {0: 7}]
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
        assert [committed(bridge.kafka, client_id) for client_id in ("own", "lab-1")] == [{0: 7}, {0: 7}]


async def test_namespaces_that_clients_names_make_are_moved_each(
    pulsar: PulsarAddress, settings: Settings, older: Older, tmp_path: Path
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
        return {name: committed(bridge.kafka, login=login(name))[0] for name in tenants}

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
        assert committed(bridge.kafka, login=login(stranger)) == {}


def commit(bridge: BridgeThread, client_id: str, offset: int = 7, **login: str) -> None:
    """An offset of a topic that this client sees."""
    settings: dict[str, Any] = {"bootstrap.servers": bridge.kafka, "client.id": client_id, **login}
    admin = AdminClient(settings)
    admin.create_topics([NewTopic("t", PARTITIONS, 1)])["t"].result(30)
    consumer = confluent_kafka.Consumer({**settings, "group.id": "g"})
    consumer.commit(offsets=[confluent_kafka.TopicPartition("t", 0, offset)], asynchronous=False)
    consumer.close()
