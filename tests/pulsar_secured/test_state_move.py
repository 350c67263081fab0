"""`bridge move-state` for three nodes whose clients log in and go on, on a Pulsar with rights; and back."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from bridge.cli import state_move, users
from bridge.config import Settings
from bridge.errors import StartupError
from bridge.standalone.ports import HOST
from tests.pulsar_secured.conftest import SHA, sections
from tests.support.bridges import BridgeThread, settings_for
from tests.support.nodes import stable_ports
from tests.support.pulsar import PulsarAddress
from tests.support.secured_pulsar import SecuredPulsar
from tests.support.state_moves import PARTITIONS, Load, Login, Older, all_records, committed

NAMES = ("one", "two", "three")
MEMBERS = 2
COMMITS = 50
"""So many more, then the group goes on."""
MUST_MOVE = "Stop all nodes and run: bridge move-state"


@pytest.fixture
def nodes(secured: SecuredPulsar, tenant_namespace: str) -> list[Settings]:
    base = settings_for(PulsarAddress(secured.service_url, secured.admin_url), tenant_namespace, sections(secured))
    return [
        base.with_values(
            kafka={"listeners": f"SASL_PLAINTEXT://{HOST}:{port}"},
            cluster={"name": name},
            pulsar={"trust_state_namespace": False},
        )
        for name, port in zip(NAMES, stable_ports(len(NAMES)), strict=True)
    ]


@pytest.fixture
def older() -> Iterator[Callable[[], Older]]:
    """Each time a fresh one: what it changes is undone at its end."""
    with pytest.MonkeyPatch.context() as patch:
        yield lambda: Older(patch)


@contextmanager
def running(nodes: list[Settings]) -> Iterator[list[BridgeThread]]:
    with ExitStack() as stack:
        found = []
        for settings in nodes:
            found.append(bridge := BridgeThread(settings))
            bridge.start()
            stack.callback(bridge.stop)
        yield found


def bootstrap(nodes: list[Settings]) -> str:
    return ",".join(one.kafka.listeners.partition("://")[2] for one in nodes)


def login(name: str) -> Login:
    return {
        "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": SHA, "sasl.username": name, "sasl.password": "secret",
    }  # fmt: skip


async def moved(settings: Settings, *, undo: bool = False) -> str:
    out = io.StringIO()
    assert await state_move.move(settings, out, undo=undo) == 0
    return out.getvalue()


def prepare(nodes: list[Settings]) -> None:
    """A topic, and entries for who writes and reads it."""
    admin = AdminClient({"bootstrap.servers": bootstrap(nodes), **login("admin")})
    admin.create_topics([NewTopic("t", PARTITIONS, 1)])["t"].result(30)
    entries = [
        AclBinding(kind, name, ResourcePatternType.LITERAL, "User:alice", "*", what, AclPermissionType.ALLOW)
        for kind, name, what in (
            (ResourceType.TOPIC, "t", AclOperation.WRITE), (ResourceType.TOPIC, "t", AclOperation.READ),
            (ResourceType.GROUP, "g", AclOperation.READ),
        )
    ]  # fmt: skip
    for stored in admin.create_acls(entries).values():
        stored.result(30)


async def test_three_nodes_are_moved_and_moved_back_under_load(
    nodes: list[Settings], older: Callable[[], Older]
) -> None:
    load = Load(bootstrap(nodes), login("alice"), MEMBERS)
    with ExitStack() as under_load:
        with older():
            for name in ("admin", "alice"):
                await users.add(nodes[0], name, "secret", [SHA], 4096)
            with running(nodes) as (first, *_):
                prepare(nodes)
                assert first.server.cluster is not None
                ids = dict(first.server.cluster.view.ids)
                under_load.enter_context(load)
                load.wait(COMMITS)
                with pytest.raises(StartupError, match="these nodes are running: stop them first: one, three, two"):
                    await moved(nodes[0])
        with pytest.raises(StartupError, match=MUST_MOVE):
            BridgeThread(nodes[1]).start()
        assert "moved to" in await moved(nodes[0])
        for one in nodes:  # an old one that is started again says where its state is
            with older(), pytest.raises(StartupError, match=r"is terminated: `bridge move-state` has moved"):
                BridgeThread(one).start()
        with running(nodes) as (first, *_):
            load.wait(COMMITS)
            assert first.server.cluster is not None
            assert first.server.cluster.view.ids == ids
            assert set(first.server.security.users()) == {"admin", "alice"}
            with pytest.raises(StartupError, match="these nodes are running: stop them first: one, three, two"):
                await moved(nodes[0], undo=True)
        assert "moved to" in await moved(nodes[0], undo=True)
        with pytest.raises(StartupError, match=MUST_MOVE):
            BridgeThread(nodes[2]).start()
        with older(), running(nodes) as (first, *_):
            load.wait(COMMITS)
            under_load.close()
            found = committed(bootstrap(nodes), login=login("alice"))
            assert all(found[partition] >= offset for partition, offset in load.acknowledged.items())
            assert all(offsets == set(range(max(offsets) + 1)) for offsets in load.read.values())  # none passed over
            assert load.stored.items() <= all_records(bootstrap(nodes), login("alice")).items()
            assert first.server.cluster is not None
            assert first.server.cluster.view.ids == ids
