"""Which nodes a request is for, where all have one address: how it is divided, and how the answers are put together."""

import copy
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from bridge.kafka.error_codes import ErrorCode


class Owners(Protocol):
    """Who has what; `NO_NODE` where that is not known."""

    def of_group(self, group_id: str) -> int:
        """The node that has a group's slot."""

    def of_partition(self, topic: str, partition: int) -> int:
        """The node that leads a partition, though all serve it."""

    def all(self) -> Sequence[int]:
        """Every node."""


class Route:
    """The way of one API's requests to their owners. A part whose owner cannot be asked is answered with an error."""

    unreachable: ErrorCode = ErrorCode.COORDINATOR_NOT_AVAILABLE
    """The error of what an owner has that cannot be asked."""

    def divided(self, request: Any, owners: Owners) -> Mapping[int, Any]:
        """The request of each owner."""
        raise NotImplementedError

    def put_together(self, request: Any, answers: Sequence[Any]) -> Any:
        """The answer to `request` from those of the owners: here of the only one."""
        return answers[0]


class OfGroup(Route):
    """The way of a request about one group."""

    def divided(self, request: Any, owners: Owners) -> Mapping[int, Any]:
        """It goes to its group's coordinator."""
        return {owners.of_group(request.group_id): request}


class OfGroups(Route):
    """The way of a request about several groups."""

    def __init__(self, asked: str, answered: str) -> None:
        """`asked`, `answered`: the arrays of the request and of the response."""
        self._asked, self._answered = asked, answered

    def divided(self, request: Any, owners: Owners) -> Mapping[int, Any]:
        """Each coordinator gets its groups."""
        groups: defaultdict[int, list[Any]] = defaultdict(list)
        for one in getattr(request, self._asked):
            groups[owners.of_group(_id_of(one))].append(one)
        if len(groups) <= 1:
            return dict.fromkeys(groups or owners.all()[:1], request)
        parts = {owner: copy.copy(request) for owner in groups}
        for owner, part in parts.items():
            setattr(part, self._asked, groups[owner])
        return parts

    def put_together(self, request: Any, answers: Sequence[Any]) -> Any:
        """All groups, in the order of the request."""
        first = answers[0]
        if len(answers) > 1:
            found: defaultdict[str, deque[Any]] = defaultdict(deque)
            for answer in answers:
                for one in getattr(answer, self._answered):
                    found[one.group_id].append(one)
            order = [_id_of(one) for one in getattr(request, self._asked)]
            setattr(first, self._answered, [found[one].popleft() for one in order if found[one]])
        return first


def _id_of(asked: Any) -> str:
    """The id of a group that is asked for, which some APIs ask for by its id alone."""
    return asked if isinstance(asked, str) else str(asked.group_id)


OF_GROUP: Final = OfGroup()
