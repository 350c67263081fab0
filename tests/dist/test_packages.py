"""What a release holds, and that it runs where there is nothing else: in an empty directory, without the repository."""

from __future__ import annotations

import email
import re
import shutil
import subprocess
import tarfile
import zipfile
from email.message import Message
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer

from bridge import __version__
from tests.dist import __main__ as release
from tests.dist.installation import PACKAGES, environment, install_beside, run, source_distribution, wheel
from tests.standalone.running import FREE_PORTS, standalone, started
from tests.support.sources import ROOT, text_files


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return source_distribution(tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def built(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("cargo") is None:
        pytest.skip("a release has the native codec, which is built where cargo is")
    return wheel(sdist, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_beside(built, tmp_path_factory.mktemp("fresh") / "venv")


def metadata(built: Path) -> Message:
    with zipfile.ZipFile(built) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))


def test_the_source_distribution_has_all_sources_and_no_tests(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    folders = (*PACKAGES, "config", "native")
    ours = {path.relative_to(ROOT).as_posix() for path in text_files()}
    assert {path for path in ours if path.startswith(tuple(f"{folder}/" for folder in folders))} - held == {
        "native/rustfmt.toml"
    }
    assert {"LICENSE", "NOTICE", "README.md", "pyproject.toml"} <= held
    assert not {path for path in held if path.startswith("tests/")}


def test_the_wheel_has_every_module_all_data_and_the_native_codec(built: Path) -> None:
    held = set(zipfile.ZipFile(built).namelist())
    files = [path for folder in PACKAGES for path in (ROOT / folder).rglob("*") if path.is_file()]
    wanted = {path.relative_to(ROOT).as_posix() for path in files if path.suffix not in (".pyc", ".so")}
    found = {name for name in held if ".dist-info/" not in name}
    assert found == wanted | {release.CODEC}
    licences = {name.partition(".dist-info/licenses/")[2] for name in held} - {""}
    assert licences == {"LICENSE", "NOTICE"}
    assert re.search(r"-cp311-abi3-", built.name)


def test_the_metadata_are_whole_and_the_version_stands_in_one_place(built: Path) -> None:
    said = metadata(built)
    assert said["Version"] == __version__
    assert said["Requires-Python"] == ">=3.11"
    assert said["License-Expression"] == "Apache-2.0"
    assert said["Description-Content-Type"] == "text/markdown"
    places = [path for path in (ROOT / "pyproject.toml", ROOT / "setup.cfg", ROOT / "native" / "Cargo.toml")]
    assert not [path for path in places if re.search(r"^version = \"", path.read_text("utf-8"), re.MULTILINE)]


def test_what_was_installed_is_what_runs(installed: Path, tmp_path: Path) -> None:
    assert run(installed, "--version", cwd=tmp_path) == f"bridge {__version__} (native codec)\n"
    where = "import bridge, bridge.standalone.maven as maven; print(bridge.__file__, maven.__file__)"
    for path in run(installed.with_name("python"), "-c", where, cwd=tmp_path).split():
        assert Path(path).is_relative_to(installed.parents[1])


@pytest.mark.usefixtures("quick_pulsar")
def test_standalone_serves_clients_from_an_empty_directory(installed: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with standalone(
        tmp_path, "--ephemeral", "--no-demo", *FREE_PORTS, bridge=[str(installed)], cwd=empty, env=environment()
    ) as running:
        kafka = started(running)["kafka"]
        with KafkaProducer(bootstrap_servers=kafka) as producer:
            sent = [producer.send("greetings", b"%d" % number).get(30).offset for number in range(10)]
        consumer = KafkaConsumer("greetings", bootstrap_servers=kafka, auto_offset_reset="earliest")
        read = [next(consumer) for _ in sent]
        consumer.close()
        assert [(record.offset, record.value) for record in read] == [(at, b"%d" % at) for at in sent]
    assert sent == list(range(10))
    assert not list(empty.iterdir())


def test_a_release_without_the_native_codec_would_be_noticed(installed: Path, tmp_path: Path) -> None:
    codec = next(installed.parents[1].rglob("_native.abi3.so"))
    away = codec.rename(tmp_path / "away")
    try:
        done = subprocess.run([installed, "--version"], env=environment(), capture_output=True, text=True, check=False)
        assert done.returncode != 0
        assert "native" in done.stderr
    finally:
        away.rename(codec)
