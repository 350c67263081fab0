"""Running members of consumer groups: what they were assigned and what they read, the same for every family."""

from __future__ import annotations

import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Literal

from tests.clients.model import TIMEOUT_SECONDS

Event = dict[str, Any]
Seen = tuple[int, int, str]
"""(partition, offset, value)."""

# one for all members, so that a test can wait for what several of them have seen
_changed = threading.Condition()


@dataclass(frozen=True, slots=True)
class Joining:
    """How a member joins. A short heartbeat: it is what tells a member of a rebalance."""

    group: str
    topic: str
    reset: Literal["earliest", "latest"] = "earliest"
    instance: str | None = None
    cooperative: bool = False
    heartbeat_ms: int = 200
    session_ms: int = 10_000
    protocol: Literal["classic", "consumer"] = "classic"
    """In the new one the server says how often heartbeats are sent, how long sessions are, and assigns."""
    pattern: str | None = None
    """Subscribe to the topics that it fits, as the server sees it (new protocol only)."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a member held from some time on."""

    at: float
    partitions: frozenset[int]


class Member(ABC):
    """A member as the test sees it; events come from the client that runs it."""

    def __init__(self, joining: Joining) -> None:
        self.joining = joining
        self.joined_at = time.monotonic()
        self.history: list[Held] = []
        self.seen: list[Seen] = []
        self.failure = ""
        self.ended = False

    @property
    def held(self) -> frozenset[int]:
        """The partitions that are assigned now."""
        return self.history[-1].partitions if self.history else frozenset()

    @property
    def values(self) -> list[str]:
        """All values read."""
        return [value for _, _, value in self.seen]

    def on(self, event: Event) -> None:
        """Note what happened: `held`, `read`, `failed` or `ended`."""
        with _changed:
            if "held" in event:
                self.history.append(Held(time.monotonic(), frozenset(event["held"])))
            self.seen += [(int(p), int(o), str(v)) for p, o, v in event.get("read", ())]
            self.failure = self.failure or event.get("failed", "")
            self.ended = self.ended or "ended" in event
            _changed.notify_all()

    @abstractmethod
    def commit(self) -> None:
        """Commit the positions and wait for the answer; raises Refused."""

    @abstractmethod
    def leave(self) -> None:
        """Close the consumer and wait until it is closed."""


def until(what: str, condition: Callable[[], bool], *members: Member, seconds: float = TIMEOUT_SECONDS) -> None:
    """Wait for a condition on what members have seen; one that fails ends the wait."""

    def failures() -> list[str]:
        return [member.failure for member in members if member.failure]

    with _changed:
        held = _changed.wait_for(lambda: condition() or bool(failures()), seconds)
    assert not failures(), f"a member failed while waiting for {what}: {failures()}"
    state = [(sorted(member.held), len(member.seen), member.ended) for member in members]
    assert held, f"{what}: not within {seconds} s; (held, records, ended) {state}"


def until_shared(members: Sequence[Member], partitions: int) -> float:
    """Wait until the members hold all partitions, each one, all of them some; return when that came about."""
    wanted = set(range(partitions))

    def shared() -> bool:
        held = [partition for member in members for partition in member.held]
        return sorted(held) == sorted(wanted) and all(member.held for member in members)

    until(f"{len(members)} members to share {partitions} partitions", shared, *members)
    return max(member.history[-1].at for member in members)


def until_read(members: Sequence[Member], values: Iterable[str]) -> None:
    """Wait until the members together have read these values; nothing may have come twice."""
    wanted = sorted(values)

    def read() -> list[str]:
        return sorted(value for member in members for value in member.values)

    until(f"{len(wanted)} records", lambda: len(read()) >= len(wanted), *members)
    assert read() == wanted


class ThreadMember(Member):
    """A member in a thread of this process, which alone touches the client."""

    def __init__(self, joining: Joining) -> None:
        super().__init__(joining)
        self._thread = threading.Thread(target=self._run, name=f"member of {joining.group}", daemon=True)
        self.tell: Callable[[Event], None] = self.on
        self._orders: queue.SimpleQueue[tuple[Callable[[], None], Future[None]]] = queue.SimpleQueue()
        self._leaving = False

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def _run(self) -> None:
        try:
            self.open()
            while not self._leaving:
                self.poll(0.05)
                while not self._orders.empty():
                    self._obey(*self._orders.get())
        except Exception as error:  # noqa: BLE001 — told to the test, which fails
            self.tell({"failed": f"{type(error).__name__}: {error}"})
        finally:
            self._shut()

    def commit(self) -> None:
        done: Future[None] = Future()
        self._orders.put((self.commit_now, done))
        done.result(TIMEOUT_SECONDS)

    def leave(self) -> None:
        self._leaving = True
        self._thread.join(TIMEOUT_SECONDS)
        assert not self._thread.is_alive(), "the member does not come to its end"

    def _obey(self, order: Callable[[], None], done: Future[None]) -> None:
        try:
            order()
        except Exception as error:  # noqa: BLE001 — raised where it is waited for
            done.set_exception(error)
        else:
            done.set_result(None)

    def _shut(self) -> None:
        try:
            self.close()
        except Exception as error:  # noqa: BLE001 — told to the test, which fails
            self.tell({"failed": f"closing: {type(error).__name__}: {error}"})
        self.tell({"ended": True})

    @abstractmethod
    def open(self) -> None:
        """Make the consumer and subscribe."""

    @abstractmethod
    def poll(self, seconds: float) -> None:
        """Poll once and tell what came."""

    @abstractmethod
    def commit_now(self) -> None:
        """Commit the positions, synchronously."""

    @abstractmethod
    def close(self) -> None:
        """Close the consumer."""
