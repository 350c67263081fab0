"""Flink's sink writes each number exactly once, whether its job fails or the whole of Flink is killed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.clients.endpoint import Clients, Endpoint, unique
from tests.clients.model import attempts
from tests.clients.transactions.confluent import ConfluentTransactions
from tests.clients.transactions.raw import await_leaders
from tests.faults.processes import let_pass
from tests.support.java import COMMAND_TIMEOUT, FLINK, compiled, java_command

SOURCES = Path(__file__).parent / "java_flink"
PARTITIONS = 2
RATE = 400
"""So many numbers a second, so that some are of an open transaction at any time."""
BETWEEN_KILLS = 300
"""So many numbers are committed in each life at least."""
IN_A_LIFE = 2000
"""More than there are until the kill, also where checkpoints take seconds: at the end there is nothing left to fail."""
FAILURES = 2
"""So often the job fails in each life of the process."""
LOOK_EVERY = 0.1


class Job:
    """A job that writes the numbers below a count, as a process with a whole Flink."""

    def __init__(self, endpoint: Endpoint, topic: str, work: Path, naming: str, count: int) -> None:
        self._checkpoints, self._log = work / "checkpoints", work / "log"
        self._settings = {
            "bootstrap": endpoint.kafka, "topic": topic, "checkpoints": str(self._checkpoints), "prefix": topic,
            "naming": naming, "count": str(count), "rate": str(RATE), "failures": str(FAILURES),
        }  # fmt: skip

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        """The process, from the newest checkpoint on, until the end of the block, which kills it."""
        complete = sorted(self._checkpoints.glob("*/chk-*/_metadata"), key=lambda each: each.stat().st_mtime_ns)
        restore = {"restore": complete[-1].parent.as_uri()} if complete else {}
        settings = [f"{name}={value}" for name, value in (self._settings | restore).items()]
        classes = compiled(SOURCES, FLINK)
        command = java_command("Numbers", *settings, heap="768m", jars=FLINK, classes=classes, log_level="info")
        with self._log.open("ab") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
            try:
                yield process
            finally:
                process.kill()

    def restored(self) -> int:
        """How often it has gone on from a checkpoint."""
        return self._log.read_text(errors="replace").count("CheckpointCoordinator - Restoring job")


@pytest.mark.parametrize("naming", ["INCREMENTING", pytest.param("POOLING", marks=pytest.mark.soak)])
@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(1, id="killed"),
        pytest.param(20, id="killed-often", marks=[pytest.mark.soak, pytest.mark.timeout(900)]),
    ],
)
def test_each_number_is_written_exactly_once(
    endpoint: Endpoint, clients: Clients, tmp_path: Path, naming: str, kills: int
) -> None:
    topic = unique("flink")
    clients["confluent"].create_topic(topic, PARTITIONS)
    await_leaders(endpoint.kafka, topic, PARTITIONS)
    count = IN_A_LIFE * (kills + 1)
    job = Job(endpoint, topic, tmp_path, naming, count)
    read: list[int] = []
    with closing(ConfluentTransactions(endpoint.kafka).reader(topic, range(PARTITIONS), committed=True)) as reader:

        def read_on() -> None:
            for values in reader.read().values():
                read.extend(map(int, values))

        for life in range(kills):
            with job.running():
                wanted, restored = len(read) + BETWEEN_KILLS, job.restored() + FAILURES
                for _ in attempts(f"more numbers in life {life}"):
                    read_on()
                    if len(read) > wanted and job.restored() >= restored:
                        break
                    let_pass(LOOK_EVERY)
        with job.running() as process:
            assert process.wait(COMMAND_TIMEOUT) == 0
        read_on()
    assert sorted(read) == list(range(count))
