from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from bridge.access import files
from bridge.access.files import ReloadedFile
from bridge.errors import StartupError


def parse(content: bytes) -> bytes:
    if b"wrong" in content:
        raise ValueError("line 1: it is wrong")
    return content


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    write(path, b"first", 1)
    return path


def write(path: Path, content: bytes, changed: int) -> None:
    """Replace the file by a rename; `changed` is its time of change."""
    fresh = path.with_suffix(".new")
    fresh.write_bytes(content)
    os.utime(fresh, (changed, changed))
    fresh.rename(path)


def test_the_file_is_read_at_start_and_when_it_has_changed(path: Path) -> None:
    file = ReloadedFile(path, parse, "test file")
    assert file.value == b"first"
    assert not file.refresh()
    write(path, b"second", 2)
    assert file.refresh()
    assert file.value == b"second"
    assert not file.refresh()


def test_an_unchanged_file_is_not_read_again(path: Path) -> None:
    read = []
    file = ReloadedFile(path, lambda content: read.append(content) or content, "test file")  # type: ignore[func-returns-value]
    assert not file.refresh()
    assert read == [b"first"]


def test_a_file_that_is_written_again_with_the_same_content_is_no_news(path: Path) -> None:
    file = ReloadedFile(path, parse, "test file")
    write(path, b"first", 2)
    assert not file.refresh()
    assert file.value == b"first"


def test_a_change_within_the_clocks_tick_is_seen(path: Path) -> None:
    """The same length and time, in place: only reading tells."""
    path.write_bytes(b"first")
    stat = path.stat()
    file = ReloadedFile(path, parse, "test file")
    path.write_bytes(b"other")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert file.refresh()
    assert file.value == b"other"


@pytest.mark.parametrize("cause", ["wrong", "absent", "directory", "large"])
def test_while_the_new_content_is_wrong_the_old_one_stays_and_the_log_says_so_once(
    path: Path, cause: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = ReloadedFile(path, parse, "test file")
    if cause == "wrong":
        write(path, b"wrong", 2)
    elif cause == "large":
        monkeypatch.setattr(files, "MAX_BYTES", 3)
        write(path, b"much", 2)
    else:
        path.unlink()
        if cause == "directory":
            path.mkdir()
    with caplog.at_level(logging.ERROR):
        assert not any([file.refresh(), file.refresh(), file.refresh()])
    assert file.value == b"first"
    assert [record.getMessage() for record in caplog.records] == ["! file refused, its old content stays"]
    if cause == "directory":
        path.rmdir()
    monkeypatch.undo()
    write(path, b"third", 3)
    assert file.refresh()
    assert file.value == b"third"


def test_each_wrong_content_is_logged(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = ReloadedFile(path, parse, "test file")
    for changed in (2, 3):
        write(path, b"wrong", changed)
        file.refresh()
        file.refresh()
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 2


@pytest.mark.parametrize("content", [b"wrong", None])
def test_a_wrong_file_at_start_is_an_error_that_names_it(path: Path, content: bytes | None) -> None:
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(StartupError, match=rf"test file {path}: (line 1: it is wrong|No such file)"):
        ReloadedFile(path, parse, "test file")
