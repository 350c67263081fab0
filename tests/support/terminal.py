"""What progress is tried on: a terminal that keeps what is written, and a clock that is told what to say."""

import io
from collections.abc import Callable


class Terminal(io.StringIO):
    """Takes itself for one."""

    def isatty(self) -> bool:
        return True


def clock(*times: float) -> Callable[[], float]:
    """One that says these times, one after the other."""
    left = iter(times)
    return lambda: next(left)
