"""Which nodes a request is for, where all have one address: how it is divided, and how the answers are put together."""

import copy
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from bridge.kafka.error_codes import ErrorCode
from bridge.requests.session import Session

_MOST_PAUSE_SECONDS: Final = 0.5


class Owners(Protocol):
    """Who has what; `NO_NODE` where that is not known."""

    def of_group(self, group_id: str) -> int:
        """The node that has a group's slot."""

    async def of_transaction(self, transactional_id: str) -> int:
        """The node that coordinates a transactional id; this one where there are none yet."""

    def of_partition(self, topic: str, partition: int) -> int:
        """The node that leads a partition, though all serve it."""

    def all(self) -> Sequence[int]:
        """Every node."""


class Route:
    """The way of one API's requests to their owners. A part whose owner cannot be asked is answered with an error."""

    unreachable: ErrorCode = ErrorCode.COORDINATOR_NOT_AVAILABLE
    """The error of what an owner has that cannot be asked."""
    tells_connection: bool = False
    """Whether the owner is told on which connection of its client a request came."""
    tells_loss: bool = False
    """Whether the owner is also told when that connection is lost."""

    async def divided(self, request: Any, owners: Owners) -> Mapping[int, Any]:
        """The request of each owner."""
        raise NotImplementedError

    def put_together(self, request: Any, answers: Sequence[Any]) -> Any:
        """The answer to `request` from those of the owners: here of the only one."""
        return answers[0]

    def checked(self, answer: Any, session: Session) -> Any:
        """The answer; Unanswered where this client, which its owners do not know, would take an error for final."""
        return answer

    def limited(self, request: Any, most_bytes: int) -> Any:
        """The request as another node is asked, whose answer may have so many bytes."""
        return request

    def pause(self, request: Any) -> float:
        """Seconds until a part whose owner cannot be asked is answered: for clients that would ask again at once."""
        return 0.0


class OfGroup(Route):
    """The way of a request about one group."""

    async def divided(self, request: Any, owners: Owners) -> Mapping[int, Any]:
        """It goes to its group's coordinator."""
        return {owners.of_group(request.group_id): request}


class OfShareGroup(OfGroup):
    """The way of a member's request for records of a share group: the coordinator leads all its partitions.

    A member whose coordinator cannot be asked opens another session, as one that has lost its connection.
    """

    unreachable = ErrorCode.SHARE_SESSION_NOT_FOUND
    tells_connection = True
    tells_loss = True

    async def divided(self, request: Any, owners: Owners) -> Mapping[int, Any]:
        """It goes to its group's coordinator; one without a group may go anywhere."""
        return {owners.of_group(request.group_id or ""): request}

    def limited(self, request: Any, most_bytes: int) -> Any:
        """With fewer bytes, where it asks for more records than that."""
        if getattr(request, "max_bytes", 0) <= most_bytes:
            return request
        request = copy.copy(request)
        request.max_bytes = most_bytes
        return request

    def pause(self, request: Any) -> float:
        """As long as it would wait for records, half a second at most."""
        return min(max(getattr(request, "max_wait_ms", 0), 0) / 1000, _MOST_PAUSE_SECONDS)


class OfTransactionalGroup(OfGroup):
    """The same, where a transaction commits the group's offsets."""

    tells_connection = True


class OfTransaction(Route):
    """The way of a request about one transactional id."""

    tells_connection = True

    def __init__(self, named: str = "transactional_id") -> None:
        """`named`: the field that has the id."""
        self._named = named

    async def divided(self, request: Any, owners: Owners) -> Mapping[int, Any]:
        """It goes to the id's coordinator; one without an id is served where it arrives."""
        transactional_id = getattr(request, self._named)
        return {await owners.of_transaction(transactional_id) if transactional_id else owners.all()[0]: request}


class OfGroups(Route):
    """The way of a request about several groups."""

    _key = "group_id"

    def __init__(self, asked: str, answered: str) -> None:
        """`asked`, `answered`: the arrays of the request and of the response."""
        self._asked, self._answered = asked, answered

    async def divided(self, request: Any, owners: Owners) -> Mapping[int, Any]:
        """Each coordinator gets its groups."""
        groups: defaultdict[int, list[Any]] = defaultdict(list)
        for one in getattr(request, self._asked):
            groups[await self._owner(self._id_of(one), owners)].append(one)
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
                    found[self._id_of(one)].append(one)
            order = [self._id_of(one) for one in getattr(request, self._asked)]
            setattr(first, self._answered, [found[one].popleft() for one in order if found[one]])
        return first

    async def _owner(self, of: str, owners: Owners) -> int:
        return owners.of_group(of)

    def _id_of(self, one: Any) -> str:
        """The id of a group that is asked for, which some APIs ask for by its id alone."""
        return one if isinstance(one, str) else str(getattr(one, self._key))


class OfTransactions(OfGroups):
    """The way of a request about several transactional ids."""

    _key = "transactional_id"

    async def _owner(self, of: str, owners: Owners) -> int:
        return await owners.of_transaction(of) if of else owners.all()[0]


class OfAllNodes(Route):
    """The way to every node: each lists what it has."""

    def __init__(self, listed: str) -> None:
        """`listed`: the array of the response."""
        self._listed = listed

    async def divided(self, request: Any, owners: Owners) -> Mapping[int, Any]:
        """All are asked the same."""
        return dict.fromkeys(owners.all(), request)

    def put_together(self, request: Any, answers: Sequence[Any]) -> Any:
        """The lists of all; an error if one is missing."""
        first, errors = answers[0], [answer.error_code for answer in answers if answer.error_code]
        first.error_code = errors[0] if errors else ErrorCode.NONE
        setattr(first, self._listed, [one for answer in answers for one in getattr(answer, self._listed)])
        return first


OF_GROUP: Final = OfGroup()
OF_SHARE_GROUP: Final = OfShareGroup()
