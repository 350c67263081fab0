"""Share sessions (KIP-932): what one member of a share group reads at this node, over one connection.

When the connection closes, or the member leaves its group, the session does, and others get what the member has.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, TypeAlias
from uuid import UUID

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.runtime.fairness import Quota
from bridge.shares.partition import LedPartition
from bridge.telemetry.metrics import ShareMetrics

MOST_SESSIONS: Final = 2000
"""Of one node and namespace (Kafka's group.share.max.share.sessions)."""
MOST_PARTITIONS: Final = 500_000
"""Of all their sessions; a partition counts in each that reads it, and so does one that is not there."""
OPENS: Final = 0
CLOSES: Final = -1
"""Epochs of the request that opens a session, and of that which closes it."""
_LAST_EPOCH: Final = 2**31 - 1

Place: TypeAlias = tuple[UUID, int]
"""A topic's id, and a partition."""


@dataclass(slots=True, eq=False)
class ShareSession:
    """One member's."""

    group_id: str
    member_id: str
    connection: int
    epoch: int = 1
    """That of the next request."""
    partitions: dict[Place, None] = field(default_factory=dict)
    """In the order in which they are to be read."""
    read: dict[Place, LedPartition] = field(default_factory=dict)
    """Those that its requests have opened."""
    is_open: bool = True
    on_closed: Callable[[], None] = lambda: None
    """Called once: its connection has nothing to close any more, and holds nothing of it."""

    def has_opened(self, place: Place, led: LedPartition) -> None:
        """A request of the session is to use it."""
        if not self.is_open:
            led.close_unused()
        elif self.read.get(place) is not led:
            self.read[place] = led
            led.readers += 1


class ShareSessions:
    """Those of one namespace."""

    def __init__(self, metrics: ShareMetrics) -> None:
        self._metrics = metrics
        self._sessions: dict[tuple[str, str], ShareSession] = {}
        self._places = Quota(MOST_PARTITIONS)

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def is_full(self) -> bool:
        """Whether there is no place for another one."""
        return len(self._sessions) >= MOST_SESSIONS

    def open(self, group_id: str, member_id: str, connection: int) -> ShareSession:
        """A new session, in the place of the member's present one; SHARE_SESSION_LIMIT_REACHED."""
        present = self._sessions.get((group_id, member_id))
        if present is not None:
            self.close(present, counts=True)
        if self.is_full:
            raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        made = self._sessions[group_id, member_id] = ShareSession(group_id, member_id, connection)
        self._metrics.sessions.inc()
        return made

    def next(self, group_id: str, member_id: str, epoch: int) -> ShareSession:
        """The member's session, for its next request, or for the last one with the epoch −1.

        SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH.
        """
        found = self._sessions.get((group_id, member_id))
        if found is None:
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if epoch != CLOSES:
            if epoch != found.epoch:
                raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
            found.epoch = 1 if epoch == _LAST_EPOCH else epoch + 1
        return found

    def read(self, session: ShareSession, more: Iterable[Place], forgotten: Iterable[Place]) -> None:
        """Let it read more, but not what is forgotten; SHARE_SESSION_LIMIT_REACHED, and it is closed, at the limit."""
        before, reads = len(session.partitions), session.partitions | dict.fromkeys(more)
        for place in forgotten:
            reads.pop(place, None)
        if not self._places.acquire(len(reads) - before):
            self.close(session, counts=True)
            raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED, "share sessions read too many partitions")
        session.partitions = reads

    def end(self, group_id: str, member_id: str) -> None:
        """The member is none any more."""
        found = self._sessions.get((group_id, member_id))
        if found is not None:
            self.close(found, counts=True)

    def end_groups(self, lost: Callable[[str], bool]) -> None:
        """These groups are not served here any more."""
        for session in [one for one in self._sessions.values() if lost(one.group_id)]:
            self.close(session, counts=True)

    def close(self, session: ShareSession, *, counts: bool) -> None:
        """End it, and give what its member has to others; `counts`: as `SharePartition.release`."""
        if not session.is_open:
            return
        session.is_open = False
        self._metrics.sessions.dec()
        self._places.release(len(session.partitions))
        key = session.group_id, session.member_id
        if self._sessions.get(key) is session:
            del self._sessions[key]
        for led in session.read.values():
            led.release(session.member_id, counts=counts)
            led.readers -= 1
            led.close_unused()
        session.read.clear()
        session.on_closed()
