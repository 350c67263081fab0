"""Who should have which tasks: Kafka's assignor `sticky` (StickyTaskAssignor)."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from bridge.groups.streams.model import NO_TASKS, Task, Tasks


@dataclass(frozen=True, slots=True)
class AssignorMember:
    """A member as the assignor sees it."""

    process_id: str
    had: Tasks = NO_TASKS
    """Its target until now."""


def assign(
    members: Mapping[str, AssignorMember],
    tasks: Collection[Task],
    stateful: Collection[str],
    standby_replicas: int,
) -> dict[str, Tasks]:
    """What each member should have, by member id. `stateful`: the subtopologies whose tasks get standbys."""
    raise NotImplementedError
