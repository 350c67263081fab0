"""Counts what goes by topic or by client, and shows those with the most of it; the rest is one sum.

On the hot path there are plain additions to a `Traffic`, which is looked up once for a session or an open partition.
`TrafficTable.roll` decides now and then, in short turns of the event loop, which are shown. What was counted of one
that is not shown stays in the sum, and what is counted while it is shown is its own: so all series only grow, and
sums over them have true rates. Names come from clients: how many are kept is bounded, whether they are shown or not.
"""

import asyncio
import heapq
import re
import time
from collections.abc import Callable, Hashable, Iterator
from operator import add, sub
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

_HALF_LIFE_SECONDS: Final = 300.0
_STICKY: Final = 2.0
"""Who is shown stays so until another one has so many times its bytes: series that come and go are of no use."""
_FORGOTTEN_AFTER_SECONDS: Final = 600.0
_CHUNK: Final = 200
"""Looked at in one turn of the event loop: a millisecond."""

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._+-]{0,63}", re.ASCII)
"""What KIP-511 allows, and a little more; none is as long as that."""
UNKNOWN: Final = "(unknown)"

_K = TypeVar("_K", bound=Hashable)


UNUSUAL: Final = "(unusual)"
_LONGEST_PRINCIPAL: Final = 200

ClientKind: TypeAlias = tuple[str, ...]
"""By what clients are told apart: the name and the version of their software and, where it is asked for, whom they act
for."""
UNKNOWN_CLIENT: Final[ClientKind] = (UNKNOWN, UNKNOWN)


def software_label(text: str) -> str:
    """What is shown of a name or version that a client tells: itself, or that it is none."""
    if _SOFTWARE.fullmatch(text):
        return text
    return UNUSUAL if text else UNKNOWN


def principal_label(text: str) -> str:
    """What is shown of a principal: itself, unless it is very long, or has what cannot be printed."""
    return text if len(text) <= _LONGEST_PRINCIPAL and text.isprintable() else UNUSUAL


class Traffic:
    """What goes by one topic or one kind of client: plain numbers, to be added to."""

    __slots__ = (
        "active_at", "base", "bytes_in", "bytes_out", "errors", "last", "records_in", "records_out", "requests",
        "score", "shown", "users",
    )  # fmt: skip

    def __init__(self) -> None:
        self.records_in = self.bytes_in = 0
        self.records_out = self.bytes_out = 0
        self.requests = self.errors = 0
        self.users = 0
        """The connections or open partitions that count here."""
        self.last = _NOTHING
        """As it was at the last roll."""
        self.base = _NOTHING
        """As it was at the last roll before it was shown: what its series do not have."""
        self.score = 0.0
        self.active_at = 0.0
        self.shown = False

    def amounts(self) -> "Amounts":
        """The numbers as they are now."""
        return Amounts(self.records_in, self.bytes_in, self.records_out, self.bytes_out, self.requests, self.errors)


class Amounts(NamedTuple):
    """The numbers of a `Traffic` at one time."""

    records_in: int
    bytes_in: int
    records_out: int
    bytes_out: int
    requests: int
    errors: int


_NOTHING: Final = Amounts(0, 0, 0, 0, 0, 0)


class Row(NamedTuple, Generic[_K]):
    """The counts that are shown for one name."""

    name: _K
    amounts: Amounts
    users: int


