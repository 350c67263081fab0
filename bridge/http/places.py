"""How many may be connected to the HTTP side, in all and of a network; and the places that probes have beside them.

Who comes when there are too many may ask for health alone. A few of those are there at a time. One more ends another
that has asked for nothing, the oldest of the network that has most of them: however many connect and say nothing, a
probe gets in, and is answered if it asks at once.
"""

import asyncio
from collections import Counter
from typing import Any, Final

from bridge.security.sasl.failures import network_of

MAX_PROBES: Final = 32
"""Beside all others."""


class Visit:
    """One connection to the operators' server."""

    __slots__ = ("has_asked", "is_for_probes", "network", "task")

    def __init__(self, network: str, *, is_for_probes: bool) -> None:
        self.network = network
        self.is_for_probes = is_for_probes
        """Whether it may ask for health alone."""
        self.has_asked = False
        self.task: asyncio.Task[Any] | None = None


class ConnectionPlaces:
    """The places for connections of one server."""

    def __init__(self, most: int, most_of_network: int) -> None:
        self._most = most
        self._most_of_network = most_of_network
        self._count = 0
        self._of_network: Counter[str] = Counter()
        self._probes: dict[Visit, None] = {}  # in the order in which they came

    def enter(self, host: str) -> tuple[Visit, Visit | None]:
        """A connection of an address comes; the second is one that has to go for it."""
        network = network_of(host)
        if self._count < self._most and self._of_network[network] < self._most_of_network:
            self._count += 1
            self._of_network[network] += 1
            return Visit(network, is_for_probes=False), None
        visit = Visit(network, is_for_probes=True)
        displaced = self._least_wanted() if len(self._probes) >= MAX_PROBES else None
        if displaced is not None:
            del self._probes[displaced]
        self._probes[visit] = None
        return visit, displaced

    def leave(self, visit: Visit) -> None:
        """It is over."""
        if visit.is_for_probes:
            self._probes.pop(visit, None)
            return
        self._count -= 1
        self._of_network[visit.network] -= 1
        if not self._of_network[visit.network]:
            del self._of_network[visit.network]

    def _least_wanted(self) -> Visit:
        silent = [one for one in self._probes if not one.has_asked] or list(self._probes)
        of_network = Counter(one.network for one in silent)
        return max(silent, key=lambda one: of_network[one.network])  # of equals the first
