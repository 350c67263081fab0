"""What a browser asks for, with bounds: which view, what is searched for, the order, the page."""

from typing import Final, NamedTuple
from urllib.parse import parse_qs, urlencode

MOST_BYTES: Final = 4096
MOST_SEARCHED: Final = 200
_MOST_PAGE: Final = 1_000_000
_NAMES: Final = frozenset(
    {"view", "search", "sort", "page", "item", "worker", "partition", "start", "at", "key", "most"}
)
STARTS: Final = ("newest", "offset", "time")


class BadQuery(ValueError):
    """A query that nothing can answer; its text says why."""


class Query(NamedTuple):
    """A query: which rows of a table are shown, in which order."""

    view: str = "overview"
    search: str = ""
    sort: str = ""
    """A column's key, with a minus before it for the reverse order; empty: the view's own order."""
    page: int = 1
    item: str = ""
    """The name of the topic or group whose partitions, or records, are wanted."""
    worker: int | None = None
    partition: int = 0
    """Of the topic whose records are wanted."""
    start: str = ""
    """Where to begin: one of STARTS; empty: the newest."""
    at: int = 0
    """The offset, or the time in ms."""
    key: str = ""
    """Of the records that are wanted; empty: all."""
    most: int = 0
    """How many at most; 0: as many as are usual."""
    node: int | None = None
    """Within a node: the only one to be asked. It is never in an address."""

    @property
    def encoded(self) -> str:
        """As `parse` reads it; without the worker, who is asked."""
        wanted = {name: value for name, value in self._asdict().items() if name not in ("worker", "node")}
        return urlencode({name: value for name, value in wanted.items() if value})


def parse(target: bytes) -> Query:
    """The query of a request's target; BadQuery where it is unfit."""
    text = target.partition(b"?")[2]
    if len(text) > MOST_BYTES:
        raise BadQuery(f"the query has more than {MOST_BYTES} bytes")
    try:
        found = parse_qs(text.decode("ascii"), errors="strict", max_num_fields=len(_NAMES))
    except ValueError:
        raise BadQuery("the query is not one of names and values") from None
    for name, values in found.items():
        if name not in _NAMES or len(values) > 1:
            raise BadQuery("the query has a name that is not known, or twice the same")
    values_of = {name: values[0] for name, values in found.items()}
    return Query(
        view=values_of.get("view", "overview"),
        search=values_of.get("search", "")[:MOST_SEARCHED],
        sort=values_of.get("sort", ""),
        page=_number(values_of.get("page", "1")) or 1,
        item=values_of.get("item", ""),
        worker=_number(values_of["worker"]) if "worker" in values_of else None,
        partition=_number(values_of.get("partition", "0")),
        start=_start(values_of.get("start", "")),
        at=_number(values_of.get("at", "0"), 2**63 - 1),
        key=values_of.get("key", ""),
        most=_number(values_of.get("most", "0")),
    )


def _number(text: str, most: int = _MOST_PAGE) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= max(7, len(str(most)))):
        raise BadQuery("a number is needed for page, worker, partition, at and most")
    return min(int(text), most)


def _start(text: str) -> str:
    if text not in ("", *STARTS):
        raise BadQuery(f"records begin at one of {', '.join(STARTS)}")
    return text
