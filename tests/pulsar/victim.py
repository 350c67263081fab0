"""A process that holds producers on one connection until it is killed: `python -m tests.pulsar.victim URL JSON`.

JSON is a list of [topic, name, access mode]. "held" on standard output says that all are granted.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from typing import Any

from bridge.node.orphans import Guard
from bridge.pulsar import AccessMode
from tests.pulsar.one_connection import OneConnection
from tests.support.freezing import freeze
from tests.support.sources import ROOT

Held = tuple[str, str, AccessMode]


class Victim:
    """The process, seen by a test."""

    def __init__(self, guard: Guard, service_url: str, *held: Held) -> None:
        self._guard = guard
        wanted = json.dumps([[topic, name, int(mode)] for topic, name, mode in held])
        read, write = os.pipe()
        with os.fdopen(write, "wb") as output, os.fdopen(read, "rb") as said:
            self._process: subprocess.Popen[Any] = guard.popen(
                [sys.executable, "-m", "tests.pulsar.victim", service_url, wanted], output=output, cwd=ROOT
            )
            output.close()
            first = said.readline()
            if first != b"held\n":
                rest = said.read()
                self.kill()
                raise AssertionError((first + rest).decode(errors="replace"))

    def freeze(self) -> None:
        """SIGSTOP: its connection stays, and nothing answers on it."""
        freeze(self._process.pid)

    def kill(self) -> None:
        """SIGKILL, and see it end; a second time is nothing."""
        if self._process.returncode is None:
            self._process.kill()
            self._process.wait()
            self._guard.forget(self._process.pid)


async def main() -> None:
    """Hold what the command line names."""
    connection = await OneConnection.open(sys.argv[1])
    for topic, name, mode in json.loads(sys.argv[2]):
        await connection.producer(topic, name, AccessMode(mode))
    print("held", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
