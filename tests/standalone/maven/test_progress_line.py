"""A line of progress: on a terminal alone, over itself, with how much is done and how long it still takes."""

import io

import pytest

from bridge.standalone.maven import ProgressLine, bar, duration
from bridge.standalone.maven.maven import Downloads
from tests.support.terminal import Terminal, clock


def test_a_terminal_shows_one_line_and_takes_it_away() -> None:
    out = Terminal()
    line = ProgressLine(out, clock(0.0, 0.1, 0.3))
    for text in ("one", "too soon", "two"):
        line.show(text)
    line.clear()
    line.clear()
    assert out.getvalue() == "\r\x1b[Kone\r\x1b[Ktwo\r\x1b[K"


def test_without_a_terminal_nothing_is_written() -> None:
    out = io.StringIO()
    line = ProgressLine(out)
    line.show("one")
    with line.kept(lambda: "two"):
        pass
    line.clear()
    assert out.getvalue() == ""


def test_a_line_is_no_longer_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "21")
    out = Terminal()
    ProgressLine(out).show("0123456789" * 3)
    assert out.getvalue() == "\r\x1b[K" + "0123456789" * 2


@pytest.mark.parametrize(
    ("done", "total", "shown"),
    [
        (0, 4, "[                        ]   0 %"),
        (1, 4, "[======                  ]  25 %"),
        (5, 4, "[========================] 100 %"),
        (1, 0, "[                        ]   0 %"),
    ],
)
def test_a_bar(done: int, total: int, shown: str) -> None:
    assert bar(done, total) == shown


def test_durations() -> None:
    shown = [duration(seconds) for seconds in (-1, 0.4, 59.4, 59.6, 3599, 3600, 7800)]
    assert shown == ["0 s", "0 s", "59 s", "1 min 00 s", "59 min 59 s", "1 h 00 min", "2 h 10 min"]


WANTED = {f"a-{number}.jar" for number in range(1, 5)}


def test_downloads_are_counted_by_what_maven_says() -> None:
    out = Terminal()
    downloads = Downloads(WANTED, ProgressLine(out, clock(0.0, 1.0, 2.0)), clock(0.0, 1.0, 2.0, 4.0))
    downloads.read("[INFO] Downloaded from central: https://repo/a/a-1.pom (500 kB at 1 MB/s)")
    downloads.read("[INFO] Downloaded from central: https://repo/maven/plugin-3.jar (1.5 MB at 1 MB/s)")
    downloads.read("[INFO] Downloaded from central: https://repo/a/a-1.jar (4.0 MB at 1 MB/s)")
    downloads.read("[INFO] BUILD SUCCESS")
    assert out.getvalue().split("\r\x1b[K")[1:] == [
        "[                        ]   0 %  0 of 4 jars  0 MB  0.5 MB/s",
        "[                        ]   0 %  0 of 4 jars  2 MB  1.0 MB/s",
        "[======                  ]  25 %  1 of 4 jars  6 MB  1.5 MB/s  12 s left",
    ]


def test_of_an_unknown_number_of_jars_there_is_no_bar() -> None:
    downloads = Downloads(set(), ProgressLine(io.StringIO()), clock(0.0, 0.0, 2.0))
    downloads.read("[INFO] Downloaded from central: https://repo/a/a-1.jar (4.0 MB at 1 MB/s)")
    assert downloads.text() == "1 jars  4 MB  2.0 MB/s"
