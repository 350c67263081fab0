"""Collects what comes out of a group's state machine: answers to held requests, and records to be stored."""

from collections.abc import Callable
from typing import TypeAlias

from bridge.groups.classic.events import Answer, Effect, Joined, Save, Synced
from bridge.groups.classic.members import Member, MemberRegistry, Ticket
from bridge.groups.classic.records import GroupRecord
from bridge.kafka.error_codes import ErrorCode

OnSaved: TypeAlias = Callable[[ErrorCode, float], None]
"""What the machine does when a record has been stored, or could not be."""


class Effects:
    """Those of one group that have not been taken, and the records on their way."""

    def __init__(self) -> None:
        self._ready: list[Effect] = []
        self._saves: dict[int, OnSaved] = {}
        self._number = 0

    @property
    def saving(self) -> bool:
        """Whether a record is being stored."""
        return bool(self._saves)

    def take(self) -> list[Effect]:
        """What has come out since the last call."""
        ready, self._ready = self._ready, []
        return ready

    def answer(self, ticket: Ticket, answer: Joined | Synced) -> None:
        """Answer a request."""
        self._ready.append(Answer(ticket, answer))

    def answer_join(self, members: MemberRegistry, member: Member, answer: Joined) -> None:
        """Answer the member's JoinGroup, if one is held."""
        if member.joining is not None:
            self.answer(member.joining, answer)
            members.hold_join(member, None)

    def answer_sync(self, member: Member, answer: Synced) -> bool:
        """Answer the member's SyncGroup; whether one was held."""
        if member.syncing is None:
            return False
        self.answer(member.syncing, answer)
        member.syncing = None
        return True

    def save(self, record: GroupRecord, then: OnSaved) -> None:
        """Have a record stored."""
        self._number += 1
        self._saves[self._number] = then
        self._ready.append(Save(self._number, record))

    def saved(self, number: int, error: ErrorCode, now: float) -> None:
        """A record has been stored, or could not be."""
        self._saves.pop(number)(error, now)
