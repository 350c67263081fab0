"""Which topics match the patterns of all groups: each name is matched once with each pattern.

RE2 runs in a thread, for it can take long, and releases the GIL meanwhile. The thread's time is given out in slices, in
turns: an expensive pattern does not keep out those of other groups.
"""

import sys
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import takewhile
from time import monotonic
from typing import Final, TypeAlias

from bridge.errors import KafkaError
from bridge.groups.budget import PATTERN_BYTES
from bridge.groups.consumer.regex import compiled
from bridge.kafka.error_codes import ErrorCode
from bridge.worker_threads import WorkerThreads

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
    """Those of this node's groups. What each fits is kept while there is room, the least recently used goes first."""

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

    async def fits(self, patterns: Collection[str]) -> dict[str, frozenset[str]]:
        """The names that each of one group's patterns fits; KafkaError: too many, or a pattern that is none."""
        now = self._listing
        found = {pattern: self._kept.get(pattern, _UNMATCHED) for pattern in patterns}
        for pattern, fit in found.items():
            if fit is not _UNMATCHED:
                self._kept.move_to_end(pattern)
        behind = {pattern: fit for pattern, fit in found.items() if fit.listing != now}
        done: list[tuple[str, _Matches]] = []
        came = {since: self._came_after(since) for since in {fit.listing for fit in behind.values()}}
        work = _match(self._compile, behind, came, self._here, now, done)
        _check_count(found)
        more = bool(behind)
        while more:
            more = await self._thread.run(_some, work)
            for pattern, fit in done:
                found[pattern] = fit
                self._keep(pattern, fit)
            done.clear()
            _check_count(found)
        return {pattern: fit.names for pattern, fit in found.items()}

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


def _match(
    compile_: Compile,
    behind: dict[str, _Matches],
    came: dict[int, Collection[str]],
    here: frozenset[str],
    now: int,
    done: list[tuple[str, _Matches]],
) -> Iterator[None]:
    """Bring fits up to the list `now`, in small pieces; it goes on in a thread."""
    for pattern, fit in behind.items():
        new = set()
        fits = compile_(pattern)
        for name in came[fit.listing]:
            if fits(name):
                new.add(name)
            yield
        names = fit.names
        if new or not names <= here:
            names = names & here | new
        done.append((pattern, _Matches(names, now)))
        yield


def _some(work: Iterator[None]) -> bool:
    """Go on with the work for a while; whether there is more."""
    until = monotonic() + _SLICE
    return any(monotonic() > until for _ in work)


def _size(pattern: str, fit: _Matches) -> int:
    return _ENTRY_BYTES + len(pattern) + sys.getsizeof(fit.names)


def _check_count(found: dict[str, _Matches]) -> None:
    if sum(len(fit.names) for fit in found.values()) > MAX_MATCHES:
        text = f"The patterns of the consumer group fit more than {MAX_MATCHES} topics, counted for each pattern."
        raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, text)
