"""A bridge of the version before many nodes beside new ones: they say so by name, and nothing acknowledged is lost.

It is taken from the repository's history, for it cannot be had otherwise.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition

from bridge.standalone.child import Child
from bridge.standalone.guard import Guard
from bridge.standalone.ports import HOST
from tests.faults.clients import read_cold
from tests.faults.figures import report
from tests.faults.topics import WAIT, consumer, create, wait_for
from tests.support.nodes import Nodes, stable_ports
from tests.support.pulsar import PrivatePulsar
from tests.support.servers import KafkaServer
from tests.support.sources import ROOT

pytestmark = pytest.mark.soak

BEFORE = "d7d7d3c"
"""The last commit whose bridge knows of no other nodes."""
PARTITIONS = 4
_RECORDS = 200


@pytest.fixture(scope="module")
def old_sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as it was."""
    packed = subprocess.run(["git", "archive", BEFORE, "bridge"], cwd=ROOT, capture_output=True, check=True).stdout
    target = tmp_path_factory.mktemp("before")
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(target, filter="data")
    return target


@pytest.fixture
def old_bridge(
    old_sources: Path, broker: PrivatePulsar, broker_namespace: str, guard: Guard, tmp_path: Path
) -> Iterator[KafkaServer]:
    """A bridge of that version on the same namespace, not started yet."""
    kafka, http = stable_ports(2)
    tenant, _, name = broker_namespace.partition("/")
    settings = tmp_path / "old.toml"
    settings.write_text(
        f'[kafka]\nlisten = "{HOST}:{kafka}"\n[http]\nlisten = "{HOST}:{http}"\n[pulsar]\n'
        f'service_url = "{broker.service_url}"\nadmin_url = "{broker.admin_url}"\n'
        f'tenant = "{tenant}"\nnamespace = "{name}"\n'
    )
    child = Child("the old bridge", guard, tmp_path / "old.log")
    command = [sys.executable, "-P", "-m", "bridge", "run", "--config", str(settings)]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("BRIDGE_")}
    launch = partial(child.start, command, environment=environment | {"PYTHONPATH": str(old_sources)})
    yield KafkaServer(child, launch, f"{HOST}:{kafka}")
    child.kill()


def acknowledged(bootstrap: str, topic: str, name: str) -> list[tuple[int, int, bytes]]:
    """Write records through one bridge; partition, offset and value of each that was acknowledged, which all are."""
    acks: list[tuple[int, int, bytes]] = []
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
    for number in range(_RECORDS):
        value = f"{name}:{number}".encode()

        def done(error: object, message: object, value: bytes = value) -> None:
            if error is not None:
                errors.append(error)
            else:
                acks.append((message.partition(), message.offset(), value))  # type: ignore[attr-defined]

        producer.produce(topic, value, partition=number % PARTITIONS, on_delivery=done)
    assert producer.flush(2 * WAIT) == 0
    assert not errors, errors[:3]
    return acks


def check_all(bootstrap: str, topic: str, acks: list[tuple[int, int, bytes]]) -> None:
    """Each acknowledged record stands where its writer was told."""
    last = [max(offset for where, offset, _ in acks if where == partition) for partition in range(PARTITIONS)]
    log = [one.records for one in read_cold(bootstrap, topic, last)]
    assert [(where, offset, value) for where, offset, value in acks if log[where].get(offset) != value] == []


def committed_by(bootstrap: str, topic: str, offset: int | None) -> int:
    """Commit an offset of partition 0 through one bridge, or (None) ask for it."""
    member = consumer(bootstrap, "earliest", group=f"{topic}-group")
    try:
        if offset is None:
            return int(member.committed([TopicPartition(topic, 0)], timeout=WAIT)[0].offset)
        wanted = [TopicPartition(topic, 0, offset)]
        return int((member.commit(offsets=wanted, asynchronous=False) or wanted)[0].offset)
    finally:
        member.close()


def said(nodes: Nodes) -> list[str]:
    """What the new ones say of the old one."""
    return [line for node in nodes.all for line in node.logged("of an older version")]


@pytest.mark.parametrize("old_first", [True, False])
def test_an_old_bridge_beside_new_ones_is_told_and_nothing_is_lost(
    start_nodes: Callable[..., Nodes], old_bridge: KafkaServer, topic: str, old_first: bool
) -> None:
    if old_first:
        old_bridge.start()
        create(old_bridge.address, topic, PARTITIONS)
        acks = acknowledged(old_bridge.address, topic, "before")
        nodes = start_nodes(2)
    else:
        nodes = start_nodes(2)
        create(nodes.bootstrap(), topic, PARTITIONS)
        acks = acknowledged(nodes.bootstrap(), topic, "before")
        old_bridge.start()
    for turn in range(3):
        acks += acknowledged(nodes.bootstrap(), topic, f"new-{turn}")
        acks += acknowledged(old_bridge.address, topic, f"old-{turn}")
        for number, address in enumerate((nodes.bootstrap(), old_bridge.address)):
            offset = 1 + 2 * turn + number
            assert committed_by(address, topic, offset) == offset
    for address in (nodes.bootstrap(), old_bridge.address):
        check_all(address, topic, acks)
    wait_for(lambda: bool(said(nodes)), "the new bridges say nothing of the old one")
    old_bridge.stop()
    acks += acknowledged(nodes.bootstrap(), topic, "after")
    assert committed_by(nodes.bootstrap(), topic, None) == 6
    check_all(nodes.bootstrap(), topic, acks)
    report(said=said(nodes)[:2])
