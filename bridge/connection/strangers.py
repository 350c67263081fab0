"""How many connections of an address may be logging in at a time: further ones wait, accepted and not read.

A thousand that connect at once and all send at the same moment would be read in one iteration of the event loop. Those
that wait cost nothing, and are closed for next to nothing when their address is blocked meanwhile. None waits for long:
clients that share an address with one that connects and says nothing still come in.
"""

import asyncio
import socket
from collections import Counter, deque
from collections.abc import Callable
from time import perf_counter
from typing import Final, NamedTuple

from bridge.runtime.scheduler import SLICE_SECONDS
from bridge.security.sasl.failures import network_of

MOST: Final = 32
"""Of an address, under way at a time."""
WAIT_SECONDS: Final = 1.0
"""The longest wait, after which one comes in all the same."""
_TURN: Final = 8
_TURN_SECONDS: Final = 0.01
"""So many come in, in such a time, because they have waited so long."""


class StrangerPlace:
    """The place of a connection that has not logged in."""

    __slots__ = ("_key", "_strangers")

    def __init__(self, strangers: "Strangers", key: str) -> None:
        self._strangers: Strangers | None = strangers
        self._key = key

    def leave(self) -> None:
        """It has logged in, or is gone; again: nothing."""
        strangers, self._strangers = self._strangers, None
        if strangers is not None:
            strangers.left(self._key)


class _Waiting(NamedTuple):
    key: str
    host: str
    until: float
    enter: Callable[[StrangerPlace], None]
    is_turned_away: Callable[[str], bool]


class Strangers:
    """The connections of one process that have not logged in, of all listeners with log-in."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._under_way: Counter[str] = Counter()
        self._waiting: dict[socket.socket, _Waiting] = {}  # in the order in which they came
        self._of_key: dict[str, deque[socket.socket]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def waiting(self, host: str | None = None) -> int:
        """How many wait, in all or of an address."""
        return len(self._waiting) if host is None else len(self._of_key.get(network_of(host), ()))

    def come(
        self,
        sock: socket.socket,
        host: str,
        enter: Callable[[StrangerPlace], None],
        is_turned_away: Callable[[str], bool],
    ) -> bool:
        """One was accepted; whether `enter` was called at once. Else it is later, or the socket is closed because
        `is_turned_away` says so of the address then."""
        key = network_of(host)
        if self._under_way[key] < MOST and key not in self._of_key:
            self._enter(key, enter)
            return True
        self._waiting[sock] = _Waiting(key, host, self._loop.time() + WAIT_SECONDS, enter, is_turned_away)
        self._of_key.setdefault(key, deque()).append(sock)
        if self._timer is None:
            self._timer = self._loop.call_later(WAIT_SECONDS, self._expire)
        return False

    def left(self, key: str) -> None:
        """One has logged in, or is gone."""
        self._under_way[key] -= 1
        if not self._under_way[key]:
            del self._under_way[key]
        self._let_in(key)

    def close(self) -> None:
        """Those that wait are not served any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for sock in self._waiting:
            sock.close()
        self._waiting.clear()
        self._of_key.clear()

    def _enter(self, key: str, enter: Callable[[StrangerPlace], None]) -> None:
        self._under_way[key] += 1
        enter(StrangerPlace(self, key))

    def _let_in(self, key: str) -> None:
        """As many of an address as have a place; all are closed, as far as one slice goes, where it is blocked."""
        until = perf_counter() + SLICE_SECONDS
        while (of_key := self._of_key.get(key)) and self._under_way[key] < MOST:
            if perf_counter() > until:
                self._loop.call_soon(self._let_in, key)
                return
            self._take(of_key[0])

    def _take(self, sock: socket.socket) -> None:
        """Let the oldest of its address in, or close it."""
        one = self._waiting.pop(sock)
        of_key = self._of_key[one.key]
        of_key.popleft()
        if not of_key:
            del self._of_key[one.key]
        if one.is_turned_away(one.host):
            sock.close()
        else:
            self._enter(one.key, one.enter)

    def _expire(self) -> None:
        self._timer = None
        now = self._loop.time()
        for _ in range(_TURN):
            sock, one = next(iter(self._waiting.items()), (None, None))
            if sock is None or one is None:
                return
            if one.until > now:
                self._timer = self._loop.call_at(one.until, self._expire)
                return
            self._take(sock)
        self._timer = self._loop.call_later(_TURN_SECONDS, self._expire)
