"""What was asked for and is not there, believed for a moment: who asks for it again and again is not asked for anew."""

from collections.abc import Hashable

from bridge.futures import loop_time

_LIFETIME_SECONDS = 1.0
_MAX_NAMES = 100_000


class NegativeCache:
    """Names or ids that nothing has."""

    def __init__(self) -> None:
        self._since: dict[Hashable, float] = {}

    def __contains__(self, one: Hashable) -> bool:
        since = self._since.get(one)
        return since is not None and loop_time() - since < _LIFETIME_SECONDS

    def add(self, one: Hashable, asked_at: float) -> None:
        """It was not there at that time."""
        if len(self._since) >= _MAX_NAMES:
            self._since.clear()
        self._since[one] = asked_at

    def discard(self, one: Hashable) -> None:
        """It may be there."""
        self._since.pop(one, None)
