"""What a browser asks for, with bounds: which view, what is searched for, the order, the page."""

from typing import Final, NamedTuple
from urllib.parse import parse_qs, urlencode

MOST_BYTES: Final = 4096
MOST_SEARCHED: Final = 200
_MOST_PAGE: Final = 1_000_000
_NAMES: Final = frozenset({"view", "search", "sort", "page", "item", "worker"})


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
    """The name of the topic or group whose partitions are wanted."""
    worker: int | None = None

    @property
    def encoded(self) -> str:
        """As `parse` reads it; without the worker, who is asked."""
        wanted = {"view": self.view, "search": self.search, "sort": self.sort, "page": self.page, "item": self.item}
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
    )


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 8):
        raise BadQuery("a number is needed for page and worker")
    return min(int(text), _MOST_PAGE)
