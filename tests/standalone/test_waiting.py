"""A start is shown beside what the last one took."""

import io
import json
from pathlib import Path

import pytest

from bridge.errors import StartupError
from bridge.standalone.maven import ProgressLine
from bridge.standalone.waiting import Waiting
from tests.support.terminal import Terminal, clock


def waiting(directory: Path, out: io.StringIO, *times: float) -> Waiting:
    steps = iter(range(100))
    line = ProgressLine(out, lambda: float(next(steps)))
    return Waiting("Pulsar", "standalone", line=line, directory=directory, clock=clock(*times))


def test_the_second_start_knows_how_long_the_first_one_took(tmp_path: Path) -> None:
    out = Terminal()
    with waiting(tmp_path, out, 0.0, 3.0, 8.0) as first:
        first.tell()
    with waiting(tmp_path, out, 0.0, 2.0, 9.0, 10.0) as second:
        second.tell()
        second.tell()
    assert out.getvalue().split("\r\x1b[K") == [
        "",
        "Pulsar starts: 3 s",
        "",
        "[======                  ]  25 %  Pulsar starts: 2 s, about 6 s left",
        "Pulsar starts: 9 s, the last time it took 8 s",
        "",
    ]
    assert json.loads((tmp_path / "start-seconds.json").read_text()) == {"standalone": 10.0}


def test_a_start_that_fails_is_no_measure(tmp_path: Path) -> None:
    with pytest.raises(StartupError), waiting(tmp_path, Terminal(), 0.0, 1.0):
        raise StartupError("it is gone")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kept", ["", "[1]", '{"standalone": "soon"}', '{"standalone": null}'])
def test_a_damaged_measure_is_none(kept: str, tmp_path: Path) -> None:
    (tmp_path / "start-seconds.json").write_text(kept)
    out = Terminal()
    with waiting(tmp_path, out, 0.0, 1.0, 2.0) as start:
        start.tell()
    assert "Pulsar starts: 1 s" in out.getvalue()
