"""A producer's sends that have no outcome yet, in their order, and whether they are below the limit."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from bridge.pulsar.producer.send import Send
from bridge.pulsar.types import PulsarError

# What a pending send costs beside its payload, about.
_OVERHEAD: Final = 512


class PendingSends:
    """Does not enforce the limit: callers wait for `below_limit`."""

    def __init__(self, max_bytes: int) -> None:
        self.bytes = 0
        """The payloads' bytes and some overhead."""
        self.below_limit = asyncio.Event()
        self.below_limit.set()
        self._max_bytes = max_bytes
        self._sends: deque[Send] = deque()

    def __len__(self) -> int:
        return len(self._sends)

    def __iter__(self) -> Iterator[Send]:
        return iter(self._sends)

    @property
    def first(self) -> Send | None:
        """The one whose receipt comes next."""
        return self._sends[0] if self._sends else None

    @property
    def last(self) -> Send | None:
        """The newest one."""
        return self._sends[-1] if self._sends else None

    def bound(self, max_bytes: int) -> None:
        """Have another limit from now on."""
        self._max_bytes = max_bytes
        (self.below_limit.set if self.bytes < max_bytes else self.below_limit.clear)()

    def is_inside(self, sequence_id: int) -> bool:
        """Whether one of them has this sequence id, and more behind it: another wrote a part of what it holds."""
        return any(send.sequence_id <= sequence_id < (send.highest or -1) for send in self._sends)

    def append(self, send: Send) -> None:
        """Another one, behind all others."""
        self._sends.append(send)
        self.bytes += send.size + _OVERHEAD
        if self.bytes >= self._max_bytes:
            self.below_limit.clear()

    def remove(self, send: Send) -> None:
        """This one has its outcome."""
        if self._sends[0] is send:
            self._sends.popleft()
        else:
            self._sends.remove(send)
        self._release(send)

    def take_all(self) -> "deque[Send]":
        """All of them, leaving none."""
        sends, self._sends = self._sends, deque()
        for send in sends:
            self._release(send)
        return sends

    def fail(self, which: Callable[[Send], bool], error: PulsarError) -> None:
        """Those leave with this error; the others stay in their order."""
        for send in self.take_all():
            if which(send):
                send.fail(error)
            else:
                self.append(send)

    def _release(self, send: Send) -> None:
        self.bytes -= send.size + _OVERHEAD
        if self.bytes < self._max_bytes:
            self.below_limit.set()
