"""Pulsar's disk is full: nothing acknowledged is lost, the bridge says so, and goes on when there is space."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from bridge.node.orphans import Guard
from bridge.standalone import probe
from tests.faults.checker import Load, load
from tests.faults.disk import Disk, mounted
from tests.faults.ledgers import ledger_starts
from tests.faults.processes import resident_bytes
from tests.support.bridges import BridgeChild, settings_for
from tests.support.pulsar import NewPulsar, PrivatePulsar

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system, which takes root"),
]

PARTITIONS = 3
TIMEOUT_SECONDS = 120.0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with mounted(tmp_path / "disk") as made:
        yield made


@pytest.fixture
def small(disk: Disk, new_pulsar: NewPulsar) -> Iterator[PrivatePulsar]:
    """A Pulsar whose data is there."""
    started = new_pulsar(directory=disk.path / "pulsar")
    started.start()
    yield started
    started.kill()


@contextmanager
def loaded(small: PrivatePulsar, topic: str, guard: Guard, work: Path) -> Iterator[tuple[BridgeChild, Load]]:
    """A bridge before it, and clients at work."""
    with (
        BridgeChild(settings_for(small, small.create_namespace()), work / "bridge", guard) as child,
        load(child.kafka, topic, PARTITIONS) as running,
    ):
        running.more(100)
        yield child, running


def writes(child: BridgeChild) -> str:
    """What /readyz says of them."""
    _, body = probe.get(int(child.http.rpartition(":")[2]), "/readyz", seconds=30)
    said: str = json.loads(body)["checks"]["writes"]
    return said


def wait_until(what: str, holds: Callable[[], bool]) -> None:
    until = time.monotonic() + TIMEOUT_SECONDS
    while not holds():
        assert time.monotonic() < until, f"not within {TIMEOUT_SECONDS:.0f} s: {what}"
        time.sleep(0.5)  # what a server writes or tells gives no event


def stalled(child: BridgeChild, running: Load) -> None:
    """Wait until the bridge says so, once, and see that it keeps nothing meanwhile but what clients wait for."""
    before = resident_bytes(child.pid)
    wait_until("readyz tells of refused writes", lambda: "refused all" in writes(child))
    assert child.process.child.output.read_text().count("! pulsar stores nothing") == 1
    assert resident_bytes(child.pid) - before < 64 << 20
    print("figures:", writes(child), running.progress())


def test_a_bookie_that_takes_no_more_is_a_pause(
    disk: Disk, small: PrivatePulsar, guard: Guard, topic: str, tmp_path: Path
) -> None:
    with loaded(small, topic, guard, tmp_path) as (child, running):
        disk.fill(leave=3_000_000)  # less than the hundredth at which it turns read-only (diskUsageThreshold)
        stalled(child, running)
        disk.free()
        wait_until("readyz is content", lambda: writes(child) == "ok")
        gap = running.recovery()
        verdict = running.stop()
    print("figures:", verdict, "recovery:", round(gap, 2))
    verdict.check(gap_ends=ledger_starts(small, child.namespace, topic, PARTITIONS))


def test_a_bookie_that_died_of_it_takes_a_restart(
    disk: Disk, small: PrivatePulsar, guard: Guard, topic: str, tmp_path: Path
) -> None:
    with loaded(small, topic, guard, tmp_path) as (child, running):
        disk.fill()  # the journal cannot be written
        stalled(child, running)
        disk.free()
        small.stop()
        small.start()
        gap = running.recovery()
        verdict = running.stop()
        assert child.process.child.output.read_text().count("= pulsar stores again") == 1
    print("figures:", verdict, "recovery:", round(gap, 2))
    verdict.check(gap_ends=ledger_starts(small, child.namespace, topic, PARTITIONS))


@pytest.mark.usefixtures("quick_pulsar")
def test_standalone_starts_its_pulsar_again_until_there_is_space(disk: Disk, tmp_path: Path) -> None:
    log, ready = tmp_path / "log", tmp_path / "ready.json"
    ports = [part for name in ("kafka", "http", "pulsar") for part in (f"--{name}-port", "0")]
    command = [sys.executable, "-m", "bridge", "standalone", "--no-demo", "--ready-file", str(ready)]
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [*command, "--data-dir", str(disk.path / "data"), *ports], stdout=output, stderr=subprocess.STDOUT
        ) as process,
    ):
        try:
            wait_until("it is ready", lambda: ready.exists())
            settings = {"bootstrap.servers": json.loads(ready.read_text())["kafka"], "message.timeout.ms": 900_000}
            producer = Producer({**settings, "enable.idempotence": True, "log_level": 0})
            producer.produce("full", b"before")
            assert producer.flush(30) == 0
            disk.fill()
            for _ in range(40):  # more than the journal has laid by, before the bookie looks at its disk
                producer.produce("full", os.urandom(900_000))
            producer.poll(0.1)
            wait_until("it is noticed", lambda: "Pulsar is unhealthy: " in log.read_text())
            wait_until("the reason is told", lambda: "not started: the disk of " in log.read_text())
            disk.free()
            wait_until("it is well", lambda: "Pulsar is healthy again" in log.read_text())
            assert producer.flush(120) == 0
        finally:
            process.terminate()
            process.wait(60)
            print(log.read_text())
