"""Files with secrets that others on the machine can read: every setting that names such a file is looked at."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from bridge.check.files import examine_files
from bridge.check.findings import Severity
from bridge.cli import command as cli
from bridge.config import ListenerSettings, Settings, load
from bridge.config.rules import fields_of
from bridge.config.secret_files import open_files
from bridge.config.sections import SECTIONS

SECRETS = {
    "http": {"ssl_key_file", "ssl_keystore_file", "ssl_key_password_file", "token_file"},
    "pulsar": {
        "token_file", "proxy_token_file", "oauth2_key_file", "tls_key_file", "tls_keystore_file",
        "tls_key_password_file",
    },
    "cluster": {"internal_secret_file"},
    "security": {"password_file"},
    "listener": {"ssl_key_file", "ssl_keystore_file", "ssl_key_password_file"},
}  # fmt: skip


@pytest.fixture
def shared() -> Iterator[Path]:
    """A directory that others can enter; pytest's own cannot be."""
    with TemporaryDirectory() as made:
        Path(made).chmod(0o711)
        yield Path(made)


def written(path: Path, mode: int, text: str = "secret") -> str:
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_which_files_hold_secrets() -> None:
    """Any setting that ends in _file is in the table, or is no secret: authorities, public keys, lists."""
    public = {"ssl_certificate_file", "ssl_client_ca_file", "ssl_client_crl_file", "tls_ca_file", "tls_cert_file",
              "oauth2_ca_file", "oauthbearer_jwks_file", "oauthbearer_jwks_ca_file",
              "token_public_key_file"}  # fmt: skip
    for section, kind in {**SECTIONS, "listener": ListenerSettings}.items():
        files = {name: setting for name, setting in fields_of(kind).items() if name.endswith("_file")}
        assert {name for name, one in files.items() if one.metadata.get("holds_secret")} == SECRETS.get(section, set())
        assert files.keys() - SECRETS.get(section, set()) <= public


@pytest.mark.parametrize(("mode", "is_open"), [(0o600, False), (0o640, False), (0o644, True), (0o602, True)])
def test_a_file_is_open_if_others_can_read_or_change_it(shared: Path, mode: int, is_open: bool) -> None:
    settings = Settings().with_values(pulsar={"token_file": written(shared / "token", mode)})
    found = open_files(settings)
    assert [(one.setting, one.mode) for one in found] == ([("pulsar.token_file", f"{mode:04o}")] if is_open else [])


def test_a_link_leads_to_the_file_and_a_closed_directory_closes_it(shared: Path) -> None:
    (shared / "closed").mkdir(mode=0o700)
    written(shared / "closed" / "token", 0o644)
    (shared / "link").symlink_to(shared / "closed" / "token")
    settings = Settings().with_values(pulsar={"token_file": str(shared / "link")})
    assert open_files(settings) == []
    (shared / "closed").chmod(0o711)
    assert len(open_files(settings)) == 1


def test_files_of_listeners_and_the_settings_with_a_token_are_among_them(shared: Path) -> None:
    key = written(shared / "key", 0o644)
    listener = f'[listener.SSL]\nssl_key_file = "{key}"\nssl_certificate_file = "{key}"\n'
    text = f'[pulsar]\ntoken = "the token of Pulsar"\n{listener}'
    file = Path(written(shared / "bridge.toml", 0o644, '[kafka]\nlisteners = "SSL://127.0.0.1:1"\n' + text))
    settings = load(file, {})
    assert {(one.setting, one.path) for one in open_files(settings, file)} == {
        ("pulsar.token", str(file)), ("listener.SSL.ssl_key_file", key),
    }  # fmt: skip
    file.write_text(file.read_text().replace('token = "the token of Pulsar"', ""))
    by_environment = load(file, {"BRIDGE_PULSAR_TOKEN": "the token of Pulsar"})
    assert [one.path for one in open_files(by_environment, file)] == [key]


def test_the_check_and_the_start_tell_of_them_and_name_the_command(
    shared: Path, caplog: pytest.LogCaptureFixture
) -> None:
    token = written(shared / "token", 0o644)
    settings = Settings().with_values(pulsar={"token_file": token})
    (finding,) = examine_files(settings)
    assert (finding.severity, finding.remedy) == (Severity.RISK, f"chmod o-rwx {token}")
    assert token in finding.detail and "secret" not in finding.detail
    with caplog.at_level(logging.WARNING):
        cli._prepare(settings, None)
    (said,) = [line for line in caplog.records if line.name == "bridge.cli.command"]
    assert said.getMessage() == "! others on this machine can read or change a file with a secret"
    assert said.__dict__["fields"]["file"] == token
