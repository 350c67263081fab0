"""Whose entries count behind which markers."""

from bridge.owned_log import Record
from bridge.owned_log.succession import MARKER, Succession, marker

VALUE = Record("k", b"v")


def test_a_marker_names_its_holder() -> None:
    found = Succession()
    assert found.holder is None
    assert found.read("p", [marker("bridge-1-abc")]) == []
    assert found.holder == ("p", "bridge-1-abc")
    found.read("r", [Record(MARKER, b"of a later version")])
    assert found.holder == ("r", "r")


def test_behind_another_holders_marker_nothing_counts() -> None:
    found = Succession()
    found.read("p", [marker("one")])
    assert found.read("p", [VALUE]) == [VALUE]
    found.read("q", [marker("two")])
    assert found.read("p", [VALUE]) == []
    assert found.read("unknown", [VALUE]) == []
    assert found.read("q", [VALUE]) == [VALUE]


def test_before_the_first_marker_everything_counts() -> None:
    found = Succession()  # compaction keeps only the last marker
    assert found.read("p", [VALUE]) == [VALUE]
    assert found.read("q", [VALUE]) == [VALUE]
