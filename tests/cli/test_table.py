"""Tables: wide enough, and harmless to a terminal."""

from bridge.cli.table import table


def test_columns_are_as_wide_as_their_widest_text() -> None:
    assert table(("a", "bb"), [("long", 1), ("x", "\x1b[2Jy")]) == ["a     bb", "long  1", "x     \\x1b[2Jy"]
