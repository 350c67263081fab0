"""What the checks and the answers of a classic group read of it."""

from typing import Protocol

from bridge.groups.classic.events import ClassicGroupState
from bridge.groups.classic.members import MemberRegistry
from bridge.groups.classic.sessions import Sessions


class GroupFacts(Protocol):
    """A group (`state.ClassicGroup`)."""

    members: MemberRegistry
    sessions: Sessions
    state: ClassicGroupState
    generation: int
    protocol_type: str | None
    protocol_name: str | None
