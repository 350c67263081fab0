"""Which of a broker's connections the producers of a topic use: pure counting."""

from collections.abc import Iterable
from itertools import count
from typing import Final

from bridge.pulsar.connection.broker_connection import Address

SHARED: Final = 0
"""The lane of questions and consumers: nothing that a broker throttles by not reading is ever sent there, unless it
takes no second connection."""


class Lanes:
    """A topic has a lane of its own at an address, until there are as many as there may be."""

    def __init__(self, most: int) -> None:
        """`most`: lanes at an address beside the shared one."""
        self._most = most
        self._most_at: dict[Address, int] = {}  # what a broker has refused more than
        self._numbers = count(SHARED + 1)
        self._of: dict[tuple[Address, str], int] = {}
        self._topics: dict[Address, dict[int, set[str]]] = {}

    def of(self, address: Address, topic: str) -> int:
        """The lane of this topic: its own, or the one with the fewest topics where there are as many as may be."""
        lane = self._of.get((address, topic))
        if lane is None:
            lanes = self._topics.setdefault(address, {})
            most = self._most_at.get(address, self._most)
            lane = next(self._numbers) if len(lanes) < most else self._emptiest(address, lanes)
            self._put(address, topic, lane)
        return lane

    def share(self, address: Address, topic: str, open_lanes: Iterable[int]) -> int:
        """The broker refuses this topic's own lane: it shares one of those that are open."""
        self.forget(address, self._of[address, topic])
        own = [lane for lane in open_lanes if lane != SHARED]
        self._most_at[address] = len(own)
        lane = self._emptiest(address, own)
        self._put(address, topic, lane)
        return lane

    def forget(self, address: Address, lane: int) -> None:
        """Its connection is gone: who was there gets a lane when it comes back."""
        for topic in self._topics.get(address, {}).pop(lane, ()):
            del self._of[address, topic]
        if not self._topics.get(address, True):
            del self._topics[address]

    def _put(self, address: Address, topic: str, lane: int) -> None:
        self._of[address, topic] = lane
        self._topics.setdefault(address, {}).setdefault(lane, set()).add(topic)

    def _emptiest(self, address: Address, lanes: Iterable[int]) -> int:
        topics = self._topics.get(address, {})
        return min(lanes, key=lambda lane: len(topics.get(lane, ())), default=SHARED)
