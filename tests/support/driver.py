"""A client in a process of its own that is driven by JSON lines: commands go in, answers and events come out."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

ANSWER_TIMEOUT = 120.0


class DriverError(Exception):
    """What the client in the driver raised."""

    def __init__(self, kind: str, message: str | None, code: int | None) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.code = code


class Driver:
    """A running driver: one JSON line per command and per answer; lines with a `member` are events of that member."""

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self._log = log
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=environment
            )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._stdin: IO[bytes] = self._process.stdin
        self._stdout: IO[bytes] = self._process.stdout
        self._answers: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._members: dict[str, Callable[[dict[str, Any]], None]] = {}
        self._one_at_a_time = threading.Lock()
        self._reader = threading.Thread(target=self._read, name="driver", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def call(self, operation: str, **arguments: object) -> Any:
        """Run one operation in the driver and return its result."""
        with self._one_at_a_time:
            self._stdin.write(json.dumps({"op": operation, **arguments}).encode() + b"\n")
            self._stdin.flush()
            try:
                answer = self._answers.get(timeout=ANSWER_TIMEOUT)
            except queue.Empty:
                self._process.kill()  # its answer would be taken for that to the next operation
                raise AssertionError(f"{operation} has no answer:\n{self._said()}") from None
        if answer is None:
            raise AssertionError(f"the driver died:\n{self._said()}")
        if "error" in answer:
            raise DriverError(answer["error"], answer.get("message"), answer.get("code"))
        return answer["result"]

    def listen(self, member: str, on_event: Callable[[dict[str, Any]], None]) -> None:
        """Hand the events of a member to a function, on the driver's own thread."""
        self._members[member] = on_event

    def kill(self) -> None:
        """SIGKILL; `close` is still to be called."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """End the driver: it leaves when its standard input ends."""
        self._stdin.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(30)
        self._stdout.close()

    def _read(self) -> None:
        for line in self._stdout:
            answer = json.loads(line)
            if "member" in answer:
                self._members[answer["member"]](answer)
            else:
                self._answers.put(answer)
        for on_event in self._members.values():
            on_event({"failed": "the driver died", "ended": True})
        self._answers.put(None)

    def _said(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]
