from __future__ import annotations

import os
from pathlib import Path
from secrets import token_hex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.access.password_file import PasswordFile, _parse, line_of, secret_line
from bridge.errors import StartupError
from bridge.security.sasl.credentials import SCRAM_HASHES, ScramCredential, iterations_of
from bridge.security.sasl.mechanism import Done
from bridge.security.sasl.passwords import StoredPasswords
from bridge.security.sasl.plain import Plain
from bridge.security.sasl.scram import Scram
from tests.security.users import DECOYS, KEY, Scramp, at_once, credential, log_in

ALICE = credential("SCRAM-SHA-256", "secret of alice")
ALICE_512 = credential("SCRAM-SHA-512", "secret of alice", 8192)
BOB = credential("SCRAM-SHA-256", "secret of bob")


def write(path: Path, *lines: str, changed: int = 1) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    os.utime(path, (changed, changed))
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    lines = (line_of("alice", ALICE), "# a comment", "", line_of("alice", ALICE_512), f"  {line_of('b:o', BOB)}\r")
    return write(tmp_path / "users", *lines)


async def test_users_are_found_by_mechanism_and_name(path: Path) -> None:
    users = PasswordFile(path)
    assert await users.find("SCRAM-SHA-256", "alice") == ALICE
    assert await users.find("SCRAM-SHA-512", "alice") == ALICE_512
    assert await users.find("SCRAM-SHA-256", "b:o") == BOB
    assert await users.find("SCRAM-SHA-512", "b:o") is None
    for mechanism, credentials in (("SCRAM-SHA-256", (ALICE, BOB)), ("SCRAM-SHA-512", (ALICE_512,))):
        assert users.iterations(mechanism) == iterations_of(credentials)[mechanism]


async def test_one_line_serves_scram_and_plain(tmp_path: Path) -> None:
    users = PasswordFile(write(tmp_path / "users", line_of("alice", ALICE)))
    assert isinstance(
        await log_in(
            Scram("SCRAM-SHA-256", users, DECOYS, token_hex), Scramp("SCRAM-SHA-256", "alice", "secret of alice")
        ),
        Done,
    )
    plain = Plain(StoredPasswords(users, DECOYS, at_once, KEY))
    answer = await plain.begin().step(b"\0alice\0secret of alice", 0.0)
    assert isinstance(answer, Done)


def shown(users: PasswordFile) -> ScramCredential:
    return users.decoys().credential("SCRAM-SHA-256", "stranger", None)


def test_nodes_with_one_secret_show_strangers_the_same_also_when_users_change(tmp_path: Path) -> None:
    secret = secret_line()
    one = PasswordFile(write(tmp_path / "one", secret, line_of("alice", ALICE)))
    other = PasswordFile(write(tmp_path / "other", line_of("bob", BOB), secret))
    assert shown(one) == shown(other)
    assert shown(one) != shown(PasswordFile(write(tmp_path / "third", secret_line(), line_of("alice", ALICE))))


def test_without_a_secret_a_process_draws_one_for_what_is_in_the_file_can_be_guessed(tmp_path: Path) -> None:
    path = write(tmp_path / "users", line_of("alice", ALICE))
    assert shown(PasswordFile(path)) != shown(PasswordFile(path))


async def test_a_user_may_have_the_name_of_the_secret(tmp_path: Path) -> None:
    users = PasswordFile(write(tmp_path / "users", line_of("decoy-secret", ALICE), secret_line()))
    assert await users.find("SCRAM-SHA-256", "decoy-secret") == ALICE


async def test_users_come_and_go_with_the_file(path: Path) -> None:
    users = PasswordFile(path)
    write(path, line_of("bob", BOB), changed=2)
    assert users.refresh()
    assert await users.find("SCRAM-SHA-256", "bob") == BOB
    assert await users.find("SCRAM-SHA-256", "alice") is None
    assert users.iterations("SCRAM-SHA-512") is None


