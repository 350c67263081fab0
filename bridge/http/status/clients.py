"""The clients of all nodes by the software that they say they are."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from bridge.http.status.table import Row

if TYPE_CHECKING:
    from bridge.http.status.sources import ObservedNode

COLUMNS: Final = ("name", "version", "connections", "requests", "errors", "bytes_in", "bytes_out")


_NUMBERS: Final = COLUMNS[2:]


def together(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """One row for each software and version, of the rows of all nodes."""
    made: dict[tuple[str, str], Counter[str]] = {}
    for row in rows:
        made.setdefault((row["name"], row["version"]), Counter()).update({one: row[one] for one in _NUMBERS})
    return [
        {"name": name, "version": version, **{one: numbers[one] for one in _NUMBERS}}
        for (name, version), numbers in made.items()
    ]


def own_rows(node: "ObservedNode") -> list[Row]:
    """One row for each software and version that this node serves."""
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
