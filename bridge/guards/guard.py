"""What a guard is, and the forms that most have."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from bridge.requests.api import DeferredResponse
from bridge.requests.authorization import ERRORS, Checks
from bridge.runtime.futures import in_turns
from bridge.security.acls import CLUSTER as THE_CLUSTER
from bridge.security.acls import Operation, Resource, ResourceType

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID

Handle: TypeAlias = Callable[[Any], Awaitable[Any]]
"""The API's handler, for what is left of the request."""
Run: TypeAlias = Callable[[Any, Checks, Handle], Awaitable[Any]]


class Right(NamedTuple):
    """One line of the table."""

    operation: Operation
    type: ResourceType
    note: str = ""
    """When, or instead of what."""


@dataclass(frozen=True, slots=True)
class Guard:
    """What one API needs, and how that is checked."""

    rights: tuple[Right, ...] = ()
    run: Run | None = None
    """None: the handler itself looks, or nothing is needed."""
    refuses_whole: bool = False
    """Whether the refusal is the error of the response as a whole."""
    tells_operations: Callable[[Any], bool] | None = None
    """Whether a request asks for authorizedOperations (KIP-430): they are told without an authorizer, too."""


def then(result: Any, change: Callable[[Any], Any]) -> Any:
    """The handler's result with a change to its response, which may not be there yet."""
    if isinstance(result, DeferredResponse):
        make = result.make
        return DeferredResponse(result.future, lambda value: change(value if make is None else make(value)))
    return change(result)


def whole(operation: Operation, kind: ResourceType = CLUSTER, field: str = "", note: str = "") -> Guard:
    """One resource for the whole request: the cluster, or that which a field names."""

    async def run(request: Any, checks: Checks, handle: Handle) -> Any:
        resource = Resource(kind, getattr(request, field)) if field else THE_CLUSTER
        await checks.require(operation, resource)
        return await handle(request)

    return Guard((Right(operation, kind, note),), run, refuses_whole=True)


def each(
    operation: Operation,
    refuse: Callable[[Any, int], Any],
    *,
    kind: ResourceType = TOPIC,
    asked: str = "topics",
    name: str = "name",
    told: str = "topics",
    instead: Right | None = None,
) -> Guard:
    """Each element of an array of the request; `refuse` makes the element of the response of those that may not be.

    `instead`: a right on the cluster that is enough for all.
    """

    async def run(request: Any, checks: Checks, handle: Handle) -> Any:
        if instead is not None and await checks.allows(instead.operation, quietly=True):
            return await handle(request)
        refused = await take_out(request, checks, operation, kind, asked, name)
        result = await handle(request)
        return await with_refusals(result, told, refused, refuse, ERRORS[kind])

    return Guard((Right(operation, kind), *([instead] if instead is not None else ())), run)


async def take_out(
    request: Any,
    checks: Checks,
    operation: Operation,
    kind: ResourceType,
    asked: str,
    name: str = "",
    *,
    may_lack_name: bool = False,
) -> list[Any]:
    """Take the elements that the client may not touch out of an array of the request, and return them.

    `may_lack_name`: what has none is asked for by an id that nothing has, as the handler will say.
    """
    elements: Sequence[Any] = getattr(request, asked) or ()
    names = {getattr(one, name) if name else one async for one in in_turns(elements)}
    if may_lack_name:
        names.discard("")
    denied = await checks.denied(operation, kind, names)
    if not denied:
        return []
    kept: list[Any] = []
    refused: list[Any] = []
    async for one in in_turns(elements):
        (refused if (getattr(one, name) if name else one) in denied else kept).append(one)
    setattr(request, asked, kept)
    return refused


async def with_refusals(
    result: Any, told: str, refused: Sequence[Any], refuse: Callable[[Any, int], Any], code: int
) -> Any:
    """The response with the refusals behind what was done."""
    if not refused:
        return result
    refusals = [refuse(one, code) async for one in in_turns(refused)]

    def add(response: Any) -> Any:
        setattr(response, told, [*getattr(response, told), *refusals])
        return response

    return then(result, add)
