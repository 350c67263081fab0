"""The command line: exit codes and what is said."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bridge import __version__
from bridge.codec import TWIN
from bridge.config import HttpSettings
from bridge.event_loop import process_count


def bridge(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "bridge", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_version() -> None:
    done = bridge("--version")
    assert (done.returncode, done.stdout) == (0, f"bridge {__version__} ({TWIN} codec)\n")


def test_a_codec_that_cannot_be_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRIDGE_CODEC", "quick")
    monkeypatch.setenv("BRIDGE_KAFKA_LISTEN", "127.0.0.1:0")
    for command in ("--version", "run"):
        done = bridge(command)
        assert done.returncode == 2
        assert done.stderr == "bridge: BRIDGE_CODEC=quick is none of auto, native and python\n"


def test_zero_workers_are_one_for_each_core_but_one() -> None:
    assert process_count(0) == max(len(os.sched_getaffinity(0)) - 1, 1)
    assert [process_count(asked) for asked in (1, 5)] == [1, 5]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "the following arguments are required: command"),
        (("fly",), "invalid choice: 'fly'"),
        (("standalone", "--kafka-port", "70000"), "'70000' is not a port: 1 to 65535, or 0 for any free one"),
        (("standalone", "--data-dir", "x", "--ephemeral"), "not allowed with argument --data-dir"),
    ],
)
def test_wrong_usage_is_told(arguments: tuple[str, ...], said: str) -> None:
    done = bridge(*arguments)
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.parametrize("command", ["run", "check"])
def test_wrong_settings_are_told_in_one_line(command: str, tmp_path: Path) -> None:
    config = tmp_path / "bridge.toml"
    config.write_text("[http]\nport = 9308\n")
    done = bridge(command, "--config", str(config))
    known = ", ".join(HttpSettings.__dataclass_fields__)
    assert (done.returncode, done.stderr) == (2, f"bridge: {config}: unknown setting http.port; known are {known}\n")


@pytest.mark.parametrize("command", ["run", "check"])
def test_a_pulsar_that_is_not_there_is_told(command: str, tmp_path: Path) -> None:
    config = tmp_path / "bridge.toml"
    # port 1 on this machine: nothing listens, and the refusal is immediate
    pulsar = '[pulsar]\nservice_url = "pulsar://127.0.0.1:1"\nadmin_url = "http://127.0.0.1:1"\n'
    config.write_text(f'[kafka]\nlisten = "127.0.0.1:0"\n{pulsar}')
    done = bridge(command, "--config", str(config))
    assert done.returncode == 1
    assert "pulsar://127.0.0.1:1" in done.stderr + done.stdout
    assert "Traceback" not in done.stderr
