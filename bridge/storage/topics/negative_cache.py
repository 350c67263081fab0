"""Names and ids that do not exist, remembered for a moment, so that clients that ask repeatedly cost Pulsar nothing."""

from collections.abc import Hashable

from bridge.runtime.futures import loop_time

_LIFETIME_SECONDS = 1.0
_MAX_NAMES = 100_000


class NegativeCache:
    """Names or ids that do not exist."""

    def __init__(self) -> None:
        self._since: dict[Hashable, float] = {}

    def __contains__(self, one: Hashable) -> bool:
        since = self._since.get(one)
        return since is not None and loop_time() - since < _LIFETIME_SECONDS

    def add(self, one: Hashable, asked_at: float) -> None:
        """It did not exist at that time."""
        if len(self._since) >= _MAX_NAMES:
            self._since.clear()
        self._since[one] = asked_at

    def discard(self, one: Hashable) -> None:
        """It may exist now."""
        self._since.pop(one, None)
