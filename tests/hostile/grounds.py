"""A fresh bridge for each scene, with attackers and a well-behaved client as processes of their own beside it."""

from __future__ import annotations

import base64
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from bridge.node.orphans import Guard
from bridge.security.sasl.credentials import credential_of, salted_password
from bridge.standalone.bridge_process import BridgeProcess
from bridge.standalone.ports import HOST
from tests.faults.processes import let_pass, open_files, resident_bytes
from tests.faults.topics import create
from tests.hostile.clients import Process
from tests.hostile.healthy import USERS, Sample, Where, behave, password, user_name
from tests.hostile.measure import Peak
from tests.hostile.rows import IDLE, MIB, Row
from tests.hostile.scene import Scene, Seen, Target, play
from tests.support.bridges import settings_for
from tests.support.certificates import Authority
from tests.support.nodes import stable_ports
from tests.support.pulsar import PulsarAddress

_WARM_SECONDS, _QUIET_SECONDS, _REST_SECONDS = 1.5, 4.0, 1.5
_MECHANISM = "SCRAM-SHA-512"


class Times(NamedTuple):
    """How long the well-behaved client waited for one kind of answer, in seconds: half of them, 99 %, all."""

    half: float
    most: float
    longest: float


class Result(NamedTuple):
    """What became of a row."""

    row: Row
    seen: Seen
    grown: int
    """Bytes by which the bridge's memory was larger at most than before."""
    kept: int
    """The same, some seconds after the attackers had gone."""
    files: int
    """Descriptors more than before, then."""
    quiet: dict[str, Times]
    elsewhere: dict[str, Times]
    """While the same was done to another bridge on this machine: what the attackers take of its cores."""
    during: dict[str, Times]
    errors: list[str]

    @property
    def missed(self) -> list[str]:
        """What is not as required."""
        found = [] if self.seen.as_required else ["outcome"]
        found += ["memory"] if self.grown > self.row.memory else []
        found += [f"p99 {kind}" for kind in self.quiet if self.during[kind].most > 2 * self.quiet[kind].most]
        return found + (["errors"] if self.errors else [])


def write_users(file: Path) -> None:
    """Those that the well-behaved client logs in as."""
    lines = []
    for number in range(USERS):
        salt = secrets.token_bytes(16)
        salted = salted_password(_MECHANISM, password(number).encode(), salt, 4096)
        made = credential_of(_MECHANISM, salted, salt, 4096)
        encoded = [base64.b64encode(one).decode() for one in (salt, made.stored_key, made.server_key)]
        lines.append(f"{user_name(number)}:{_MECHANISM}$4096:{encoded[0]}${encoded[1]}:{encoded[2]}")
    file.write_text("\n".join(lines) + "\n")
    file.chmod(0o600)


class Grounds:
    """Where scenes are played."""

    def __init__(self, pulsar: PulsarAddress, directory: Path, guard: Guard) -> None:
        self._pulsar, self._directory, self._guard = pulsar, directory, guard
        self._signed = Authority(directory).sign("bridge")
        self._users = directory / "users"
        write_users(self._users)
        self._started = 0

    @contextmanager
    def bridge(self) -> Iterator[tuple[BridgeProcess, Callable[[float, int], Target]]]:
        """One with three listeners, and how it is attacked: so long, by so many."""
        self._started += 1
        *ports, http = stable_ports(4)
        names = "PLAINTEXT", "SSL", "SASL_PLAINTEXT"
        plaintext, tls, with_login = (f"{HOST}:{port}" for port in ports)
        settings = settings_for(self._pulsar, self._pulsar.create_namespace(), {
            "kafka": {
                "listen": f"{HOST}:9092",  # the default
                "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in zip(names, ports, strict=True)),
                "sasl_enabled_mechanisms": f"PLAIN,{_MECHANISM}", "max_connections": 2 * IDLE,
            },
            "listener": {"SSL": {"ssl_certificate_file": self._signed.certificate, "ssl_key_file": self._signed.key}},
            "security": {"password_file": str(self._users)},
            "http": {"listen": f"{HOST}:{http}"},
        })  # fmt: skip
        process = BridgeProcess(settings, self._directory / f"bridge-{self._started}", self._guard)
        process.start()
        try:
            create(plaintext, "healthy")
            yield process, lambda seconds, many: Target(plaintext, tls, with_login, "healthy", seconds, many)
        finally:
            process.kill()


class Theatre:
    """The attackers' process and the well-behaved client's."""

    def __init__(self, grounds: Grounds) -> None:
        self._grounds = grounds
        context = get_context("spawn")
        self._attackers, self._healthy = Process(context, play), Process(context, behave)

    def close(self) -> None:
        """End both."""
        self._attackers.stop()
        self._healthy.stop()

    def run(self, row: Row, scene: Scene, seconds: float) -> Result:
        """The well-behaved client alone, while another bridge is attacked, and while its own is; then rest."""
        with self._grounds.bridge() as (process, target):
            at = target(seconds, IDLE)
            self._healthy.pipe.send(Where(at.plaintext, at.with_login, at.topic, row.logins))
            with self._grounds.bridge() as (_, other):
                let_pass(_WARM_SECONDS)
                warm = time.monotonic()
                let_pass(_QUIET_SECONDS)
                aside = time.monotonic()
                self._attackers.ask((scene, other(seconds, IDLE)))
                gone = time.monotonic()
            let_pass(_REST_SECONDS)
            memory, files = resident_bytes(process.pid), open_files(process.pid)
            began = time.monotonic()
            with Peak(process.pid) as peak:
                seen = self._attackers.ask((scene, at))
            ended = time.monotonic()
            let_pass(_REST_SECONDS)
            kept, left = resident_bytes(process.pid) - memory, open_files(process.pid) - files
            sample: Sample = self._healthy.ask(())
        kinds = [kind for kind, waits in sample.waits.items() if waits]
        quiet, elsewhere, during = (
            {kind: times(sample.between(kind, *span)) for kind in kinds}
            for span in ((warm, aside), (aside, gone), (began, ended))
        )
        return Result(row, seen, peak.bytes - memory, kept, left, quiet, elsewhere, during, sample.errors)


def times(waits: list[float]) -> Times:
    """Of waits in order."""
    if not waits:
        return Times(float("inf"), float("inf"), float("inf"))
    return Times(waits[len(waits) // 2], waits[min(len(waits) * 99 // 100, len(waits) - 1)], waits[-1])


def shown(result: Result) -> str:
    """For people who wait for it."""
    row, spans = result.row, (result.quiet, result.elsewhere, result.during)
    waits = "; ".join(f"{kind} {' → '.join(_ms(span[kind]) for span in spans)} ms" for kind in result.quiet)
    verdict = f" MISSED: {', '.join(result.missed)}" if result.missed else ""
    memory = f"{result.grown / MIB:+.0f} MiB, after {result.kept / MIB:+.0f} MiB, {result.files:+} files"
    return f"{row.number} {row.sent}: {result.seen.text} | {memory} | {waits}{verdict} {' '.join(result.errors[:2])}"


def _ms(one: Times) -> str:
    return f"{one.half * 1000:.1f}/{one.most * 1000:.1f}/{one.longest * 1000:.0f}"
