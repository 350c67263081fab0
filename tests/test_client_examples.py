"""docs/clients.md: its examples run as they stand there, but for addresses, files and names of topics."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from bridge.cli import users
from bridge.config import load_text
from bridge.runtime.loop import run_async
from bridge.standalone.ports import any_free
from tests.support.bridges import BridgeThread, settings_for
from tests.support.certificates import Authority
from tests.support.examples import blocks, replaced
from tests.support.java import KAFKA, SPRING, jars_directory, java_command
from tests.support.programs import require
from tests.support.pulsar import PulsarAddress
from tests.support.sources import ROOT

PAGE = ROOT / "docs" / "clients.md"
BLOCKS = blocks(PAGE)
SECONDS = 100.0
PLAIN, SECURED, AUTHORITY = "127.0.0.1:9092", "kafka.example:9093", "/etc/kafka/ca.pem"
PYTHONS = ("kafka-python", "confluent-kafka", "aiokafka")


@dataclass(frozen=True)
class Server:
    """The bridge of the document's settings."""

    plain: str
    secured: str
    authority: str

    def example(self, text: str) -> str:
        """An example, with its own topic and group."""
        name = f"greetings-{uuid4().hex[:8]}"
        values = {PLAIN: self.plain, SECURED: self.secured, AUTHORITY: self.authority, "greetings": name}
        return replaced(text, {old: new for old, new in values.items() if old in text}).replace("readers", name)


@pytest.fixture(scope="module")
def server(pulsar: PulsarAddress, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("examples")
    authority = Authority(directory)
    files = authority.sign("server")
    first = any_free(set())
    plain, secured = (f"127.0.0.1:{port}" for port in (first, any_free({first})))
    text = replaced(
        BLOCKS["bridge.toml"],
        {
            "0.0.0.0:9093": secured,
            SECURED: secured,
            PLAIN: plain,
            "/etc/bridge/tls.crt": files.certificate,
            "/etc/bridge/tls.key": files.key,
        },
    )
    asked = load_text(text)
    base = settings_for(pulsar, pulsar.create_namespace(), {"kafka": {"listen": "127.0.0.1:9092"}})
    settings = base.with_values(
        kafka={
            "listeners": asked.kafka.listeners,
            "advertised_listeners": asked.kafka.advertised_listeners,
            "sasl_enabled_mechanisms": asked.kafka.sasl_enabled_mechanisms,
        },
        listener={
            name: {
                "ssl_certificate_file": table.ssl_certificate_file,
                "ssl_key_file": table.ssl_key_file,
            }
            for name, table in asked.listener.items()
        },
    )
    run_async(users.add(settings, "alice", "secret", (), users.ITERATIONS))
    running = BridgeThread(settings)
    running.start()
    yield Server(plain, secured, authority.file)
    running.stop()


def printed(command: list[str], directory: Path, stdin: str = "") -> str:
    done = subprocess.run(
        command, input=stdin, cwd=directory, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("secured", [False, True], ids=["plain", "with log-in"])
@pytest.mark.parametrize("client", PYTHONS)
def test_python(client: str, secured: bool, server: Server, tmp_path: Path) -> None:
    program = BLOCKS[client]
    if secured:
        (line,) = (line for line in program.splitlines() if line.startswith("server = "))
        program = replaced(program, {line: BLOCKS[f"{client}, server ="]})
    (tmp_path / "greetings.py").write_text(server.example(program))
    said = printed([sys.executable, "greetings.py"], tmp_path)
    assert said.rstrip().endswith(" 0 0 hello")


@pytest.mark.parametrize("secured", [False, True], ids=["plain", "with log-in"])
def test_kcat(secured: bool, server: Server, tmp_path: Path) -> None:
    require("kcat")
    text = BLOCKS["kcat"]
    if secured:
        text = replaced(text, {f"-b {PLAIN}": BLOCKS[f"kcat, -b {PLAIN}"].rstrip("\n")})
    assert printed(["sh", "-ec", server.example(text)], tmp_path) == "hello\n"


@pytest.mark.parametrize("name", ["client.properties", "client.properties with log-in"])
def test_java(name: str, server: Server, tmp_path: Path) -> None:
    (tmp_path / "client.properties").write_text(server.example(BLOCKS[name]))
    (tmp_path / "Greetings.java").write_text(server.example(BLOCKS["java"]))
    assert jars_directory(KAFKA).is_dir()
    said = printed(java_command("Greetings.java", "client.properties"), tmp_path)
    assert said.rstrip().endswith(" 0 0 hello")


@pytest.mark.parametrize("name", ["application.properties", "application.properties with log-in"])
def test_spring(name: str, server: Server, tmp_path: Path) -> None:
    """It reads until it is ended."""
    words = server.example(BLOCKS["spring"] + BLOCKS[name])  # of one topic
    program, _, properties = words.partition("\nspring.")
    (tmp_path / "Greetings.java").write_text(program)
    (tmp_path / "application.properties").write_text(f"spring.{properties}")
    command = java_command("Greetings.java", jars=SPRING)
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as spring:
        assert spring.stdout is not None
        watch = threading.Timer(SECONDS, spring.kill)
        watch.start()
        try:
            said = list(itertools.takewhile(lambda line: not line.endswith(" 0 0 hello\n"), spring.stdout))
            assert spring.poll() is None, "".join(said)
        finally:
            watch.cancel()
            spring.kill()


def test_every_example_is_one_that_a_test_runs() -> None:
    secured = {f"{client}, server =" for client in PYTHONS} | {f"kcat, -b {PLAIN}", "client.properties with log-in"}
    java = {"java", "client.properties", "spring", "application.properties", "application.properties with log-in"}
    registry = {"apicurio"}  # tests/clients/test_schema_registry.py, in `make soak`
    assert set(BLOCKS) == {"bridge.toml", "kcat", "spark", *PYTHONS} | java | secured | registry
