"""A start is shown beside what the last one took."""

import io
import json
import sys
import time
from pathlib import Path

import pytest

from bridge.errors import StartupError
from bridge.standalone.waiting import TimeBar, Waiting
from tests.support.terminal import Terminal


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setattr(sys, "stderr", out := Terminal())
    return out


def test_the_second_start_knows_how_long_the_first_one_took(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = on_terminal(monkeypatch)
    with Waiting("Pulsar", "standalone", directory=tmp_path) as first:
        first.tell()
    assert "Pulsar starts: 00:00" in out.getvalue()
    took = json.loads((tmp_path / "start-seconds.json").read_text())["standalone"]
    assert 0 <= took < 60
    (tmp_path / "start-seconds.json").write_text('{"standalone": 4000.0}')
    with Waiting("Pulsar", "standalone", directory=tmp_path) as second:
        second.tell()
    assert "Pulsar starts:   0%|" in out.getvalue()
    assert "| 00:00, about " in out.getvalue()
    assert out.getvalue().endswith("\r")  # the line is gone


def test_what_is_done_already_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    out = on_terminal(monkeypatch)
    bar = TimeBar("1 of 2 parts", 4000.0, 1000.0)
    bar.show()
    bar.close()
    assert "1 of 2 parts:  25%|" in out.getvalue()


def test_a_start_that_takes_longer_than_the_last_one_has_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    out = on_terminal(monkeypatch)
    bar = TimeBar("Pulsar starts", 4000.0)
    began = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: began + 5000.0)
    out.truncate(0)
    bar.show()
    assert "%" not in out.getvalue()
    assert "Pulsar starts: 00:00" in out.getvalue()
    bar.close()


def test_without_a_terminal_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", out := io.StringIO())
    with Waiting("Pulsar", directory=tmp_path) as start:
        start.tell()
    assert out.getvalue() == ""


def test_a_start_that_fails_is_no_measure(tmp_path: Path) -> None:
    with pytest.raises(StartupError), Waiting("Pulsar", "standalone", directory=tmp_path):
        raise StartupError("it is gone")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kept", ["", "[1]", '{"standalone": "soon"}', '{"standalone": null}'])
def test_a_damaged_measure_is_none(kept: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = on_terminal(monkeypatch)
    (tmp_path / "start-seconds.json").write_text(kept)
    with Waiting("Pulsar", "standalone", directory=tmp_path) as start:
        start.tell()
    assert "Pulsar starts: 00:00" in out.getvalue()