async def test_a_wrong_new_file_changes_nothing(path: Path) -> None:
    users = PasswordFile(path)
    write(path, line_of("bob", BOB), "bob", changed=2)
    assert not users.refresh()
    assert await users.find("SCRAM-SHA-256", "alice") == ALICE
    assert await users.find("SCRAM-SHA-256", "bob") is None


ENCODED = "dGhpcyBpcyBhIHNlY3JldCE="


@pytest.mark.parametrize(
    "line",
    [
        "alice",
        "alice:secret-as-it-is",
        f"alice:SCRAM-SHA-1$4096:{ENCODED}${ENCODED}:{ENCODED}",
        f"alice:SCRAM-SHA-256$4095:{ENCODED}${ENCODED}:{ENCODED}",
        f"alice:SCRAM-SHA-256$4096:{ENCODED}${ENCODED}:{ENCODED}",  # keys of a wrong length
        f"alice:SCRAM-SHA-256$x:{ENCODED}${ENCODED}:{ENCODED}",
        f"alice:SCRAM-SHA-256$4096:not*base64${ENCODED}:{ENCODED}",
        line_of("alice", ALICE)[:-1],  # a line that is cut
        line_of("x", ALICE).replace("x:", "\x07:"),
        line_of("x", ALICE)[1:],
        "decoy-secret:",
        "decoy-secret:not*base64",
        f"decoy-secret:{ENCODED}",
    ],
)
def test_a_wrong_line_is_named_by_its_number_and_not_shown(tmp_path: Path, line: str) -> None:
    path = write(tmp_path / "users", line_of("bob", BOB), line)
    with pytest.raises(StartupError, match=r"password file .*users: line 2: ") as raised:
        PasswordFile(path)
    shown = str(raised.value).partition("line 2: ")[2]
    assert not [part for part in ("as-it-is", ENCODED, "not*", line_of("x", ALICE)[20:40]) if part in shown]


def test_a_user_with_two_lines_of_a_mechanism_is_wrong_also_where_names_differ_before_preparation(
    tmp_path: Path,
) -> None:
    path = write(tmp_path / "users", line_of("IX", ALICE), line_of("IX", BOB).replace("IX", "\u2168"))
    with pytest.raises(StartupError, match="line 2: the user has a line of SCRAM-SHA-256 already"):
        PasswordFile(path)


@pytest.mark.parametrize("lines", [(), ("# only a comment",)])
def test_a_file_without_users_is_refused(tmp_path: Path, lines: tuple[str, ...]) -> None:
    with pytest.raises(StartupError, match="it has no users"):
        PasswordFile(write(tmp_path / "users", *lines))


@pytest.mark.parametrize("name", ["", "#alice", " alice", "alice ", "\u2168", "a\nb", "a\x07"])
def test_a_name_that_would_not_be_read_again_is_not_written(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be a user's name"):
        line_of(name, ALICE)


@given(
    name=st.text(min_size=1, max_size=20),
    salt=st.binary(min_size=12, max_size=40),
    mechanism=st.sampled_from(list(SCRAM_HASHES)),
    iterations=st.integers(4096, 16384),
    data=st.data(),
)
def test_what_is_written_is_read_again(
    name: str, salt: bytes, mechanism: str, iterations: int, data: st.DataObject
) -> None:
    size = 32 if mechanism == "SCRAM-SHA-256" else 64
    keys = st.binary(min_size=size, max_size=size)
    kept = ScramCredential(mechanism, salt, data.draw(keys), data.draw(keys), iterations)
    try:
        line = line_of(name, kept)
    except ValueError:
        return
    assert _parse(line.encode()).credentials == {(mechanism, name): kept}


@given(st.binary(max_size=200))
def test_any_bytes_are_users_or_a_value_error(content: bytes) -> None:
    try:
        _parse(content)
    except ValueError as error:
        assert str(error)
