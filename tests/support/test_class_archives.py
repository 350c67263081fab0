"""The archive of Pulsar's classes: one for each Java and class path, and none where none was made."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.class_archives import archive_of, options


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, list[Path]]:
    """A Java and its jars."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = [tmp_path / name for name in ("java", "a.jar", "b.jar")]
    for path in made:
        path.write_bytes(b"first")
    return made[0], made[1:]


def test_another_java_or_other_jars_have_another_archive(files: tuple[Path, list[Path]]) -> None:
    java, jars = files
    found = {archive_of(java, jars), archive_of(java, reversed(jars)), archive_of(java, jars[:1])}
    for path in (jars[0], java):
        path.write_bytes(b"another")
        found.add(archive_of(java, jars))
    assert len(found) == 5


def test_only_an_archive_that_is_there_is_used(files: tuple[Path, list[Path]]) -> None:
    java, jars = files
    assert options(java, jars) == ()
    archive = archive_of(java, jars)
    archive.parent.mkdir(parents=True)
    archive.touch()
    assert f"-XX:SharedArchiveFile={archive}" in options(java, jars)
