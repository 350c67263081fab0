"""The jar cache: fetched once, checked, repaired, shared by processes."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bridge.standalone.maven import JarCache, JarsError, MavenFetch
from bridge.standalone.maven.maven import make_pom
from tests.standalone.maven.shelf import GOOD, JARS, Shelf, right


def test_a_second_start_reads_and_fetches_nothing(tmp_path: Path) -> None:
    said: list[str] = []
    shelf = Shelf(right())
    first = JarCache(tmp_path, said.append, JARS, shelf).ensure()
    assert [path.read_bytes() for path in first] == list(right().values())
    assert JarCache(tmp_path, said.append, JARS, shelf).ensure() == first
    assert len(shelf.fetched) == 1
    assert said == []


@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_damaged_jar_alone_is_fetched_again(damage: str, tmp_path: Path) -> None:
    said: list[str] = []
    shelf = Shelf(right())
    jars = JarCache(tmp_path, said.append, JARS, shelf).ensure()
    jars[1].unlink() if damage == "gone" else jars[1].write_bytes(GOOD)
    assert JarCache(tmp_path, said.append, JARS, shelf).ensure() == jars
    assert jars[1].read_bytes() == GOOD + bytes([1])
    assert shelf.fetched[1:] == [[jars[1].name]]
    assert f"the jar cache {tmp_path} is damaged (part1-1.0.jar" in said[0]


def test_verify_sees_a_change_that_kept_size_and_time(tmp_path: Path) -> None:
    shelf = Shelf(right())
    jars = JarCache(tmp_path, print, JARS, shelf).ensure()
    before = jars[0].stat()
    jars[0].write_bytes(b"X" + jars[0].read_bytes()[1:])
    os.utime(jars[0], ns=(before.st_atime_ns, before.st_mtime_ns))
    JarCache(tmp_path, print, JARS, shelf).ensure()
    assert len(shelf.fetched) == 1
    JarCache(tmp_path, print, JARS, shelf).ensure(verify=True)
    assert jars[0].read_bytes() == GOOD + bytes([0])


def test_a_bad_jar_in_the_users_maven_repository_is_fetched_past_it(tmp_path: Path) -> None:
    said: list[str] = []
    shelf = Shelf({**right(), JARS[2].name: b"spoiled"}, right())
    jars = JarCache(tmp_path, said.append, JARS, shelf).ensure()
    assert jars[2].read_bytes() == GOOD + bytes([2])
    assert "fetching it past that repository" in said[0]


def test_a_mirror_with_another_jar_is_an_error_and_leaves_no_jar(tmp_path: Path) -> None:
    shelf = Shelf({**right(), JARS[2].name: b"spoiled"})
    with pytest.raises(JarsError, match=r"org\.example:part2:1\.0 has sha256 .* instead of"):
        JarCache(tmp_path, print, JARS, shelf).ensure()
    assert not (tmp_path / "lib").exists()


def test_a_run_that_was_cut_short_is_no_finished_cache(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir(parents=True)
    (tmp_path / "lib" / JARS[0].name).write_bytes(GOOD + bytes([0]))
    shelf = Shelf(right())
    JarCache(tmp_path, print, JARS, shelf).ensure()
    assert shelf.fetched == [[JARS[1].name, JARS[2].name]]


def test_a_second_process_waits_for_the_first(tmp_path: Path) -> None:
    code = f"""
from pathlib import Path
from bridge.standalone.maven import JarCache
from tests.standalone.maven.shelf import JARS, Shelf, right
def say(line): print(line, flush=True)
JarCache(Path({str(tmp_path)!r}), say, JARS, Shelf(right())).ensure()
print("done")
"""
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as other:
            assert other.stdout is not None
            assert "waiting for it" in other.stdout.readline()
            assert other.poll() is None
            fcntl.flock(lock, fcntl.LOCK_UN)
            assert other.stdout.readline() == "done\n"


def test_the_pom_pins_each_jar_and_nothing_it_depends_on() -> None:
    pom = make_pom(["g:a:1", "g:b:2:linux-x86_64"])
    assert pom.count("<artifactId>*</artifactId>") == 2
    assert "<version>2</version><classifier>linux-x86_64</classifier>" in pom
    assert "repositor" not in pom
    assert "exclusion" not in make_pom(["g:a:1"], transitive=True)
    assert "Management" not in pom


def test_a_pom_can_take_the_versions_that_another_manages() -> None:
    pom = make_pom(["g:a:1"], transitive=True, versions_of="g:parent:1")
    managed = pom.partition("<dependencyManagement>")[2].partition("</dependencyManagement>")[0]
    assert "<artifactId>parent</artifactId><version>1</version>\n<type>pom</type><scope>import</scope>" in managed


def test_without_maven_one_line_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JarsError, match=r"no `mvn` on the PATH: install it with"):
        JarCache(tmp_path / "cache", print, JARS, MavenFetch(print, "the example", "1 MB")).ensure()


def test_a_maven_that_fails_is_tried_again_and_then_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maven = tmp_path / "mvn"
    maven.write_text("#!/bin/sh\necho '[ERROR] no network today'\nexit 1\n")
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    said: list[str] = []
    with pytest.raises(JarsError, match=r"\[ERROR\] no network today"):
        JarCache(tmp_path / "cache", said.append, JARS, MavenFetch(said.append, "the example", "1 MB")).ensure()
    assert said[-1] == "Maven failed, attempt 3 of 3"
