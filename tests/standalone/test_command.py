"""`bridge standalone`, whole: what it prints, writes, survives and leaves behind."""

import json
import os
import re
import signal
import socket
from pathlib import Path

import pytest

from bridge.standalone import probe
from bridge.standalone.ports import HOST
from tests.standalone.running import FREE_PORTS, standalone, started
from tests.support.foreign import gone, until


@pytest.mark.usefixtures("quick_pulsar")
def test_it_shows_the_main_job_and_outlives_pulsar_but_not_the_bridge(tmp_path: Path) -> None:
    with standalone(tmp_path, "--ephemeral", *FREE_PORTS) as run:
        ready = started(run)
        output = run.output()
        for client in ("sent by kafka-python", "read by kafka-python"):
            assert re.search(rf"{client} +1,000 +(-|as sent) +dense from 0, 4 partitions +[\d,]+\n", output), output
        assert re.search(r"read by pulsar-client +1,000 +as sent +- +[\d,]+\n", output), output
        assert output.endswith(
            f"Kafka bootstrap {ready['kafka']}\nmetrics {ready['http']}/metrics, status page {ready['http']}/\n"
        )
        assert set(ready) == {"kafka", "http", "pulsar", "pulsar_http", "pid", "pulsar_pid"}

        os.kill(ready["pulsar_pid"], signal.SIGKILL)
        assert until(lambda: "Pulsar is healthy again" in run.output(), 150), run.output()
        assert "Pulsar was killed by SIGKILL: starting it again\n" in run.output()
        assert until(lambda: run.ready()["pulsar_pid"] != ready["pulsar_pid"])
        again = run.ready()
        assert again == {**ready, "pulsar_pid": again["pulsar_pid"]}

        os.kill(ready["pid"], signal.SIGKILL)
        assert run.wait() == 1
        assert "bridge: the bridge was killed by SIGKILL; its last words:" in run.output()
        assert gone(again["pulsar_pid"])
        assert not run.ready_file.exists()


@pytest.mark.usefixtures("quick_pulsar")
def test_two_workers_are_one_bridge_and_a_signal_stops_everything_and_data_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRIDGE_KAFKA_WORKERS", "2")
    data = tmp_path / "data"
    with standalone(tmp_path, "--data-dir", str(data), *FREE_PORTS) as run:
        ready = started(run)
        assert re.search(r"read by kafka-python +1,000 +as sent +dense from 0", run.output()), run.output()
        status, said = probe.get(int(ready["http"].rpartition(":")[2]), "/readyz")
        assert (status, set(json.loads(said)["checks"])) == (200, {"worker 0", "worker 1"})
        run.process.send_signal(signal.SIGTERM)
        assert run.wait() == 0
        assert run.output().endswith("stopping\neverything is stopped\n")
        assert gone(ready["pid"])
        assert gone(ready["pulsar_pid"])
        assert not run.ready_file.exists()
    assert any((data / "metadata").iterdir())
    assert "= stopped" in (data / "logs" / "bridge.log").read_text()


@pytest.mark.usefixtures("quick_pulsar")
def test_a_cluster_is_processes_of_which_each_may_be_killed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with standalone(tmp_path, "--brokers", "1", "--no-demo", "--data-dir", str(data), *FREE_PORTS) as run:
        pids = started(run)["pulsar_pids"]
        assert list(pids) == ["zookeeper", "bookie-1", "bookie-2", "bookie-3", "broker-1"]
        os.kill(pids["bookie-2"], signal.SIGKILL)
        assert until(lambda: "bookie-2 is healthy again" in run.output(), 150), run.output()
        assert "bookie-2 was killed by SIGKILL: starting it again\n" in run.output()
        assert until(lambda: run.ready()["pulsar_pids"]["bookie-2"] != pids["bookie-2"])
        last = run.ready()["pulsar_pids"]
        run.process.kill()
        run.wait()
    assert until(lambda: all(gone(pid) for pid in last.values()), 40), "the guard left some"

    with standalone(tmp_path, "--no-demo", "--data-dir", str(data), *FREE_PORTS) as run:
        assert run.wait() == 1
        assert "holds the data of a cluster (--brokers): name another" in run.output()


def test_a_taken_port_that_was_asked_for_ends_it_at_once(tmp_path: Path) -> None:
    with socket.create_server((HOST, 0)) as server:
        port = str(server.getsockname()[1])
        with standalone(tmp_path, "--ephemeral", "--kafka-port", port) as run:
            assert run.wait() == 1
            assert run.output() == (
                f"bridge: --kafka-port {port}: the port is taken; name another, or 0 for any free one\n"
            )


def install_java(directory: Path, monkeypatch: pytest.MonkeyPatch, does: str) -> None:
    """Put a script in place of Java: it tells its version, and does what the test says where it is to run something."""
    java = directory / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f'#!/bin/sh\n[ "$1" = -version ] && echo \'version "17"\' && exit\n{does}\n')
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(directory))


def test_a_corrupt_cache_that_cannot_be_repaired_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_java(tmp_path, monkeypatch, "exit 9")
    lib = tmp_path / "pulsar-kafka-bridge" / "pulsar-4.0.7" / "lib"
    lib.mkdir(parents=True)
    (lib / "pulsar-broker-4.0.7.jar").write_bytes(b"no jar")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    maven = tmp_path / "mvn"
    maven.write_text("#!/bin/sh\nexit 1\n")
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with standalone(tmp_path, "--ephemeral", *FREE_PORTS) as run:
        assert run.wait() == 1
        assert "is damaged (pulsar-broker-4.0.7.jar has sha256" in run.output()
        assert "bridge: Maven cannot fetch the jars of Apache Pulsar" in run.output()


@pytest.mark.usefixtures("pulsar_jars")
def test_a_pulsar_that_cannot_start_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_java(tmp_path, monkeypatch, "echo no memory; exit 9")
    with standalone(tmp_path, "--ephemeral", *FREE_PORTS) as run:
        assert run.wait() == 1
        assert "bridge: Pulsar exited with 9 while starting\nno memory\n" in run.output()
