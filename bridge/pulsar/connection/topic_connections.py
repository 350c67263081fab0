"""Which of a broker's connections the producers of a topic use, by its number: pure counting."""

from collections.abc import Iterable
from itertools import count
from typing import Final, NamedTuple

from bridge.pulsar.connection.broker_connection import Address

# What a broker has refused once is asked for again when so many seconds have passed.
_REFUSED_SECONDS: Final = 60.0
SHARED: Final = 0
"""The number of the connection for questions and consumers: nothing that a broker throttles by not reading is ever sent
there, unless it takes no second connection."""


class _Refused(NamedTuple):
    """More connections than so many a broker has refused; believed until then."""

    most: int
    until: float


class TopicConnections:
    """A topic has a connection of its own to a broker, until there are as many as there may be."""

    def __init__(self, most: int) -> None:
        """`most`: connections to a broker beside the shared one. `now` is in seconds, everywhere."""
        self._most = most
        self._refused: dict[Address, _Refused] = {}
        self._unused = count(SHARED + 1)
        self._number_of: dict[tuple[Address, str], int] = {}
        self._topics: dict[Address, dict[int, set[str]]] = {}

    def number(self, address: Address, topic: str, now: float) -> int:
        """Of this topic's own connection, or of the one with the fewest topics where there are as many as may be."""
        number = self._number_of.get((address, topic))
        if number is None:
            used = self._topics.setdefault(address, {})
            refused = self._refused.get(address)
            most = refused.most if refused is not None and now < refused.until else self._most
            number = next(self._unused) if len(used) < most else self._emptiest(address, used)
            self._put(address, topic, number)
        return number

    def share(self, address: Address, topic: str, open_numbers: Iterable[int], now: float) -> int:
        """The broker has refused this topic's own connection, now forgotten: it shares one of those that are open."""
        if (address, topic) in self._number_of:
            return self._number_of[address, topic]  # another producer of the topic was here first
        of_topics = [number for number in open_numbers if number != SHARED]
        self._refused[address] = _Refused(len(of_topics), now + _REFUSED_SECONDS)
        number = self._emptiest(address, of_topics)
        self._put(address, topic, number)
        return number

    def forget(self, address: Address, number: int) -> None:
        """The connection is gone: the topics that had it are given one when they come back."""
        for topic in self._topics.get(address, {}).pop(number, ()):
            del self._number_of[address, topic]
        if not self._topics.get(address, True):
            del self._topics[address]

    def _put(self, address: Address, topic: str, number: int) -> None:
        self._number_of[address, topic] = number
        self._topics.setdefault(address, {}).setdefault(number, set()).add(topic)

    def _emptiest(self, address: Address, numbers: Iterable[int]) -> int:
        topics = self._topics.get(address, {})
        return min(numbers, key=lambda number: len(topics.get(number, ())), default=SHARED)
