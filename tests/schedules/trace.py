"""What happened in a run, event by event, for readers of a failure."""

import logging
from collections import deque
from collections.abc import Callable

from tests.schedules.loop import START


class Trace:
    """The newest events. It costs nothing until it is switched on, which is when a failed seed runs again."""

    def __init__(self, now: Callable[[], float], most: int = 2000) -> None:
        self.on = False
        self._now = now
        self._events: deque[str] = deque(maxlen=most)

    def __call__(self, who: str, text: str, *values: object) -> None:
        """Note an event: `trace("broker", "< send %s %d", name, sequence)`."""
        if self.on:
            self._events.append(f"{self._now() - START:12.6f}  {who:<10} {text % values if values else text}")

    def last(self, count: int) -> str:
        """The newest events, one a line."""
        events = list(self._events)[-count:]
        left = len(self._events) - len(events)
        return "\n".join(([f"… {left} events before"] if left > 0 else []) + events)


class BridgeLog(logging.Handler):
    """Puts the bridge's own log into the trace."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(logging.DEBUG)
        self._trace = trace

    def emit(self, record: logging.LogRecord) -> None:
        """Take one event."""
        fields = getattr(record, "fields", {})
        text = " ".join(f"{key}={value}" for key, value in fields.items() if key not in ("broker",))
        self._trace("bridge", "%s", f"{record.getMessage()}  {text}  [{record.name.removeprefix('bridge.')}]")
        if record.exc_info and record.exc_info[1] is not None:
            self._trace("bridge", "    %r", record.exc_info[1])
