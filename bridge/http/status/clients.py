"""The clients of this node by the software that they say they are."""

from collections import Counter
from typing import TYPE_CHECKING, Final

from bridge.http.status.table import Row

if TYPE_CHECKING:
    from bridge.http.status.sources import ObservedNode

COLUMNS: Final = ("name", "version", "connections", "requests", "errors", "bytes_in", "bytes_out")


def rows(node: "ObservedNode") -> list[Row]:
    """One row for each software and version."""
    made: dict[tuple[str, str], Counter[str]] = {}
    for (software, version, *_), traffic in node.metrics.clients.entries():
        made.setdefault((software, version), Counter()).update(
            connections=traffic.users,
            requests=traffic.requests,
            errors=traffic.errors,
            bytes_in=traffic.bytes_in,
            bytes_out=traffic.bytes_out,
        )
    return [{"name": software, "version": version, **numbers} for (software, version), numbers in made.items()]
