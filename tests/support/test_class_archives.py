"""Archives of classes: one for each Java and class path, and none where none was made."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge.errors import StartupError
from tests.support.class_archives import KAFKA, PULSAR, archive_of, make, options


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
    found.add(archive_of(java, jars, KAFKA))
    for path in (jars[0], java):
        path.write_bytes(b"another")
        found.add(archive_of(java, jars))
    assert len(found) == 6


def test_only_an_archive_that_is_there_is_used(files: tuple[Path, list[Path]]) -> None:
    java, jars = files
    assert options(java, jars) == ()
    archive = archive_of(java, jars)
    archive.parent.mkdir(parents=True)
    archive.touch()
    assert f"-XX:SharedArchiveFile={archive}" in options(java, jars)


def test_what_a_program_loads_is_kept_once_and_takes_the_place_of_an_older_archive(
    files: tuple[Path, list[Path]],
) -> None:
    java, jars = files
    older, other = archive_of(java, jars[:1]), archive_of(java, jars, KAFKA)
    for path in (older, other):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    def run(directory: Path, started_with: tuple[str, ...]) -> None:
        assert directory.is_dir()
        Path(started_with[0].partition("=")[2]).write_bytes(b"classes")

    archive = archive_of(java, jars)
    assert "are kept" in make(archive, PULSAR, run)
    assert sorted(archive.parent.iterdir()) == sorted([archive, other])
    assert archive.read_bytes() == b"classes"
    assert "is there" in make(archive, PULSAR, lambda *_: pytest.fail("it ran again"))


def test_tests_go_on_where_nothing_could_be_kept(files: tuple[Path, list[Path]]) -> None:
    def fails(directory: Path, started_with: tuple[str, ...]) -> None:
        raise StartupError("no port is free")

    archive = archive_of(*files)
    assert "no port is free" in make(archive, PULSAR, fails)
    assert "wrote no archive" in make(archive, PULSAR, lambda *_: None)
    assert list(archive.parent.iterdir()) == []
