"""kcat's transactions, by Debian's librdkafka: a run is one transaction, which the end of its input commits.

It aborts none: where it is ended in the midst of its input, its transaction stays until the next run or its time-out.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence

from tests.clients.model import TIMEOUT_SECONDS
from tests.clients.transactions.model import Ended, Seen
from tests.support.kcat import run_kcat
from tests.support.programs import require

_END = re.compile(r"Reached end of topic \S+ \[\d+\] at offset (\d+)")


class KcatTransaction:
    """A run, whose transaction begins with it."""

    def __init__(self, bootstrap: str, topic: str, transactional_id: str) -> None:
        command = [require("kcat"), "-b", bootstrap, "-P", "-t", topic, "-p", "0"]
        own = ["-X", f"transactional.id={transactional_id}", "-X", "linger.ms=0"]
        self._process = subprocess.Popen([*command, *own], stdin=subprocess.PIPE, stderr=subprocess.PIPE)

    def send(self, *values: str) -> None:
        """Write records, which are on their way then."""
        assert self._process.stdin is not None
        self._process.stdin.write("".join(f"{value}\n" for value in values).encode())
        self._process.stdin.flush()

    def commit(self) -> None:
        """Commit; raises Ended."""
        _, said = self._process.communicate(timeout=TIMEOUT_SECONDS)
        if self._process.returncode != 0:
            raise Ended(said.decode(errors="replace"))

    def close(self) -> None:
        """SIGKILL, whatever is open."""
        self._process.kill()
        self._process.communicate()


class KcatReaders:
    """Its readers; it has no way to commit offsets in a transaction."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def reader(self, topic: str, partitions: Sequence[int], *, committed: bool) -> KcatReader:
        """A reader of committed records, or of all."""
        return KcatReader(self._bootstrap, topic, partitions, committed)


class KcatReader:
    """A run for each partition and each time."""

    def __init__(self, bootstrap: str, topic: str, partitions: Sequence[int], committed: bool) -> None:
        self._bootstrap, self._topic = bootstrap, topic
        self._level = "read_committed" if committed else "read_uncommitted"
        self._positions = dict.fromkeys(partitions, 0)

    def read(self) -> Seen:
        """Read up to the ends of its level."""
        return {partition: self._read_one(partition) for partition in self._positions}

    def position(self, partition: int) -> int:
        """Where it is."""
        return self._positions[partition]

    def close(self) -> None:
        """Nothing stays open."""

    def _read_one(self, partition: int) -> list[str]:
        arguments = ["-C", "-t", self._topic, "-p", str(partition), "-o", str(self._positions[partition]), "-e", "-J"]
        own = ["-X", f"isolation.level={self._level}", "-X", "fetch.wait.max.ms=20"]
        out, said = run_kcat(self._bootstrap, *arguments, *own)
        end = _END.search(said.decode())
        assert end is not None, said
        self._positions[partition] = int(end[1])
        return [json.loads(line)["payload"] for line in out.splitlines()]
