"""The mechanisms of a process and its users' file."""

import asyncio
from pathlib import Path

import pytest

from bridge.access import mechanisms
from bridge.access.mechanisms import Mechanisms
from bridge.access.password_file import line_of, secret_line
from bridge.config import SecuritySettings
from bridge.errors import StartupError
from bridge.security.sasl.mechanism import Done, Failed
from tests.security.users import Scramp, credential, log_in

SECRET_LINE = secret_line()
"""Of all nodes."""


def written(path: Path, **passwords: str) -> SecuritySettings:
    lines = [line_of(name, credential("SCRAM-SHA-256", password)) for name, password in passwords.items()]
    path.with_suffix(".new").write_text("\n".join(["# users", SECRET_LINE, *lines]) + "\n")
    path.with_suffix(".new").rename(path)
    return SecuritySettings(password_file=str(path))


async def plain(made: Mechanisms, name: str, password: str) -> bool:
    exchange = made.named(["PLAIN"])["PLAIN"].begin()
    return isinstance(await exchange.step(f"\0{name}\0{password}".encode(), 0.0), Done)


async def test_one_file_serves_all_mechanisms(tmp_path: Path) -> None:
    made = Mechanisms(written(tmp_path / "users", alice="wonder"))
    assert list(made.named(["SCRAM-SHA-512", "PLAIN"])) == ["SCRAM-SHA-512", "PLAIN"]
    assert await plain(made, "alice", "wonder")
    assert not await plain(made, "alice", "under")
    scram = made.named(["SCRAM-SHA-256"])["SCRAM-SHA-256"]
    assert isinstance(await log_in(scram, Scramp("SCRAM-SHA-256", "alice", "wonder")), Done)
    assert isinstance(await log_in(scram, Scramp("SCRAM-SHA-256", "bob", "wonder")), Failed)


async def test_it_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mechanisms, "_REFRESH_SECONDS", 0.01)
    path = tmp_path / "users"
    made = Mechanisms(written(path, alice="wonder"))
    made.start()
    try:
        written(path, alice="wonder", bob="builder")
        async with asyncio.timeout(30):
            while not await plain(made, "bob", "builder"):
                pass
    finally:
        made.stop()


async def test_unknown_users_are_shown_the_same_salt_on_all_nodes_also_when_users_are_added(tmp_path: Path) -> None:
    shown = []
    for number, users in enumerate([{"alice": "a"}, {"alice": "a", "bob": "b"}]):
        made = Mechanisms(written(tmp_path / f"users-{number}", **users))
        exchange = made.named(["SCRAM-SHA-256"])["SCRAM-SHA-256"].begin()
        step = await exchange.step(Scramp("SCRAM-SHA-256", "stranger", "x").first(), 0.0)
        shown.append(step.data.partition(b",s=")[2])  # type: ignore[union-attr]
    assert shown[0] == shown[1] != b""


def test_a_file_without_users_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "users").write_text("# none\n")
    with pytest.raises(StartupError, match="it has no users"):
        Mechanisms(SecuritySettings(password_file=str(tmp_path / "users")))
