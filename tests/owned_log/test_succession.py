"""Whose entries count behind which markers."""

from bridge.owned_log import Record
from bridge.owned_log.succession import MARKER, Succession, marker

OLD = Record(MARKER, b'{"v":1,"owner":"bridge-0-old"}')
VALUE = Record("k", b"v")


def test_a_marker_names_its_holder() -> None:
    found = Succession()
    assert found.holder is None
    assert found.read("p", [marker("bridge-1-abc")]) == []
    assert found.holder == ("p", "bridge-1-abc", False)
    found.read("q", [OLD])
    assert found.holder == ("q", "bridge-0-old", True)
    found.read("r", [Record(MARKER, b"of a later version")])
    assert found.holder == ("r", "r", False)


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


def test_what_older_bridges_wrote_counts_as_it_did_for_them() -> None:
    found = Succession()
    found.read("p", [OLD])
    found.read("q", [OLD])
    assert found.read("p", [VALUE]) == [VALUE]
    assert found.read("unknown", [VALUE]) == [VALUE]
    found.read("r", [marker("new")])
    assert found.read("p", [VALUE]) == [VALUE]
    found.read("p", [OLD])
    assert found.read("r", [VALUE]) == []
