"""Until when the members of a group, and the ids given out, are taken to be alive."""

from typing import Final, TypeAlias

from bridge.groups.classic.members import Member, MemberRegistry
from bridge.groups.deadlines import KeyDeadlines

_ID_BYTES: Final = 400
"""Of memory that an id takes which is given out, beside its letters, roughly."""
Session: TypeAlias = Member | str
"""Of a member, or of an id that was given out and has not joined yet."""


class Sessions:
    """The sessions of one group's members."""

    def __init__(self, members: MemberRegistry) -> None:
        self._members = members
        self._given_out: dict[str, float] = {}  # ids that have not joined with them: when they expire
        self._size = 0
        self._deadlines: KeyDeadlines[Session] = KeyDeadlines(self._deadline_of)

    @property
    def size(self) -> int:
        """The bytes that the ids take which are given out: a client's own id is in each."""
        return self._size

    def __bool__(self) -> bool:
        """Whether ids are given out that have not joined yet."""
        return bool(self._given_out)

    def count_given_out(self, besides: str) -> int:
        """How many ids are given out, without this one."""
        return len(self._given_out) - (besides in self._given_out)

    def is_given_out(self, member_id: str) -> bool:
        """Whether the id is given out and has not joined yet."""
        return member_id in self._given_out

    def give_out(self, member_id: str, deadline: float) -> None:
        """A new member has been told its id, and is to join with it."""
        self.take_back(member_id)
        self._given_out[member_id] = deadline
        self._size += _ID_BYTES + len(member_id)
        self._deadlines.watch(member_id, deadline)

    def take_back(self, member_id: str) -> bool:
        """It has joined, left or expired; whether it was given out."""
        was_given_out = self._given_out.pop(member_id, None) is not None
        if was_given_out:
            self._size -= _ID_BYTES + len(member_id)
        return was_given_out

    def begin(self, member: Member, deadline: float) -> None:
        """A member's session lasts until then."""
        member.deadline = deadline
        self._deadlines.watch(member, deadline)

    def extend(self, member: Member, now: float) -> None:
        """The member has been heard of."""
        member.deadline = now + member.session_timeout_ms / 1000
        self._deadlines.watch(member, member.deadline)

    def first(self) -> float:
        """No session ends before this; inf: there is none."""
        return self._deadlines.first()

    def due(self, now: float) -> list[tuple[float, Session]]:
        """Those that have ended, with their times."""
        return self._deadlines.due(now)

    def _deadline_of(self, session: Session) -> float | None:
        if isinstance(session, str):
            return self._given_out.get(session)
        return session.deadline if self._members.find(session.id) is session else None
