"""Runs one attack beside a well-behaved client, and measures what it costs whom."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Self
from urllib.request import urlopen

from confluent_kafka.admin import AdminClient, NewTopic

from tests.faults.processes import let_pass, resident_bytes
from tests.hostile.clients import Load, Process, Spent, Waits, attacker, canary
from tests.support.bridges import BridgeChild

_TICKS = os.sysconf("SC_CLK_TCK")
_STEP = 0.1
_AT_REST = 0.15
"""Of a core: what a bridge that only serves the well-behaved client takes, with room."""
LONGEST_WAIT = 1.0
"""Seconds that a well-behaved client waits for one answer beside one attacker, but for those without a processor."""
REST_SECONDS = 10.0
"""Work that outlives its client for so long does not end by itself. How long it takes, `make hostile` tells."""


@dataclass
class Cost:
    """What one attack cost."""

    spent: Spent
    waits: Waits
    bridge_cpu: float
    pulsar_cpu: float
    grown: int
    """Bytes by which the bridge's memory was larger at most than before."""
    held: float
    """Upper bound of the event loop's longest hold, seconds."""
    rest: float
    """Seconds until the bridge and Pulsar were at rest, after the attacker had gone."""
    kept: float
    """Seconds that the bridge and the well-behaved client wanted a processor and had none: others had them."""

    def line(self, name: str) -> str:
        """For people."""
        return (
            f"{name:58} {self.spent.sent / 1e6:7.2f} MB {self.spent.cpu:5.2f} s | {self.spent.seconds:5.2f} s "
            f"answered {self.spent.answered:6} closed {self.spent.closed:3} | bridge {self.bridge_cpu:5.2f} s "
            f"{self.grown / 2**20:+6.1f} MiB held {self.held * 1000:4.0f} ms | Pulsar {self.pulsar_cpu:5.2f} s | "
            f"canary {self.waits.longest * 1000:5.0f} ms (no processor {self.kept * 1000:.0f}) | rest {self.rest:.1f} s"
        )

    def check(self, growth: int) -> None:
        """Fail where something would be wrong on any machine; the bridge's memory may grow by so many bytes."""
        assert not self.waits.errors
        assert self.waits.longest - self.kept < LONGEST_WAIT
        assert self.grown < growth
        assert self.rest < REST_SECONDS

    def row(self, name: str) -> str:
        """For docs/limits.md."""
        answers = "closed" if self.spent.closed else f"{self.spent.answered:,}"
        return (
            f"| {name} | {self.spent.sent / 1e6:.2f} | {answers} | {self.spent.seconds:.2f} | {self.bridge_cpu:.2f} "
            f"| {self.pulsar_cpu:.2f} | {max(self.grown, 0) / 2**20:.0f} | {self.waits.longest * 1000:.0f} "
            f"| {self.rest:.1f} |"
        )


def cpu_seconds(pid: int) -> float:
    """What a process has taken of the processors."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / _TICKS


def _kept_waiting(pid: int) -> float:
    """How long the main thread of a process has waited for a processor, seconds (proc(5), `schedstat`)."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9


def _holds(http: str) -> dict[float, float]:
    found = {}
    with urlopen(f"{http}/metrics") as answer:  # noqa: S310 - our own bridge
        for line in answer.read().decode().splitlines():
            if line.startswith("bridge_event_loop_held_seconds_bucket"):
                found[float(line.partition('le="')[2].partition('"')[0])] = float(line.rpartition(" ")[2])
    return found


class Arena:
    """A bridge, its attacker and its well-behaved client."""

    def __init__(self, bridge: BridgeChild, pulsar_pid: int | None) -> None:
        self._kafka, self._http = bridge.kafka, bridge.http
        self._bridge, self._pulsar = bridge.pid, pulsar_pid
        self._admin = AdminClient({"bootstrap.servers": bridge.kafka})
        self.topic = self.victim("canary")
        context = get_context("spawn")
        self._attacker, self._canary = Process(context, attacker), Process(context, canary)

    def __enter__(self) -> Self:
        self.run(Load([], 0))  # both are up
        return self

    def __exit__(self, *_: object) -> None:
        self._attacker.stop()
        self._canary.stop()

    def victim(self, name: str) -> str:
        """A topic that exists."""
        self._admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
        return name

    def run(self, load: Load) -> Cost:
        """One attack, until the bridge and Pulsar are at rest again."""
        before, bridge, pulsar, holds, kept = (
            resident_bytes(self._bridge), self._cpu(self._bridge), self._cpu(self._pulsar), _holds(self._http),
            self._kept(),
        )  # fmt: skip
        self._canary.pipe.send((self._kafka, self.topic))
        with Peak(self._bridge) as peak:
            spent = self._attacker.ask((self._kafka, load))
            rest = self._rest()
        waits = self._canary.ask(())
        after = _holds(self._http)
        held = min(
            (le for le, count in after.items() if after[float("inf")] - count == holds[float("inf")] - holds[le]),
        )
        return Cost(
            spent, waits, self._cpu(self._bridge) - bridge, self._cpu(self._pulsar) - pulsar,
            peak.bytes - before, held, rest, self._kept() - kept,
        )  # fmt: skip

    def _kept(self) -> float:
        return _kept_waiting(self._bridge) + _kept_waiting(self._canary.pid)

    @staticmethod
    def _cpu(pid: int | None) -> float:
        return 0.0 if pid is None else cpu_seconds(pid)

    def _rest(self) -> float:
        """Wait until neither does more than the well-behaved client asks for, a few seconds at most."""
        began = time.monotonic()
        while (now := time.monotonic()) - began < 2 * REST_SECONDS:
            used = self._cpu(self._bridge), self._cpu(self._pulsar)
            let_pass(_STEP)
            seconds = time.monotonic() - now
            if self._cpu(self._bridge) - used[0] <= (_AT_REST * seconds) + 1 / _TICKS and (
                self._cpu(self._pulsar) - used[1] <= 0.5 * seconds
            ):
                return now - began
        return time.monotonic() - began


class Peak:
    """The most memory that a process has while this is open."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.bytes = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.02):
            self.bytes = max(self.bytes, resident_bytes(self._pid))
