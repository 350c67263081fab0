"""Kafka Connect's exactly-once sources: each number once and in order, with workers that are killed or frozen."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path

import pytest

from bridge.standalone.ports import any_free
from tests.clients.endpoint import Clients, Endpoint, unique
from tests.clients.model import TIMEOUT_SECONDS, attempts
from tests.clients.transactions.confluent import ConfluentReader, ConfluentTransactions
from tests.clients.transactions.model import Seen
from tests.clients.transactions.raw import await_leaders
from tests.faults.processes import let_pass
from tests.support.java import CONNECT, QUICK_START, compiled, java_command, write_properties

SOURCES = Path(__file__).parent / "java_connect"
PARTITIONS = 4
IN_A_LIFE = 100
"""So many numbers of each partition at least are committed before a kill, and at most some more."""
FENCED = ("ProducerFencedException", "InvalidProducerEpochException")
LOOK_EVERY = 0.1


class Worker:
    """A worker of the group, as a process."""

    def __init__(self, endpoint: Endpoint, group: str, work: Path) -> None:
        work.mkdir()
        self._port = any_free()
        topics = {f"{kind}_storage_topic": f"{group}-{kind}" for kind in ("config", "offset", "status")}
        replication = {f"{kind}_storage_replication_factor": "1" for kind in ("config", "offset", "status")}
        properties = write_properties(
            work / "worker.properties",
            bootstrap_servers=endpoint.kafka,
            group_id=group,
            key_converter="org.apache.kafka.connect.storage.StringConverter",
            value_converter="org.apache.kafka.connect.storage.StringConverter",
            listeners=f"http://127.0.0.1:{self._port}",
            exactly_once_source_support="enabled",
            # who comes after a kill waits for the end of the session, and no longer
            scheduled_rebalance_max_delay_ms="0",
            session_timeout_ms="6000",
            heartbeat_interval_ms="500",
            # a worker that starts reads its offsets, and waits at those of transactions that a killed one has left
            producer_transaction_timeout_ms="8000",
            offset_storage_partitions="1",
            status_storage_partitions="1",
            **topics,
            **replication,
        )
        self._log = work / "log"
        command = java_command(
            "org.apache.kafka.connect.cli.ConnectDistributed", properties, heap="512m", jars=CONNECT,
            classes=compiled(SOURCES, CONNECT), log_level="info",
            options=(*QUICK_START, "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.connect.runtime.Worker=debug"),
        )  # fmt: skip
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def configure(self, **settings: str) -> None:
        """Make or change a connector, as soon as the group can."""
        body = json.dumps({name.replace("_", "."): value for name, value in settings.items()})
        for _ in attempts("a connector"):
            with suppress(OSError), closing(HTTPConnection("127.0.0.1", self._port, TIMEOUT_SECONDS)) as http:
                http.request(
                    "PUT", f"/connectors/{settings['name']}/config", body, {"Content-Type": "application/json"}
                )
                if http.getresponse().status in (HTTPStatus.OK, HTTPStatus.CREATED):
                    return
            let_pass(LOOK_EVERY)  # it does not serve yet, or there is a rebalance

    def said(self, text: str) -> bool:
        """Whether its log has it."""
        return text in self._log.read_text(errors="replace")

    def freeze(self) -> None:
        """SIGSTOP."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """SIGCONT."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.wait()


class Numbers:
    """The connector, and what it has committed."""

    def __init__(self, endpoint: Endpoint, clients: Clients, work: Path) -> None:
        self._endpoint, self._work = endpoint, work
        self._group, self._topic = unique("connect"), unique("numbers")
        clients["confluent"].create_topic(self._topic, PARTITIONS)
        await_leaders(endpoint.kafka, self._topic, PARTITIONS)
        self._reader: ConfluentReader = ConfluentTransactions(endpoint.kafka).reader(
            self._topic, range(PARTITIONS), committed=True
        )
        self.read: Seen = {partition: [] for partition in range(PARTITIONS)}

    @contextmanager
    def worker(self, name: str) -> Iterator[Worker]:
        """A worker until the end of the block, which kills it."""
        one = Worker(self._endpoint, self._group, self._work / name)
        try:
            yield one
        finally:
            one.kill()

    def configure(self, worker: Worker, count: int, tasks: int) -> None:
        """Have so many tasks write so many numbers into each partition."""
        worker.configure(
            name=self._topic, connector_class="NumberSource", topic=self._topic, partitions=str(PARTITIONS),
            count=str(count), tasks_max=str(tasks), exactly_once_support="required",
        )  # fmt: skip

    def until(self, what: str, condition: Callable[[], bool]) -> None:
        """Read on until it has come true."""
        for _ in attempts(what):
            for partition, values in self._reader.read().items():
                self.read[partition] += values
            if condition():
                return
            let_pass(LOOK_EVERY)

    def until_read(self, count: int) -> None:
        """Read on until there are so many of each partition."""
        self.until(f"{count} numbers", lambda: min(map(len, self.read.values())) >= count)

    def close(self) -> None:
        """Let go."""
        self._reader.close()


@pytest.fixture
def numbers(endpoint: Endpoint, clients: Clients, tmp_path: Path) -> Iterator[Numbers]:
    """Return the connector."""
    with closing(Numbers(endpoint, clients, tmp_path)) as made:
        yield made


def exactly(count: int) -> Seen:
    return {partition: [str(number) for number in range(count)] for partition in range(PARTITIONS)}


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(1, id="killed"),
        pytest.param(20, id="killed-often", marks=[pytest.mark.soak, pytest.mark.timeout(1800)]),
    ],
)
def test_a_source_goes_on_where_it_has_committed(numbers: Numbers, kills: int) -> None:
    count = 2 * IN_A_LIFE * (kills + 1)
    for life in range(kills):
        with numbers.worker(f"life-{life}") as worker:
            if life == 0:
                numbers.configure(worker, count, tasks=2)
            numbers.until_read(min(map(len, numbers.read.values())) + IN_A_LIFE)
    with numbers.worker("last"):
        numbers.until_read(count)
    assert numbers.read == exactly(count)


@pytest.mark.soak  # a producer of the same id fences each other one: tests/clients/test_transactions.py
def test_a_frozen_worker_is_fenced(numbers: Numbers) -> None:
    count = 3 * IN_A_LIFE
    with numbers.worker("frozen") as frozen:
        numbers.configure(frozen, count, tasks=PARTITIONS)
        numbers.until_read(1)
        frozen.freeze()
        with numbers.worker("next") as worker:
            numbers.until_read(max(map(len, numbers.read.values())) + 1)
            numbers.configure(worker, count, tasks=2)
            numbers.until("the fencing", lambda: worker.said("Fencing out 4 task producers"))
            frozen.go_on()
            numbers.until_read(count)
            numbers.until("the end of the frozen one's tasks", lambda: any(map(frozen.said, FENCED)))
    assert numbers.read == exactly(count)
