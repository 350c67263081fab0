"""What a client family is asked to do with transactions, the same for all of them."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from tests.clients.model import TIMEOUT_SECONDS

Seen = dict[int, list[str]]
"""Values by partition."""
BATCH: Final = 10
"""So many records at most go into one transaction of a copier."""


class Ended(Exception):
    """The client says that its transaction, or it itself, cannot go on."""


class Fenced(Ended):
    """The client says that another one has taken its place."""


class Producer(Protocol):
    """A transactional producer that has its producer id."""

    def begin(self) -> None:
        """Begin a transaction."""

    def send(self, topic: str, values: Sequence[str], partition: int = 0) -> None:
        """Write records and wait until all are acknowledged; raises Ended."""

    def send_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Commit offsets of a group that has no members, in the transaction; raises Ended."""

    def commit(self) -> None:
        """Commit; raises Ended."""

    def abort(self) -> None:
        """Abort; raises Ended."""

    def close(self) -> None:
        """Let go, whatever is open."""


class Reader(Protocol):
    """A consumer that has some partitions of a topic assigned, and goes on from its beginning."""

    def read(self) -> Seen:
        """Read up to the ends, as they are at its level when it is asked: what is new."""

    def position(self, partition: int) -> int:
        """Where it is."""

    def close(self) -> None:
        """Let go."""


class Copier(Protocol):
    """A member of a group that copies records, partition by partition, and commits what it read with what it wrote."""

    def stop(self) -> None:
        """End, between two transactions; raises what it failed with."""


class Readers(Protocol):
    """A client family that reads at either level."""

    def reader(self, topic: str, partitions: Sequence[int], *, committed: bool) -> Reader:
        """A reader of committed records, or of all."""


class Family(Readers, Protocol):
    """A client family with transactions."""

    def producer(self, transactional_id: str, timeout_ms: int = 60_000) -> Producer:
        """A producer that has fenced those before it."""

    def copier(self, source: str, target: str, group: str) -> Copier:
        """A copier at work."""

    def close(self) -> None:
        """End what it runs."""


class ThreadCopier(ABC, threading.Thread):
    """A copier in a thread of this process, which alone touches its clients."""

    def __init__(self, bootstrap: str, source: str, target: str, group: str) -> None:
        super().__init__(name=f"copier of {group}", daemon=True)
        self.bootstrap, self.source, self.target, self.group = bootstrap, source, target, group
        self._ended = threading.Event()
        self._failure: Exception | None = None
        self.start()

    @property
    def stopped(self) -> bool:
        """Whether it shall end."""
        return self._ended.is_set()

    def run(self) -> None:
        try:
            self.copy()
        except Exception as error:  # noqa: BLE001 — told to the test, which fails
            self._failure = error

    def stop(self) -> None:
        """End, between two transactions."""
        self._ended.set()
        self.join(TIMEOUT_SECONDS)
        assert not self.is_alive(), "the copier does not come to its end"
        if self._failure is not None:
            raise self._failure

    @abstractmethod
    def copy(self) -> None:
        """Copy until it is stopped."""
