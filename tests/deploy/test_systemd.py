"""The systemd unit: systemd's own judgement of it, and a bridge that works under its filters."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer

from bridge.cli.command import main
from bridge.config import Settings, load
from bridge.http import ready
from bridge.node.server import DRAIN_SECONDS
from bridge.standalone.ports import any_free
from tests.deploy.unit import SECRETS, UNIT, allowed_calls, analyze, settings
from tests.support.bridges import settings_for
from tests.support.certificates import Authority
from tests.support.foreign import until
from tests.support.pulsar import PulsarAddress
from tests.support.sources import ROOT

EXPOSURE = 1.1
"""What `systemd-analyze security` may find at most, of 10: what is left is the network, which the bridge is for."""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The unit with its drop-in, and a program at the path that it names: systemd looks for one."""
    program = tmp_path / "bridge"
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    named = settings()["ExecStart"][0].split()[0]
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text("utf-8").replace(named, str(program)), encoding="utf-8")
    shutil.copytree(SECRETS.parent, tmp_path / SECRETS.parent.name)
    return unit


@pytest.mark.programs
def test_systemd_finds_no_mistake_in_it(installed: Path) -> None:
    said = analyze("verify", "--man=no", str(installed))
    assert (said.returncode, said.stdout, said.stderr) == (0, "", "")
    with (installed.with_name(SECRETS.parent.name) / SECRETS.name).open("a", encoding="utf-8") as part:
        part.write("NoNewPrivilege=true\n")
    assert "NoNewPrivilege" in analyze("verify", "--man=no", str(installed)).stderr


@pytest.mark.programs
def test_systemd_finds_little_that_it_could_still_do(installed: Path) -> None:
    said = analyze("security", "--offline=true", "--no-pager", f"--threshold={EXPOSURE * 10:.0f}", str(installed))
    assert said.returncode == 0, said.stdout


def test_it_runs_a_command_of_ours_and_waits_for_longer_than_a_stop_takes(capsys: pytest.CaptureFixture[str]) -> None:
    _, command, option, file = settings()["ExecStart"][0].split()
    assert (option, file) == ("--config", "/etc/bridge/bridge.toml")
    with pytest.raises(SystemExit, match="0"):
        main([command, "--help"])
    assert option in capsys.readouterr().out
    assert int(settings()["TimeoutStopSec"][0]) > DRAIN_SECONDS + Settings().cluster.drain_seconds
    assert int(settings()["LimitNOFILE"][0]) > 2 * Settings().kafka.max_connections


def test_the_names_of_the_secrets_are_settings(tmp_path: Path) -> None:
    credentials = {line.partition(":")[0] for line in settings(SECRETS)["LoadCredential"]}
    variables = dict(line.split("=", 1) for line in settings(SECRETS)["Environment"])
    assert {value.removeprefix("%d/") for value in variables.values()} == credentials
    signed = Authority(tmp_path).sign("node")
    secret = tmp_path / "secret"
    secret.write_text("a-token-of-some-length\n", encoding="utf-8")
    given = {name: signed.key if value.endswith(".key") else str(secret) for name, value in variables.items()}
    listener = {
        "BRIDGE_KAFKA_LISTENERS": "SASL_SSL://127.0.0.1:0",
        "BRIDGE_LISTENER_SASL_SSL_SSL_CERTIFICATE_FILE": signed.certificate,
    }
    found = load(None, {**given, **listener})
    assert found.pulsar.token_file == found.http.token_file == str(secret)


@pytest.mark.programs
def test_the_filter_takes_away_what_it_says() -> None:
    allowed = allowed_calls()
    assert {"read", "epoll_wait", "futex", "mmap"} <= allowed
    assert not {"setpriority", "chown", "reboot", "bpf", "mount", "ptrace"} & allowed


@contextmanager
def confined(settings: Settings, directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A bridge under the unit's filters."""
    file = directory / "bridge.toml"
    file.write_text(settings.to_toml(), encoding="utf-8")
    bridge = [sys.executable, "-P", "-m", "bridge", "run", "--config", str(file)]
    with (directory / "log").open("wb") as log:
        command = [sys.executable, "-m", "tests.deploy.confined", *bridge]
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
    try:
        assert until(lambda: ready.ask(settings.http) is None or process.poll() is not None, 60)
        assert process.poll() is None, (directory / "log").read_text("utf-8")
        yield process
    finally:
        process.kill()
        process.wait()


def until_state(manager: socket.socket) -> bytes:
    """The next state that systemd is told of."""
    while True:
        told = manager.recv(4096)
        if not told.startswith(b"STATUS="):
            return told


@pytest.mark.parametrize("workers", [1, 2])
def test_the_bridge_works_under_its_filters(
    pulsar: PulsarAddress, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    """And systemd is told when it serves, and when it stops."""
    address, http = f"127.0.0.1:{any_free()}", f"127.0.0.1:{any_free()}"
    kafka = {"listen": address, "workers": workers, "worker_port": 0}
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(str(tmp_path / "notify"))
    manager.settimeout(30)
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    settings = settings_for(pulsar, namespace, {"kafka": kafka, "http": {"listen": http}})
    topic = f"confined-{workers}"
    with manager, confined(settings, tmp_path) as process:
        assert until_state(manager) == b"READY=1"
        with KafkaProducer(bootstrap_servers=address, compression_type="gzip") as producer:
            assert producer.send(topic, b"value" * 100_000, b"key").get(30).offset == 0
        options = {"group_id": topic, "auto_offset_reset": "earliest"}
        consumer = KafkaConsumer(topic, bootstrap_servers=address, **options)
        assert next(consumer).value == b"value" * 100_000
        consumer.close()
        process.send_signal(signal.SIGTERM)
        assert until_state(manager) == b"STOPPING=1"
        assert process.wait(30) == 0, (tmp_path / "log").read_text("utf-8")
