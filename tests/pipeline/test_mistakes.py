"""Plain mistakes are told before Spark starts: `run_job` without a session fails where one is asked for."""

from __future__ import annotations

import json
import socket
import zlib
from pathlib import Path

import pytest

from bridge.pipeline.errors import Usage
from bridge.pipeline.files import LocalFiles, local_directory
from bridge.pipeline.options import EndpointOptions
from bridge.pipeline.session import SessionOptions, create_session
from tests.pipeline.running import Outcome, run_job
from tests.pipeline.samples import filled, new_topic, varied


@pytest.fixture
def nowhere() -> str:
    """A port at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def refused(*words: str) -> Outcome:
    return run_job(None, *words)


def everything(endpoint: str, archive: str, out: str) -> dict[str, list[str]]:
    """Each job, with all that it needs."""
    return {
        "archive": ["--bootstrap", endpoint, "--topics", "a", "--out", out],
        "copy": ["--source", endpoint, "--target", endpoint, "--topics", "a"],
        "reconcile": ["--a", endpoint, "--b-archive", archive, "--topics", "a"],
        "replay": ["--bootstrap", endpoint, "--archive", archive],
        "traffic": ["--bootstrap", endpoint, "--topics", "a", "--out", out],
        "verify": ["--archive", archive],
    }


def an_archive(directory: Path) -> Path:
    state = directory / "_bridge"
    state.mkdir(parents=True)
    (state / "archive.json").write_text(json.dumps({"format": 1, "cluster": "x"}))
    return directory


@pytest.mark.parametrize("job", ["verify", "replay"])
@pytest.mark.parametrize("place", ["missing", "empty", "file:"])
def test_an_archive_that_is_not_there(job: str, place: str, nowhere: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    path = f"file://{tmp_path}/none" if place == "file:" else str(tmp_path / place)
    ended = refused(job, *everything(nowhere, path, "")[job])
    assert (ended.code, ended.error.endswith("is no archive")) == (2, True)


@pytest.mark.parametrize("job", ["verify", "replay"])
def test_a_directory_or_a_file_that_is_no_archive(job: str, nowhere: str, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    assert "holds files that are no archive" in refused(job, *everything(nowhere, str(tmp_path), "")[job]).error
    assert "is no directory" in refused(job, *everything(nowhere, str(tmp_path / "mine.txt"), "")[job]).error


def test_a_damaged_archive_is_named(tmp_path: Path) -> None:
    state = an_archive(tmp_path) / "_bridge"
    (state / "manifest-00000001.json").write_text('{"batch": 1, "ranges": [], "records": 0, "bytes": 0, "digest": ""}')
    ended = refused("verify", "--archive", str(tmp_path))
    assert (ended.code, "manifests are missing" in ended.error) == (3, True)
    (state / "archive.json").write_text("{")
    assert refused("verify", "--archive", str(tmp_path)).error.endswith("_bridge/archive.json is damaged")


@pytest.mark.parametrize("size", [512, 4])
def test_a_file_that_has_changed_since_spark_wrote_it_is_named(size: int, tmp_path: Path) -> None:
    state = an_archive(tmp_path) / "_bridge"
    content = (state / "archive.json").read_bytes()
    sums = [zlib.crc32(content[at : at + size]).to_bytes(4) for at in range(0, len(content), size)]
    (state / ".archive.json.crc").write_bytes(b"crc\0" + size.to_bytes(4) + b"".join(sums))
    files = LocalFiles(state)
    assert (files.names(), files.read("archive.json")) == (["archive.json"], json.loads(content))
    (state / "archive.json").write_bytes(content.replace(b'"x"', b'"y"'))
    with pytest.raises(Usage, match=r"archive\.json is damaged"):
        files.read("archive.json")


@pytest.mark.parametrize("job", ["archive", "copy", "reconcile", "traffic"])
def test_an_endpoint_that_is_not_there(job: str, nowhere: str, tmp_path: Path) -> None:
    ended = refused(job, *everything(nowhere, str(an_archive(tmp_path / "archive")), str(tmp_path / "out"))[job])
    assert (ended.code, ended.error) == (4, f"{nowhere}: cannot be reached: Connection refused")


def test_an_endpoint_of_a_repair_that_is_not_there(nowhere: str, tmp_path: Path) -> None:
    lacking = {"topic": "a", "b_topic": "a", "partition": 0, "b": {"end": 1}, "missing": [[0, 1]]}
    (tmp_path / "findings.json").write_text(json.dumps({"job": "reconcile", "partitions": [lacking]}))
    words = ["--findings", str(tmp_path / "findings.json"), "--a", nowhere, "--b", nowhere]
    assert refused("repair", *words).code == 4
    words[1] = str(tmp_path / "none.json")
    assert (refused("repair", *words).code, refused("repair", *words).error) == (
        2,
        f"{words[1]} is no report of reconcile",
    )


@pytest.mark.parametrize("job", ["archive", "copy", "reconcile", "traffic"])
@pytest.mark.parametrize("name", ["two words", "a/b", "..", "x" * 250])
def test_a_name_that_no_topic_has(job: str, name: str, nowhere: str, tmp_path: Path) -> None:
    words = everything(nowhere, str(an_archive(tmp_path / "archive")), str(tmp_path / "out"))[job]
    words[words.index("--topics") + 1] = name
    ended = refused(job, *words)
    assert (ended.code, ended.error.startswith(f"--topics: {name!r} is no name of a topic")) == (2, True)


@pytest.mark.parametrize("job", ["archive", "copy", "reconcile", "replay", "traffic"])
def test_an_address_that_is_none(job: str, tmp_path: Path) -> None:
    ended = refused(job, *everything("localhost", str(an_archive(tmp_path / "archive")), str(tmp_path / "out"))[job])
    assert (ended.code, ended.error.endswith("localhost: not HOST:PORT")) == (2, True)


def test_a_report_that_cannot_be_written_is_told_before_the_work(nowhere: str, tmp_path: Path) -> None:
    for report in (tmp_path, tmp_path / "no" / "report.json"):
        ended = refused("verify", "--archive", str(an_archive(tmp_path / report.name)), "--report", str(report))
        assert (ended.code, ended.error) == (2, f"--report {report}: it cannot be written there")


@pytest.mark.parametrize(
    ("option", "value"),
    [("--driver-memory", "much"), ("--shuffle-partitions", "0"), ("--every", "0"), ("--every", "nan")],
)
def test_a_number_that_is_none(option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        refused("archive", "--bootstrap", "h:1", "--topics", "a", "--out", "x", option, value)
    assert ended.value.code == 2
    assert f"argument {option}: {value!r} is no" in capsys.readouterr().err


def test_a_machine_without_java_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(Usage, match="Spark needs Java 17 or later, and there is no java in JAVA_HOME"):
        create_session(SessionOptions())


@pytest.mark.parametrize(
    ("path", "local"),
    [
        ("/data/a", "/data/a"),
        ("data/a", "data/a"),
        ("file:/data/a", "/data/a"),
        ("file:///data/a", "/data/a"),
        ("s3a://bucket/a", None),
        ("hdfs:///a", None),
    ],
)
def test_what_spark_alone_can_read_is_left_to_it(path: str, local: str | None) -> None:
    assert local_directory(path) == (None if local is None else Path(local))


def test_under_a_configuration_of_hadoop_a_path_may_be_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    assert local_directory("/data/a") is None
    assert local_directory("file:///data/a") == Path("/data/a")


@pytest.fixture(scope="module")
def topic(at_bridge: EndpointOptions) -> str:
    """A topic of three partitions, with records in each."""
    return filled(at_bridge.bootstrap, varied(30))


def test_a_place_that_is_taken(at_bridge: EndpointOptions, topic: str, tmp_path: Path) -> None:
    words = ["archive", "--bootstrap", at_bridge.bootstrap, "--topics", topic, "--out", str(tmp_path)]
    (tmp_path / "mine.txt").touch()
    ended = refused(*words)
    assert (ended.code, ended.error) == (2, f"file:{tmp_path} holds files that are no archive of ours")
    (tmp_path / "mine.txt").unlink()
    an_archive(tmp_path)
    assert refused(*words).error.startswith(f"file:{tmp_path} was begun with cluster x, not ")
    assert refused(*words[:-1], str(tmp_path / "_bridge" / "archive.json")).error.endswith("is no directory")

    words = ["copy", "--source", at_bridge.bootstrap, "--target", at_bridge.bootstrap, "--topics", topic]
    words += ["--map", f"{topic}={topic}-copy", "--offset-map"]
    assert refused(*words, str(tmp_path)).error == f"file:{tmp_path} holds files that are no offset map of ours"
    (tmp_path / "offset-map.json").write_text("{}")
    assert refused(*words, str(tmp_path)).error.startswith(f"file:{tmp_path} is the offset map of another copy")

    words = ["traffic", "--bootstrap", at_bridge.bootstrap, "--topics", topic, "--out"]
    assert refused(*words, str(tmp_path / "offset-map.json")).error.endswith("offset-map.json is no directory")


def test_topics_and_ranges_that_are_not_there(at_bridge: EndpointOptions, topic: str, tmp_path: Path) -> None:
    jobs = everything(at_bridge.bootstrap, "", str(tmp_path))
    for job in ("archive", "copy", "traffic"):
        assert refused(job, *jobs[job]).error == "no such topic: a"
        words = [topic if word == "a" else word for word in jobs[job]]
        if job == "copy":
            words += ["--map", f"{topic}={topic}-copy"]
        ended = refused(job, *words, "--from", "2099-01-01")
        assert (ended.code, ended.error) == (2, "there is nothing between --from and --to")


def test_a_target_with_too_few_partitions(at_bridge: EndpointOptions, topic: str) -> None:
    small = new_topic(at_bridge.bootstrap, 1)
    words = ["--source", at_bridge.bootstrap, "--target", at_bridge.bootstrap, "--topics", topic]
    ended = refused("copy", *words, "--map", f"{topic}={small}")
    assert (ended.code, ended.error) == (2, f"{small} has 1 partitions, {topic}/1 needs one more at least")
