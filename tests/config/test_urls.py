"""What of a URL is told."""

import pytest

from bridge.cli.command import main
from bridge.config.urls import url_without_secrets, without_secrets


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("pulsar://h:6650", "pulsar://h:6650"),
        ("http://me:pw@h:8080/x", "http://(not shown)@h:8080/x"),
        ("http://pw@h", "http://(not shown)@h"),
        ("http://me:p/w@h", "http://(not shown)@h"),
        ("http://me:p@w@h", "http://(not shown)@h"),
        ("http://me:p w@h", "http://(not shown)@h"),
        ("http://me:pw@a,me:pw@b", "http://(not shown)@b"),
        ("http://h/?token=pw", "http://h/?(not shown)"),
        ("http://h/#pw", "http://h/?(not shown)"),
        ("persistent://public/default/a@b?c", "persistent://public/default/a@b?c"),
        ("", ""),
    ],
)
def test_who_logs_in_is_not_told(url: str, told: str) -> None:
    assert url_without_secrets(url) == told


def test_each_url_of_a_text_is_cleaned() -> None:
    text = "GET http://me:pw@h/x?y: refused; 'http://k:pw@i' too, me@here not"
    assert (
        without_secrets(text)
        == "GET http://(not shown)@h/x?(not shown) refused; 'http://(not shown)@i' too, me@here not"
    )


def test_a_long_text_takes_no_long_time() -> None:
    assert len(without_secrets("://" * 100_000)) <= 300_000


@pytest.mark.usefixtures("own_log")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SERVICE_URL", "pulsar://me:hunter2@h:6650"),
        ("SERVICE_URL", "me:hunter2@h:6650"),
        ("ADMIN_URL", "http://me:hunter2@h:x"),
        ("ADMIN_URL", "http://h/?token=hunter2"),
        ("ADMIN_URL", "http://me:hunter2@127.0.0.1:1"),
        ("OAUTH2_ISSUER_URL", "http://me:hunter2@h"),
    ],
)
@pytest.mark.parametrize("command", ["check", "run"])
def test_no_command_tells_a_password_in_a_url(
    command: str, name: str, value: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BRIDGE_PULSAR_SERVICE_URL", "pulsar://127.0.0.1:1")
    monkeypatch.setenv("BRIDGE_PULSAR_CONNECT_TIMEOUT_SECONDS", "1")
    monkeypatch.setenv("BRIDGE_KAFKA_LISTEN", "127.0.0.1:0")
    monkeypatch.setenv("BRIDGE_HTTP_LISTEN", "127.0.0.1:0")
    monkeypatch.setenv(f"BRIDGE_PULSAR_{name}", value)
    assert main([command]) != 0
    said = capfd.readouterr()
    assert "hunter2" not in said.out + said.err
    assert name.lower() in said.err + said.out or "127.0.0.1:1" in said.err + said.out
