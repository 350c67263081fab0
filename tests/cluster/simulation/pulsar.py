"""A model of Pulsar: the heartbeat topic, the view log, names of producers, connections.

What was measured of Pulsar 4.0.7 and is modelled:

* A name in use is refused at once while its holder's connection answers. If it does not, the broker waits 5 s for a
  sign of life, then closes that connection and grants the name.
* A connection that answers nothing is closed by the broker's keep-alive after 30 to 60 s.
* What is under way on a connection that is closed may be stored although its receipt is lost.
* A topic that moves closes all its producers; they are open again after 0.2 to 0.3 s.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from bridge.cluster.membership.record_format import decode, encode
from bridge.cluster.membership.records import Heartbeat, Record
from bridge.cluster.membership.view import Sender
from bridge.pulsar.types import Position
from tests.cluster.simulation.clock import Clock

LIVENESS_CHECK = 5.0


class Owner(Protocol):
    """The process at the other end of a connection."""

    @property
    def answers_pings(self) -> bool: ...
    def connection_closed(self, session: "Session") -> None: ...
    def topic_grew(self, topic: "Topic") -> None: ...


@dataclass(eq=False)
class Session:
    """A connection as the broker sees it."""

    owner: Owner
    is_open: bool = True
    waiting: list[Callable[[], None]] = field(default_factory=list)
    """Called when it shows a sign of life."""


@dataclass(eq=False)
class Topic:
    """A log, and who reads it."""

    name: str
    entries: list[tuple[Sender, Record]] = field(default_factory=list)
    readers: dict[Owner, None] = field(default_factory=dict)
    moves_until: float = 0.0
    first: int = 0
    """The first that is there: what is older than the retention was deleted, read or not."""


class Pulsar:
    """The broker."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.heartbeats = Topic("heartbeats")
        self.log = Topic("log")
        self.names: dict[str, Session] = {}
        self.sessions: list[Session] = []
        self.is_stalled = False
        self.is_up = True
        self.disturbed_at = -99.0
        """When Pulsar was last not itself."""
        self.stored: Callable[[Sender, Record, Position, float], None] = lambda sender, record, position, sent_at: None
        self._parked: list[Callable[[], None]] = []

    # ---- requests ----------------------------------------------------------------------------------------------------

    def take(self, session: Session, request: Callable[[], None]) -> None:
        """A request of a connection has come."""
        if not session.is_open or not self.is_up:
            return
        if self.is_stalled:
            self._parked.append(lambda: self.take(session, request))
        else:
            request()

    def append(self, topic: Topic, sender: Sender, record: Record, sent_at: float, done: Callable[[], None]) -> None:
        """Store a record; readers hear of it."""
        if topic.moves_until > self.clock.now:
            self.clock.at(topic.moves_until, lambda: self.append(topic, sender, record, sent_at, done))
            return
        read = decode(encode(record))
        assert read == record
        topic.entries.append((sender, read))
        if not isinstance(read, Heartbeat):
            self.stored(sender, read, Position(0, len(topic.entries) - 1), sent_at)
        done()
        for reader in list(topic.readers):
            reader.topic_grew(topic)

    def open(self, name: str, session: Session, answer: Callable[[bool], None]) -> None:
        """Open a producer of this name; True: granted."""
        holder = self.names.get(name)
        if holder is None or not holder.is_open or holder is session:
            self.names[name] = session
            answer(True)
        elif holder.owner.answers_pings:
            answer(False)
        else:
            self._check(name, holder, session, answer)

    def _check(self, name: str, holder: Session, session: Session, answer: Callable[[bool], None]) -> None:
        answered = False

        def alive() -> None:
            nonlocal answered
            if not answered:
                answered = True
                answer(False)

        def over() -> None:
            nonlocal answered
            if answered or not self.is_up:
                return
            answered = True
            if not holder.owner.answers_pings:
                self.close(holder)
            self.open(name, session, answer)

        holder.waiting.append(alive)
        self.clock.after(LIVENESS_CHECK, over)

    def release(self, name: str, session: Session) -> None:
        """Close a producer."""
        if self.names.get(name) is session:
            del self.names[name]

    # ---- connections -------------------------------------------------------------------------------------------------

    def connect(self, owner: Owner) -> Session | None:
        """A new connection."""
        if not self.is_up:
            return None
        session = Session(owner)
        self.sessions.append(session)
        return session

    def close(self, session: Session) -> None:
        """The broker closes a connection."""
        if session.is_open:
            session.is_open = False
            self.sessions.remove(session)
            self.names = {name: holder for name, holder in self.names.items() if holder is not session}
            session.owner.connection_closed(session)

    def answers_again(self, session: Session) -> None:
        """The other end is back."""
        waiting, session.waiting = session.waiting, []
        if session.is_open:
            for alive in waiting:
                alive()

    # ---- faults ------------------------------------------------------------------------------------------------------

    def stall(self, seconds: float) -> None:
        """Nothing is answered for a while; nothing is lost."""
        self.is_stalled = True
        self.disturbed_at = self.clock.now + seconds + 1.5

        def over() -> None:
            self.is_stalled = False
            parked, self._parked = self._parked, []
            for request in parked:
                self.clock.after(self.clock.chance.uniform(0, 0.01), request)

        self.clock.after(seconds, over)

    def restart(self, seconds: float) -> None:
        """Away for a while; all connections are lost."""
        self.is_up = False
        self.disturbed_at = self.clock.now + seconds + 5
        for session in list(self.sessions):
            self.close(session)
        self._parked.clear()

        def up() -> None:
            self.is_up = True

        self.clock.after(seconds, up)

    def move(self, topic: Topic) -> None:
        """Another broker has the topic: all its producers are closed, and open again."""
        seconds = self.clock.chance.uniform(0.17, 1.0)
        topic.moves_until = self.clock.now + seconds
        self.disturbed_at = max(self.disturbed_at, topic.moves_until + 4)
        if topic is self.heartbeats:
            for session in list(self.sessions):
                self.close(session)
