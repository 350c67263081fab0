"""Remembers the last notable events of the log: the `!` lines, a bounded number of each kind."""

import logging
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from bridge.config.urls import without_secrets
from bridge.http.status.explanations import explanation_of
from bridge.http.status.table import Row
from bridge.telemetry.log import escape

COLUMNS: Final = ("text", "at", "level", "count", "node", "logger")
MOST_KINDS: Final = 128
MOST_OF_A_KIND: Final = 16
_MOST_CHARACTERS: Final = 300
_MOST_FIELDS: Final = 24
_MOST_LISTED: Final = 500
"""Characters of the latest event's fields, in the list of kinds."""
_MOST_SHOWN: Final = 100
"""Of a kind, of all nodes."""


class LogEvent(NamedTuple):
    """One line of the log."""

    at: float
    """Unix time."""
    level: str
    text: str
    """Without its mark."""
    logger: str
    fields: str
    """As `key=value`, cut."""


class Kind:
    """The events that have the same text."""

    def __init__(self, text: str) -> None:
        self.count = 0
        self.explanation = explanation_of(text)
        self.last: deque[LogEvent] = deque(maxlen=MOST_OF_A_KIND)


class EventMemory(logging.Handler):
    """A handler of the root logger. A flood of one kind displaces no other; the kind that is silent longest goes."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._kinds: OrderedDict[str, Kind] = OrderedDict()

    def attach(self) -> None:
        """Hear what is logged from now on."""
        logging.getLogger().addHandler(self)

    def detach(self) -> None:
        """Hear no more."""
        logging.getLogger().removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it if it is notable; called by any thread, one at a time."""
        text = record.getMessage()
        if not text.startswith("!") and record.levelno < logging.WARNING:
            return
        text = _cut(escape(text.removeprefix("!").strip()))
        kind = self._kinds.get(text)
        if kind is None:
            kind = self._kinds[text] = Kind(text)
            if len(self._kinds) > MOST_KINDS:
                self._kinds.popitem(last=False)
        self._kinds.move_to_end(text)
        kind.count += 1
        kind.last.append(LogEvent(record.created, record.levelname, text, record.name, _fields(record)))

    def kinds(self) -> list[Kind]:
        """All that are remembered."""
        self.acquire()
        try:
            return list(self._kinds.values())
        finally:
            self.release()

    def rows(self) -> list[Row]:
        """One row for each kind: its latest event, and how many there were."""
        return [
            {**_listed(kind.last[-1])._asdict(), "count": kind.count, "explanation": kind.explanation}
            for kind in self.kinds()
        ]

    def last(self, text: str) -> list[Row]:
        """The last events of a kind, the latest first."""
        found = [kind for kind in self.kinds() if kind.last[-1].text == text]
        return [event._asdict() for kind in found for event in reversed(kind.last)]


def _listed(event: LogEvent) -> LogEvent:
    fields = event.fields
    return event if len(fields) <= _MOST_LISTED else event._replace(fields=fields[: _MOST_LISTED - 1] + "…")


def folded(rows: Iterable[tuple[int, Mapping[str, Any]]]) -> list[Row]:
    """One row for each kind, of the rows of all nodes: the latest event, how many there were, and on which nodes."""
    made: dict[str, dict[str, Any]] = {}
    for node, row in rows:
        before = made.get(row["text"])
        if before is None:
            made[row["text"]] = {**row, "node": str(node)}
            continue
        newest = row if row["at"] > before["at"] else before
        made[row["text"]] = {
            **newest, "count": before["count"] + row["count"], "node": f"{before['node']}, {node}"
        }  # fmt: skip
    return list(made.values())


def of_kind(text: str, told: Iterable[tuple[int, Any]]) -> Mapping[str, object] | None:
    """The last events of a kind, of all nodes; None where there are none. `told`: what each node has (`last`)."""
    found = [{**event, "node": node} for node, events in told for event in events or ()]
    if not found:
        return None
    found.sort(key=lambda event: float(event["at"]), reverse=True)
    return {"explanation": explanation_of(text), "events": found[:_MOST_SHOWN], "page": 1, "pages": 1}


def _fields(record: logging.LogRecord) -> str:
    fields = getattr(record, "fields", {})
    shown = [f"{escape(key)}={_cut(escape(str(value)))}" for key, value in list(fields.items())[:_MOST_FIELDS]]
    if record.exc_info and record.exc_info[0] is not None:
        shown.append(f"error={record.exc_info[0].__name__}: {_cut(escape(str(record.exc_info[1])))}")
    return " ".join(shown)


def _cut(text: str) -> str:
    text = without_secrets(text)
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 1] + "…"
