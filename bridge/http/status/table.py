"""A table that is made now and then, searched and sorted: rows in, one page of them out."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from bridge.http.status.query import BadQuery
from bridge.runtime.futures import loop_time, retrieve_exception

Value: TypeAlias = str | int | float | bool | None
Row: TypeAlias = Mapping[str, Value]

PAGE_ROWS: Final = 50
_FEW: Final = 512
"""More rows than these are searched and sorted in a thread."""
_REMEMBERED: Final = 8
_REST: Final = 400
"""So many times what a table took to make it is shown: its making costs a quarter of a percent of the time."""
MOST_SECONDS: Final = 30.0
"""For so long the rows of a table are shown at most before new ones are made."""
_PATIENCE_SECONDS: Final = 0.1
"""For so long who looks waits for new rows, and then gets those of before."""
_LASTS_SECONDS: Final = 30.0
"""Rows that should have been renewed this long ago are shown to nobody."""


class Page(NamedTuple):
    """The rows of a table that are shown."""

    rows: Sequence[Row]
    total: int
    found: int
    page: int
    pages: int


class Table:
    """The rows of one view, for all browsers."""

    def __init__(
        self,
        columns: Sequence[str],
        make: Callable[[], Awaitable[list[Row]]],
        seconds: float,
        order: str = "",
        searched: Sequence[str] = (),
        prepare: Callable[[], Awaitable[None]] | None = None,
        finish: Callable[[Row], Row] | None = None,
    ) -> None:
        """`columns`: what may be sorted by; `seconds`: how long what was made is shown; `order`: of rows that nothing
        else orders; `searched`: what is searched, else the first column. `prepare`: what has to be waited for
        before; that is no part of what the table costs. `finish`: adds to a row that is shown what would cost too much
        of all."""
        self.columns = frozenset(columns)
        self._searched = tuple(searched or columns[:1])
        self.order = order or columns[0]
        self._make = make
        self._prepare = prepare
        self._finish = finish
        self._seconds = seconds
        self._made: list[Row] = []
        self._until = float("-inf")
        self._making: asyncio.Task[None] | None = None
        self._is_expired = False
        self._selected: dict[tuple[str, str], Sequence[Row]] = {}

    async def page(self, search: str, sort: str, page: int) -> Page:
        """The rows of one page; BadQuery where there is no such column."""
        if sort.removeprefix("-") not in self.columns | {""}:
            raise BadQuery("there is no such column")
        rows = await self.current()
        key = search, sort
        found = self._selected.get(key)
        if found is None:
            wanted = rows, self._searched, search, sort or self.order
            found = select(*wanted) if len(rows) <= _FEW else await asyncio.to_thread(select, *wanted)
            if len(self._selected) >= _REMEMBERED:
                self._selected.clear()
            if rows is self._made:
                self._selected[key] = found
        shown = cut(found, page, len(rows))
        return shown if self._finish is None else shown._replace(rows=[self._finish(row) for row in shown.rows])

    async def current(self) -> list[Row]:
        """The rows, perhaps of some seconds ago: the longer they took to make, the longer they are shown.

        Where that takes a while those of before are the answer, unless they are of long ago. A caller that is cancelled
        leaves the making to others. Raises what it raises where there is nothing else to show.
        """
        if loop_time() >= self._until:
            if self._making is None or self._making.done():
                self._making = asyncio.get_running_loop().create_task(self._renew(), name="rows of the status page")
                self._making.add_done_callback(retrieve_exception)
            making, is_recent = self._making, loop_time() < self._until + _LASTS_SECONDS
            await asyncio.wait((making,), timeout=_PATIENCE_SECONDS if is_recent else None)
            if not is_recent:
                making.result()
        return self._made

    def expire(self) -> None:
        """More is known than when the rows were made, or are being made: nobody is shown them any more."""
        self._is_expired, self._until = True, float("-inf")

    def close(self) -> None:
        """Make nothing any more."""
        if self._making is not None:
            self._making.cancel()

    async def _renew(self) -> None:
        if self._prepare is not None:
            await self._prepare()
        self._is_expired, began = False, loop_time()
        self._made, self._selected = await self._make(), {}
        now = loop_time()
        if not self._is_expired:
            self._until = now + min(max(self._seconds, _REST * (now - began)), MOST_SECONDS)


def cut(found: Sequence[Row], page: int, total: int | None = None) -> Page:
    """One page of rows; the last one where there are not so many."""
    pages = max(1, -(-len(found) // PAGE_ROWS))
    page = min(page, pages)
    shown = found[(page - 1) * PAGE_ROWS : page * PAGE_ROWS]
    return Page(shown, len(found) if total is None else total, len(found), page, pages)


def select(rows: Sequence[Row], searched: Sequence[str], search: str, sort: str) -> list[Row]:
    """Those whose text has all words of `search`, whatever their case, in order; what is not known comes last."""
    words = search.lower().split()
    found = [row for row in rows if _has(row, searched, words)] if words else list(rows)
    column, reverse = sort.removeprefix("-"), sort.startswith("-")
    known = [row for row in found if row.get(column) is not None]
    known.sort(key=lambda row: _key(row[column]), reverse=reverse)
    return known + [row for row in found if row.get(column) is None]


def _has(row: Row, searched: Sequence[str], words: Sequence[str]) -> bool:
    text = " ".join([str(row.get(column) or "") for column in searched]).lower()
    return all(word in text for word in words)


def _key(value: Value) -> tuple[int, float, str]:
    return (0, float(value), "") if isinstance(value, int | float) else (1, 0.0, str(value).lower())
