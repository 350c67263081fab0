"""The clients of this node by the software that they say they are."""

from typing import TYPE_CHECKING, Final

from bridge.status.table import Row

if TYPE_CHECKING:
    from bridge.status.sources import Node

COLUMNS: Final = ("name", "version", "connections", "requests", "errors", "bytes_in", "bytes_out")


def rows(node: "Node") -> list[Row]:
    """One row for each software and version."""
    return []
