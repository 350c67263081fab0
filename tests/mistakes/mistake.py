"""A mistake, where it is made, and what is printed then."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bridge.config import load
from bridge.http import ready
from bridge.standalone.ports import any_free
from tests.support.foreign import until
from tests.support.pulsar import PulsarAddress
from tests.support.sources import ROOT

_CONFINED = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
"""Root, who may then do no more than others."""
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\dZ)?")
_OWNERS = re.compile(r"is user \d+, and it is of user \d+ and group \d+, with the mode \d{4}")
_AS_TOLD = "is user 10001, and it is of user 0 and group 0, with the mode 0600"
_TIME = re.compile(r"^\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)? ", re.MULTILINE)


class Place:
    """A directory with a file of settings, and ports that are told as those that are usual."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.names: dict[str, str] = {}
        """What a run has by chance, and how the page has it."""
        self.kafka, self.http = self.port(9092), self.port(7092)
        self.pulsar = PulsarAddress("pulsar://127.0.0.1:1", "http://127.0.0.1:1")
        self.namespace = "public/default"

    def port(self, usual: int) -> int:
        """One that is free, told as this one."""
        chosen = any_free()
        self.names[str(chosen)] = str(usual)
        return chosen

    def at(self, pulsar: PulsarAddress, namespace: str) -> None:
        """Have the settings name this Pulsar and a namespace of their own."""
        self.pulsar, self.namespace = pulsar, namespace
        for url, usual in ((pulsar.service_url, "6650"), (pulsar.admin_url, "8080")):
            self.names[url.rpartition(":")[2]] = usual
        self.names |= {namespace: "public/default", namespace.partition("/")[2]: "default"}

    def file(self, name: str, text: str | bytes, mode: int = 0o600) -> Path:
        """A file of the directory."""
        path = self.directory / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        path.chmod(mode)
        return path

    def settings(self, text: str = "") -> Path:
        """bridge.toml: these, and what keeps a run to this machine where they say nothing of it."""
        tenant, _, namespace = self.namespace.partition("/")
        tables: dict[str, list[str]] = {"": []}
        into = tables[""]
        for line in text.strip().splitlines():
            if line.startswith("["):
                into = tables.setdefault(line, [])
            else:
                into.append(line)
        usual = {
            "[kafka]": [] if "listen" in text else [f'listen = "127.0.0.1:{self.kafka}"'],
            "[http]": [f'listen = "127.0.0.1:{self.http}"'],
            "[pulsar]": [
                f'service_url = "{self.pulsar.service_url}"', f'admin_url = "{self.pulsar.admin_url}"',
                f'tenant = "{tenant}"', f'namespace = "{namespace}"', "trust_state_namespace = true",
            ],
        }  # fmt: skip
        for table, lines in usual.items():
            own = tables.setdefault(table, [])
            own += [line for line in lines if not any(one.startswith(line.split(" ", 1)[0]) for one in own)]
        parts = [*tables.pop(""), *(f"{table}\n" + "\n".join(lines) for table, lines in tables.items())]
        return self.file("bridge.toml", "\n".join(parts) + "\n", 0o644)

    def run(self, *command: str | Path, environment: Mapping[str, str] | None = None) -> str:
        """What a command that has to fail, or to end, prints."""
        given = {name: value for name, value in os.environ.items() if not name.startswith("BRIDGE_")}
        given |= {"PYTHONPATH": str(ROOT), "COLUMNS": "400", "NO_COLOR": "1", **(environment or {})}
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False, env=given,
            cwd=self.directory, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert "Traceback" not in done.stdout, done.stdout
        return self.shown(done.stdout)

    def bridge(
        self, *arguments: str | Path, environment: Mapping[str, str] | None = None, as_nobody: bool = False
    ) -> str:
        """What a `bridge` command prints. `as_nobody`: without root's capabilities."""
        confined = _CONFINED if as_nobody and os.geteuid() == 0 else ()
        command = (*confined, sys.executable, "-m", "bridge", *arguments)
        return self.run(*command, environment=environment)

    def start(self, text: str = "", **environment: str) -> str:
        """What `bridge run` prints with these settings; it has to end by itself."""
        self.settings(text)
        return complaint(self.bridge("run", "--config", "bridge.toml", environment=environment))

    def served(self, text: str, act: Callable[[str], object]) -> str:
        """What a bridge with these settings logs of what it does not like while this is done with its address."""
        file = self.settings(text)
        command = (sys.executable, "-m", "bridge", "run", "--config", file)
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            try:
                http = load(file, {}).http
                assert until(lambda: process.poll() is not None or ready.ask(http) is None, 60)
                assert process.poll() is None
                act(f"127.0.0.1:{self.kafka}")
            finally:
                process.terminate()
                printed, _ = process.communicate(timeout=60)
        return "\n".join(line for line in self.shown(printed).splitlines() if " ! " in line)

    def shown(self, text: str) -> str:
        """It as the page has it: without times and this machine's names."""
        text = _OWNERS.sub(_AS_TOLD, _MOMENT.sub("2026-01-31 12:00", _TIME.sub("", text))).replace(
            f"{self.directory}/", ""
        )
        for chance, usual in self.names.items():
            text = text.replace(chance, usual)
        return text.strip()


def complaint(text: str) -> str:
    """The lines that a command ends with, without what it has logged before."""
    return "\n".join(line for line in text.splitlines() if line.startswith("bridge: "))


@dataclass(frozen=True)
class Mistake:
    """One of them."""

    what: str
    make: Callable[[Place], str]
    """Makes it; what is printed."""
    remedy: str
    """The part of what is printed that says what to do; none where it only says what is wrong."""


def settings(what: str, text: str, remedy: str, **environment: str) -> Mistake:
    """One that is in the settings."""
    return Mistake(what, lambda place: place.start(text, **environment), remedy)
