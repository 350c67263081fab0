"""The command line: exit codes and what is said."""

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bridge import __version__
from bridge.access.password_file import line_of
from bridge.cli import command as cli
from bridge.cli import parser
from bridge.codec import TWIN
from bridge.config import HttpSettings
from bridge.runtime.loop import process_count
from tests.security.users import credential
from tests.support.certificates import Authority


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
        (("run", "--wait", "-1"), "pulsar.wait_seconds = -1"),
    ],
)
def test_wrong_usage_is_told(arguments: tuple[str, ...], said: str) -> None:
    done = bridge(*arguments)
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.parametrize("command", ["run", "check"])
def test_wrong_settings_are_told_in_one_line(command: str, tmp_path: Path) -> None:
    config = tmp_path / "bridge.toml"
    config.write_text("[http]\nport = 7092\n")
    done = bridge(command, "--config", str(config))
    known = ", ".join(HttpSettings.__dataclass_fields__)
    assert (done.returncode, done.stderr) == (2, f"bridge: {config}: unknown setting http.port; known are {known}\n")


@pytest.mark.parametrize("command", ["run", "check"])
def test_a_pulsar_that_is_not_there_is_told(command: str, tmp_path: Path) -> None:
    config = tmp_path / "bridge.toml"
    # port 1 on this machine: nothing listens, and the refusal is immediate
    pulsar = '[pulsar]\nservice_url = "pulsar://127.0.0.1:1"\nadmin_url = "http://127.0.0.1:1"\n'
    config.write_text(f'[kafka]\nlisten = "127.0.0.1:0"\n[http]\nlisten = "127.0.0.1:0"\n{pulsar}')
    done = bridge(command, "--config", str(config))
    assert done.returncode == 1
    assert "pulsar://127.0.0.1:1" in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def helps() -> dict[str, str]:
    """The help of every command, by its name."""
    found: dict[str, str] = {}

    def add(parser: argparse.ArgumentParser, name: str) -> None:
        found[name] = parser.format_help()
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for word, command in action.choices.items():
                    add(command, f"{name} {word}".strip())

    add(parser.make_parser(), "")
    return found


def test_every_command_has_examples_and_exit_codes_in_its_help() -> None:
    found = helps()
    assert set(found) == {"", "user", "topic", "group", "acl", "import", *parser.EXAMPLES}
    for name, text in found.items():
        for code in parser.EXIT_CODES:
            assert f"\n  {code:<3}  " in text, name
        for what, line in parser.EXAMPLES.get(name, ()):
            assert f"  # {what}\n  {line}\n" in text


def test_the_examples_of_the_help_are_command_lines() -> None:
    for name, examples in parser.EXAMPLES.items():
        for _, line in examples:
            words = re.split(r" [|<>]", line.partition("bridge ")[2])[0].split()
            parsed = parser.make_parser().parse_args(words)
            assert " ".join(filter(None, (parsed.command, getattr(parsed, "action", None)))) == name


def test_help_is_printed() -> None:
    done = bridge("user", "add", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "bridge user add alice --config bridge.toml" in done.stdout


def test_the_exit_codes_are_those_that_are_told() -> None:
    assert set(parser.EXIT_CODES) == {0, cli.FAILED, cli.WRONG_SETTINGS, cli.INTERRUPTED}


def test_an_interruption_has_its_own_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: argparse.Namespace) -> int:
        raise KeyboardInterrupt

    monkeypatch.setitem(cli._COMMANDS, "ready", interrupted)
    assert cli.main(["ready"]) == cli.INTERRUPTED


def test_a_check_of_what_is_not_there_is_told_to_a_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRIDGE_PULSAR_SERVICE_URL", "pulsar://127.0.0.1:1")
    monkeypatch.setenv("BRIDGE_PULSAR_ADMIN_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("BRIDGE_PULSAR_OPERATION_TIMEOUT_SECONDS", "1")
    done = bridge("check", "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["fit"], told["service_url"]) == (1, False, "pulsar://127.0.0.1:1")
    assert [(row["name"], row["severity"]) for row in told["findings"]] == [
        ("reachable", "unfit"),
        ("admin reachable", "unfit"),
    ]
    assert all(row["detail"] and row["remedy"] for row in told["findings"])


def test_a_check_offline_looks_at_the_settings_and_their_files_alone(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    signed, other = authority.sign("server"), authority.sign("other")
    config = tmp_path / "bridge.toml"

    def check(key: str, users: str) -> tuple[int, dict[str, str]]:
        (tmp_path / "users").write_text(users)
        config.write_text(
            f'[kafka]\nlisteners = "SASL_SSL://127.0.0.1:0"\n[pulsar]\nservice_url = "pulsar://127.0.0.1:1"\n'
            f'[security]\npassword_file = "{tmp_path}/users"\n'
            f'[listener.SASL_SSL]\nssl_certificate_file = "{signed.certificate}"\nssl_key_file = "{key}"\n'
        )
        done = bridge("check", "--offline", "--json", "--config", str(config))
        told = json.loads(done.stdout)
        return done.returncode, {row["name"]: row["severity"] for row in told["findings"] if row["severity"] != "risk"}

    fit = {"settings": "fit", "listener.SASL_SSL": "fit", "password file": "fit"}
    assert check(signed.key, line_of("alice", credential("SCRAM-SHA-256", "wonder land")) + "\n") == (0, fit)
    assert check(other.key, "nonsense\n") == (1, fit | {"listener.SASL_SSL": "unfit", "password file": "unfit"})


def test_a_check_offline_reads_the_files_of_tokens(tmp_path: Path) -> None:
    config, ours, theirs = tmp_path / "bridge.toml", tmp_path / "pulsar", tmp_path / "http"
    config.write_text(f'[pulsar]\ntoken_file = "{ours}"\n[http]\ntoken_file = "{theirs}"\n')

    def check(pulsar: str, http: str) -> dict[str, str]:
        ours.write_text(pulsar)
        theirs.write_text(http)
        told = json.loads(bridge("check", "--offline", "--json", "--config", str(config)).stdout)
        return {row["name"]: row["severity"] for row in told["findings"] if row["name"].endswith("token_file")}

    assert check("a.b.c\n", "secret\n") == {"pulsar.token_file": "fit", "http.token_file": "fit"}
    assert check("\n", "one word too many\n") == {"pulsar.token_file": "unfit", "http.token_file": "unfit"}


def test_readiness_is_told_to_a_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRIDGE_HTTP_LISTEN", "127.0.0.1:1")
    done = bridge("ready", "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["ready"]) == (1, False)
    assert told["problem"].startswith("http://127.0.0.1:1: ")