class TrafficTable(Generic[_K]):
    """All of one kind, and which of them are shown. `rows`, `others` and `left_out` are replaced as a whole: the thread
    that renders may be reading them."""

    def __init__(self, tracked: int = 10_000, clock: Callable[[], float] = time.monotonic) -> None:
        """`tracked`: how many are told apart, shown or not; above it all new ones are counted together."""
        self.most = 0
        """How many are shown."""
        self._tracked = tracked
        self.rows: list[Row[_K]] = []
        self.others = _NOTHING
        """Of all that are not shown."""
        self.other_users = 0
        self.left_out = 0
        """How many those are."""
        self._clock = clock
        self._entries: dict[_K, Traffic] = {}
        self._beyond = Traffic()
        self._rolled_at = clock()
        self._rolling = asyncio.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def enter(self, name: _K) -> Traffic:
        """Where the traffic of this name is counted; every caller calls `leave` in the end."""
        traffic = self._entries.get(name)
        if traffic is None:
            if len(self._entries) >= self._tracked:
                traffic = self._beyond
            else:
                traffic = self._entries[name] = Traffic()
                traffic.active_at = self._clock()
        traffic.users += 1
        return traffic

    def find(self, name: _K) -> Traffic | None:
        """Where this name is counted, if it is told apart; for those who only look."""
        return self._entries.get(name)

    def entries(self) -> list[tuple[_K, Traffic]]:
        """All that are told apart; for those who only look."""
        return list(self._entries.items())

    def shown(self, other: _K) -> list[Row[_K]]:
        """The rows; where there is more than they have, the sum of that is one called `other`."""
        if not self.left_out and not any(self.others):
            return self.rows
        return [*self.rows, Row(other, self.others, self.other_users)]

    def leave(self, traffic: Traffic) -> None:
        """No more is counted by this caller."""
        traffic.users -= 1

    async def roll(self) -> None:
        """Choose who is shown from now on, and bring the numbers up to date; in turns of the event loop."""
        async with self._rolling:
            chosen = await self._choose()
            rows: list[Row[_K]] = []
            others, users, left_out = self.others, 0, 0
            for count, (name, traffic) in enumerate(list(self._entries.items())):
                if count % _CHUNK == _CHUNK - 1:
                    await asyncio.sleep(0)
                if name in chosen:
                    rows.append(Row(name, _own(traffic), traffic.users))
                    continue
                others = _collected(traffic, others)
                if not traffic.users and traffic.active_at < self._rolled_at:
                    del self._entries[name]
                    continue
                users, left_out = users + traffic.users, left_out + 1
            others = _collected(self._beyond, others)
            self.rows, self.left_out = rows, left_out + self._beyond.users
            self.others, self.other_users = others, users + self._beyond.users

    async def _choose(self) -> set[_K]:
        """The names to be shown: those with the most bytes of late."""
        now = self._clock()
        keep = 0.5 ** ((now - self._rolled_at) / _HALF_LIFE_SECONDS)
        self._rolled_at = now
        best: list[tuple[float, bool, _K]] = []
        for chunk in _chunks(list(self._entries.items())):
            ranked: list[tuple[float, bool, _K]] = []
            for name, traffic in chunk:
                new = traffic.bytes_in + traffic.bytes_out - traffic.last.bytes_in - traffic.last.bytes_out
                traffic.score = traffic.score * keep + new
                if new:
                    traffic.active_at = now
                elif not traffic.users and now - traffic.active_at > _FORGOTTEN_AFTER_SECONDS:
                    continue
                ranked.append((traffic.score * _STICKY if traffic.shown else traffic.score, traffic.shown, name))
            best = heapq.nlargest(self.most, [*best, *ranked], key=_rank)
            await asyncio.sleep(0)
        return {name for _, _, name in best}


def _own(traffic: Traffic) -> Amounts:
    """What the series of one that is shown have."""
    if not traffic.shown:
        traffic.shown, traffic.base = True, traffic.last
    traffic.last = traffic.amounts()
    return traffic.last if traffic.base is _NOTHING else Amounts(*map(sub, traffic.last, traffic.base))


def _collected(traffic: Traffic, others: Amounts) -> Amounts:
    """The sum of the others with what is new of one of them."""
    before, traffic.last = traffic.last, traffic.amounts()
    traffic.shown = False
    return others if traffic.last == before else Amounts(*map(add, others, map(sub, traffic.last, before)))


def _rank(one: tuple[float, bool, object]) -> tuple[float, bool]:
    return one[0], one[1]


def _chunks(entries: list[tuple[_K, Traffic]]) -> Iterator[list[tuple[_K, Traffic]]]:
    for at in range(0, len(entries), _CHUNK):
        yield entries[at : at + _CHUNK]
