"""Where the commands ask, how they log in, and what they say of an endpoint that is not there."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bridge.access.password_file import line_of
from bridge.standalone.ports import HOST, any_free
from tests.cli.kafka.conftest import Said
from tests.security.users import credential
from tests.support.bridges import BridgeThread
from tests.support.certificates import Authority

Run = Callable[..., Said]


def test_a_server_that_is_not_there_is_named_with_the_reason(run: Run) -> None:
    address = f"{HOST}:{any_free()}"
    code, _, complaint = run("topic", "list", "--bootstrap", address)
    assert code == 1
    assert complaint.startswith(f"bridge: {address}: ")
    assert "Connection refused" in complaint


def test_a_file_of_settings_says_where_the_bridge_is(bridge: BridgeThread, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "bridge.toml"
    file.write_text(f'[kafka]\nlisten = "{bridge.kafka}"\n')
    assert run("topic", "list", "--config", str(file))[0] == 0


def test_over_tls_with_a_password(
    bridge_with: Callable[..., BridgeThread], run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    signed = authority.sign("server")
    users = tmp_path / "users"
    users.write_text(line_of("alice", credential("SCRAM-SHA-256", "wonder land")) + "\n")
    running = bridge_with(
        kafka={"listen": "127.0.0.1:9092", "listeners": f"SASL_SSL://{HOST}:0"},
        listener={"SASL_SSL": {"ssl_certificate_file": signed.certificate, "ssl_key_file": signed.key}},
        security={"password_file": str(users)},
    )
    at = ("--bootstrap", running.kafka, "--tls-ca", authority.file, "--user", "alice")
    password = tmp_path / "password"
    password.write_text("wonder land\n")
    assert run("topic", "list", *at, "--password-file", str(password))[0] == 0
    monkeypatch.setenv("BRIDGE_KAFKA_PASSWORD", "wonder land")
    assert run("topic", "list", *at)[0] == 0
    monkeypatch.setenv("BRIDGE_KAFKA_PASSWORD", "wrong")
    code, _, complaint = run("topic", "list", *at)
    assert code == 1
    assert "uthentication failed" in complaint
    assert "wrong" not in complaint
    assert run("topic", "list", *at, "--tls-cert", "gone.pem")[::2] == (2, "bridge: there is no file gone.pem\n")
