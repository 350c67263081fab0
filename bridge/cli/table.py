"""Rows as a table for people."""

from collections.abc import Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """A line for the head and one for each row; columns are as wide as their widest text."""
    texts = [list(head), *([printable(str(value)) for value in row] for row in rows)]
    widths = [max(len(row[column]) for row in texts) for column in range(len(head))]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in texts]


def printable(text: str) -> str:
    """A text that a stranger chose, with what would steer a terminal shown as an escape."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
