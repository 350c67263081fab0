"""`bridge user`: the users that are kept in Pulsar, without any node."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from bridge.cli.users import add, remove, show
from bridge.config import Settings
from bridge.errors import StartupError
from tests.support.bridges import settings_for
from tests.support.pulsar import PulsarAddress


@pytest.fixture
def settings(pulsar: PulsarAddress) -> Settings:
    return settings_for(pulsar, pulsar.create_namespace())


async def _shown(settings: Settings) -> list[str]:
    out = io.StringIO()
    assert await show(settings, out) == 0
    return out.getvalue().splitlines()


async def test_users_are_added_shown_and_removed(settings: Settings) -> None:
    assert await _shown(settings) == []
    await add(settings, "bob", "builder", ("SCRAM-SHA-512",), 8192)
    await add(settings, "alice", "wonder", (), 4096)
    assert await _shown(settings) == [
        "alice  SCRAM-SHA-256=4096  SCRAM-SHA-512=4096",
        "bob  SCRAM-SHA-512=8192",
    ]
    told = io.StringIO()
    assert await show(settings, told, as_json=True) == 0
    assert json.loads(told.getvalue())["users"][1] == {"name": "bob", "mechanisms": {"SCRAM-SHA-512": 8192}}
    await remove(settings, "alice", ("SCRAM-SHA-256",))
    await remove(settings, "bob", ())
    assert await _shown(settings) == ["alice  SCRAM-SHA-512=4096"]
    for name, mechanisms, said in (
        ("bob", (), "there is no user 'bob'"),
        ("alice", ("SCRAM-SHA-256",), "there is no user 'alice' with this mechanism"),
    ):
        with pytest.raises(StartupError, match=said):
            await remove(settings, name, mechanisms)


@pytest.mark.parametrize(
    ("name", "password"), [("", "x"), ("a\0b", "x"), ("n" * 600, "x"), ("alice", ""), ("alice", "x" * 20_000)]
)
async def test_what_cannot_be_a_user_is_refused_before_pulsar_is_asked(name: str, password: str) -> None:
    with pytest.raises(StartupError):
        await add(Settings(), name, password, (), 4096)


def test_the_password_is_read_from_standard_input_and_told_nowhere(settings: Settings, tmp_path: Path) -> None:
    config = tmp_path / "bridge.toml"
    config.write_text(settings.to_toml())
    command = [sys.executable, "-m", "bridge", "user", "add", "--config", str(config), "alice"]
    done = subprocess.run(command, input="open sesame\n", capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "alice may log in by SCRAM-SHA-256, SCRAM-SHA-512\n"
    assert "sesame" not in done.stdout + done.stderr
    command[4:5] = ["list"]
    shown = subprocess.run(command[:-1], capture_output=True, text=True, timeout=60, check=True)
    assert shown.stdout == "alice  SCRAM-SHA-256=4096  SCRAM-SHA-512=4096\n"


async def test_a_pulsar_that_is_away_is_told_in_one_line() -> None:
    away = Settings().with_values(
        pulsar={
            "service_url": "pulsar://127.0.0.1:1",
            "admin_url": "http://127.0.0.1:1",
            "connect_timeout_seconds": 1.0,
            "operation_timeout_seconds": 1.0,
        }
    )
    with pytest.raises(StartupError):
        await add(away, "alice", "x", (), 4096)
