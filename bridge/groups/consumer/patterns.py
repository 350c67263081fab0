"""Which topics match the patterns of all groups: each name is matched once with each pattern.

RE2 runs in a thread, for it can take long, and releases the GIL meanwhile. The thread's time is given out in slices, in
turns: an expensive pattern does not keep out those of other groups.
"""

import sys
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from time import monotonic
from typing import Final, TypeAlias

from bridge.errors import KafkaError
from bridge.groups.budget import PATTERN_BYTES
from bridge.groups.consumer.model import Pattern
from bridge.groups.consumer.regex import compiled
from bridge.kafka.error_codes import ErrorCode
from bridge.runtime.threads import WorkerThreads

Compile: TypeAlias = Callable[[str], Callable[[str], bool]]

MAX_MATCHES: Final = 100_000
"""That the patterns of one group may fit, counted for each pattern: what they fit is stored in one record."""
_ENTRY_BYTES: Final = 400
_SLICE: Final = 0.01


@dataclass(frozen=True, slots=True)
class _Matches:
    """The names that a pattern fits, of those that a list had."""

    names: frozenset[str] = frozenset()
    listing: int = 0


_UNMATCHED: Final = _Matches()


class Patterns:
    """The patterns of this node's groups. What each fits is kept while there is room; the least recently used goes
    first.
    """

    def __init__(self, compile_: Compile = compiled, max_bytes: int = PATTERN_BYTES) -> None:
        self._compile = compile_
        self._max_bytes = max_bytes
        self._here: frozenset[str] = frozenset()
        self._came: dict[str, int] = {}  # with which list each of them came, the last ones last
        self._listing = 0
        self._kept: OrderedDict[str, _Matches] = OrderedDict()
        self._bytes = 0
        self._thread = WorkerThreads(1)

    def set_names(self, names: Collection[str]) -> None:
        """All topics there are now."""
        before, here = self._here, frozenset(names)
        added = here - before
        stayed = len(here) - len(added)
        if not added and stayed == len(before):
            return
        if stayed < len(before):
            for name in before - here:
                del self._came[name]
        self._listing += 1
        self._came |= dict.fromkeys(added, self._listing)
        self._here = here

    async def check(self, pattern: str) -> None:
        """Raise KafkaError(INVALID_REGULAR_EXPRESSION) if it is no pattern."""
        if pattern not in self._kept:
            await self._thread.run(self._compile, pattern)

    async def fits(self, pattern: str) -> frozenset[str]:
        """The names that it fits; KafkaError: it is no pattern."""
        now, fit = self._listing, self._kept.get(pattern, _UNMATCHED)
        if fit is not _UNMATCHED:
            self._kept.move_to_end(pattern)
        if fit.listing == now:
            return fit.names
        new = set[str]()
        work = _match(self._compile, pattern, self._came_after(fit.listing), new)
        here = self._here
        while await self._thread.run(_some, work):
            pass
        names = fit.names
        if new or not names <= here:
            names = names & here | new
        self._keep(pattern, _Matches(names, now))
        return names

    def _came_after(self, number: int) -> Collection[str]:
        """The names that are new since that list."""
        if not number:
            return self._here
        return list(takewhile(lambda name: self._came[name] > number, reversed(self._came)))

    def _keep(self, pattern: str, fit: _Matches) -> None:
        before = self._kept.get(pattern)
        if before is not None:
            if before.listing >= fit.listing:
                return  # another one was faster
            self._bytes -= _size(pattern, before)
        self._kept[pattern] = fit
        self._kept.move_to_end(pattern)
        self._bytes += _size(pattern, fit)
        while self._bytes > self._max_bytes:
            self._bytes -= _size(*self._kept.popitem(last=False))


def _match(compile_: Compile, pattern: str, names: Collection[str], matched: set[str]) -> Iterator[None]:
    """Add those of the names that the pattern fits, in small pieces; it goes on in a thread."""
    fits = compile_(pattern)
    for name in names:
        if fits(name):
            matched.add(name)
        yield


def _some(work: Iterator[None]) -> bool:
    """Go on with the work for a while; whether there is more."""
    until = monotonic() + _SLICE
    return any(monotonic() > until for _ in work)


def _size(pattern: str, fit: _Matches) -> int:
    return _ENTRY_BYTES + len(pattern) + sys.getsizeof(fit.names)


def check_count(found: Mapping[Pattern, frozenset[str]]) -> None:
    """KafkaError where one group's patterns fit too much."""
    if sum(map(len, found.values())) > MAX_MATCHES:
        text = f"The patterns of the consumer group fit more than {MAX_MATCHES} topics, counted for each pattern."
        raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, text)
