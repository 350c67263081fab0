"""The bridge has 512 MiB and more load than fits: its clients wait, and it goes on.

The limit is the kernel's RLIMIT_DATA: what the process may write to and no other has, its threads' stacks with it. That
is at least what it has in memory. RLIMIT_AS counts address space: the C library reserves 64 MiB of it for each thread,
which is no memory. A control group takes rights that a test has not.
"""

from __future__ import annotations

import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from bridge.config import Address
from bridge.standalone import probe
from tests.faults.checker import Load, MakeWriters, under_way
from tests.faults.clients import ConfluentWriter, Writer
from tests.faults.figures import report
from tests.faults.ledgers import ledger_starts
from tests.faults.topics import wait_for
from tests.fuzz import wire
from tests.support.bridges import BridgeChild
from tests.support.freezing import frozen
from tests.support.pulsar import PrivatePulsar

MIB = 1 << 20
LIMIT = 512 * MIB
PARTITIONS = 4
WRITERS = 16
READERS = 6
NEVER_READ = 20
KEY = bytes(300_000)
SMALL: dict[str, dict[str, Any]] = {
    "kafka": {"memory_budget_bytes": 16 * MIB, "max_request_bytes": 16 * MIB, "max_fetch_bytes": 8 * MIB},
    "storage": {"cache_bytes": 64 * MIB, "max_catchup_readers": 8},
    "groups": {"max_metadata_bytes": 16 * MIB},
}
"""What a user sets who has so little, by the table of memory in docs/operations.md."""


class Rereader(threading.Thread):
    """A consumer that begins at the first record again whenever it has come to the end."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True)
        self.count = 0
        self._ended = threading.Event()
        self._starts = [TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)]
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "none",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        self._consumer.assign(self._starts)
        while not self._ended.is_set():
            for message in self._consumer.consume(100, 0.1):
                error = message.error()
                if error is None:
                    self.count += 1
                elif error.code() == KafkaError._PARTITION_EOF:
                    self._consumer.assign(self._starts)
                    break
        self._consumer.close()

    def finish(self) -> None:
        """Read no more."""
        self._ended.set()
        self.join(30)


def writers(bootstrap: str) -> MakeWriters:
    """Of records of 300 KB, whose values stay small for the checker."""

    def made(topic: str, partitions: int, changed: threading.Condition) -> list[Writer]:
        found = []
        for number in range(WRITERS):
            writer = ConfluentWriter(f"w{number}", bootstrap, topic, partitions, changed, idempotent=True)
            writer.key, writer.per_turn, writer.most_open = KEY, 1, 12
            found.append(writer)
        return [*found]

    return made


@contextmanager
def read_again(bootstrap: str, topic: str) -> Iterator[list[Rereader]]:
    """Consumers that read all there is again and again."""
    readers = [Rereader(bootstrap, topic) for _ in range(READERS)]
    for reader in readers:
        reader.start()
    try:
        yield readers
    finally:
        for reader in readers:
            reader.finish()


def metric(bridge: BridgeChild, name: str) -> float:
    """One of the bridge's own figures."""
    _, text = probe.get(Address.parse(bridge.settings.http.listen).port, "/metrics")
    return next(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name))


def status(pid: int, name: str) -> int:
    """Bytes that the kernel counts of a process (`VmSize`, `VmData`, `VmHWM`, …)."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


@contextmanager
def never_read(bridge: BridgeChild, topic: str) -> Iterator[None]:
    """Clients that ask for far more than the bridge may keep, and read nothing of it."""
    asked = b"".join(wire.fetch_request(topic, size=8 * MIB) for _ in range(20))
    with ExitStack() as opened:
        for _ in range(NEVER_READ):
            opened.enter_context(wire.connect(bridge.kafka)).sendall(asked)
        yield


@pytest.mark.timeout(180)
def test_clients_wait_where_memory_is_short(
    start_bridge: Callable[..., BridgeChild], broker: PrivatePulsar, broker_namespace: str, topic: str
) -> None:
    bridge = start_bridge(**SMALL)
    pid = bridge.pid
    resource.prlimit(pid, resource.RLIMIT_DATA, (LIMIT, LIMIT))
    with under_way(Load(bridge.kafka, topic, PARTITIONS, writers(bridge.kafka))) as running:
        running.look_ups = 3
        with read_again(bridge.kafka, topic) as readers, never_read(bridge, topic):
            running.more(20)
            with frozen(broker.pid):
                wait_for(lambda: metric(bridge, "bridge_kafka_paused_connections") > 0, "no client waits")
            running.more(20)
        verdict = running.stop()
    taken = {name: status(pid, name) // MIB for name in ("VmData", "VmHWM")}
    report(verdict=verdict, read_again=[reader.count for reader in readers], **taken)
    verdict.check(gap_ends=ledger_starts(broker, broker_namespace, topic, PARTITIONS))
    assert all(reader.count for reader in readers)
    assert bridge.process.child.running
    assert "MemoryError" not in Path(bridge.process.child.output).read_text(errors="replace")
