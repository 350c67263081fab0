"""The usual forms of `Api.rights`, and what runs them: before and around the handlers.

A check takes what the client may not do out of a request, has the handler do the rest, and adds the refusals to its
answer: they are the API's error answer to a request for those alone. Fetch and Produce look for themselves
(`fetch.partitions`, `apis.produce`): they are asked too often for more than one look.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from copy import copy
from typing import Any, Final, cast

from bridge.errors import KafkaError
from bridge.kafka import message
from bridge.kafka.error_codes import ErrorCode
from bridge.requests.api import Api, Broker, Rest, Right, Rights
from bridge.requests.authorization import ERRORS, EVERYTHING, Checks
from bridge.requests.responses import DeferredResponse
from bridge.requests.session import Session
from bridge.runtime.futures import in_chunks, in_turns
from bridge.security.acls import CLUSTER as THE_CLUSTER
from bridge.security.acls import Operation, Resource, ResourceType
from bridge.storage.topics.resources import ResourceType as ConfigResource

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID

NOTHING: Final = Rights()
"""No right is needed."""
_OF_CONFIGS: Final = {ConfigResource.TOPIC: TOPIC, ConfigResource.GROUP: GROUP}
"""All else is the cluster's."""


def are_checked(api: Api, broker: Broker) -> bool:
    """Whether something stands before the API's handler."""
    rights = api.rights
    return rights.check is not None and (broker.authorization is not None or rights.tells_operations is not None)


async def checked(api: Api, request: Any, broker: Broker, session: Session, rest: Rest) -> Any:
    """The result of the API's handler, of what its client may do. The request is left as it is."""
    authorization, rights = broker.authorization, api.rights
    if authorization is None and rights.tells_operations is not None and rights.tells_operations(request):
        authorization = EVERYTHING
    if authorization is None or rights.check is None:
        return await rest(request)
    return await rights.check(copy(request), Checks(authorization, broker, session, api), rest)


def whole(operation: Operation, kind: ResourceType, field: str) -> Rights:
    """One resource for the whole request, that which a field names."""

    async def check(request: Any, checks: Checks, rest: Rest) -> Any:
        await checks.require(operation, Resource(kind, getattr(request, field)))
        return await rest(request)

    return Rights((Right(operation, kind),), check)


def cluster(operation: Operation, *, instead: Right | None = None, of_a_namespace: bool = False) -> Rights:
    """The cluster. `instead`: another right on it that is enough, too. `of_a_namespace`: see `Rights`."""

    async def check(request: Any, checks: Checks, rest: Rest) -> Any:
        if instead is None or not await checks.allows(instead.operation, quietly=True):
            await checks.require(operation)
        return await rest(request)

    return Rights(_or(Right(operation, CLUSTER), instead), check, of_a_namespace=of_a_namespace)


def each(
    operation: Operation,
    *,
    kind: ResourceType = TOPIC,
    asked: str = "topics",
    name: str = "name",
    instead: Right | None = None,
) -> Rights:
    """Each element of an array of the request, by the name in a field, or by itself.

    `instead`: a right on the cluster that is enough for all.
    """

    async def check(request: Any, checks: Checks, rest: Rest) -> Any:
        if instead is not None and await checks.allows(instead.operation, quietly=True):
            return await rest(request)
        refusals = await refused(request, checks, operation, kind, asked, name)
        return joined(await rest(request), refusals)

    return Rights(_or(Right(operation, kind), instead), check)


def each_config(operation: Operation) -> Rights:
    """Each of some `resources` that have configs, by its type."""

    async def check(request: Any, checks: Checks, rest: Rest) -> Any:
        by_resource: defaultdict[Resource, list[Any]] = defaultdict(list)
        for one in request.resources:
            kind = _OF_CONFIGS.get(one.resource_type, CLUSTER)
            by_resource[Resource(kind, one.resource_name) if kind is not CLUSTER else THE_CLUSTER].append(one)
        kept, refusals = [], []
        for kind in (TOPIC, GROUP, CLUSTER):
            denied = await checks.denied(operation, kind, [one.name for one in by_resource if one.type is kind])
            of_kind = [(one.name, resources) for one, resources in by_resource.items() if one.type is kind]
            kept += [one for name, resources in of_kind if name not in denied for one in resources]
            those = [one for name, resources in of_kind if name in denied for one in resources]
            refusals.append(await refusal(request, checks, kind, "resources", those))
        request.resources = kept
        return joined(await rest(request), *refusals)

    topic, group = (Right(operation, kind, "of its configs") for kind in (TOPIC, GROUP))
    return Rights((topic, group, Right(operation, CLUSTER, "of the others")), check)


async def refused(
    request: Any,
    checks: Checks,
    operation: Operation,
    kind: ResourceType,
    asked: str,
    name: str,
) -> Any | None:
    """Take the elements that the client may not touch out of an array of the request, and return their refusal."""
    taken = await take_out(request, checks, operation, kind, asked, name)
    return await refusal(request, checks, kind, asked, taken)


async def take_out(
    request: Any,
    checks: Checks,
    operation: Operation,
    kind: ResourceType,
    asked: str,
    name: str,
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
    taken: list[Any] = []
    async for one in in_turns(elements):
        (taken if (getattr(one, name) if name else one) in denied else kept).append(one)
    setattr(request, asked, kept)
    return taken


async def refusal(request: Any, checks: Checks, kind: ResourceType, asked: str, elements: Sequence[Any]) -> Any | None:
    """The answer to a request for these elements alone, with which the client may not do what it asks; None without."""
    answers = []
    async for some in in_chunks(elements):
        part = copy(request)
        setattr(part, asked, some)
        answers.append(cast(Api, checks.api).failure(part, ERRORS[kind], "", checks.session.api_version))
    return joined(*answers) if answers else None


def joined(result: Any, *more: Any | None) -> Any:
    """The handler's result with the elements of other answers behind its own; it may not be there yet."""

    refusals = [one for one in more if one is not None]

    def join(response: Any) -> Any:
        for name, _ in message.arrays_of(cast(type, type(refusals[0]))) if refusals else ():
            elements = [element for one in refusals for element in getattr(one, name) or ()]
            if elements:
                setattr(response, name, [*getattr(response, name), *elements])
        return response

    if isinstance(result, DeferredResponse):
        make = result.make
        return DeferredResponse(result.future, lambda value: join(value if make is None else make(value)))
    return join(result)


async def exists(topic: str, checks: Checks) -> bool:
    """Whether a topic is there, as far as its name is valid."""
    try:
        return await checks.broker.topics.get(topic) is not None
    except KafkaError:  # the handler says what is wrong with it
        return True


async def tell_topic_operations(topics: Iterable[Any], checks: Checks) -> None:
    """What the client may do with each topic, also if it does not exist, as in Kafka."""
    async for topic in in_turns(topics):
        if topic.name is not None:
            topic.topic_authorized_operations = await checks.operations(TOPIC, topic.name)


async def tell_group_operations(groups: Iterable[Any], checks: Checks) -> None:
    """What the client may do with each group that is described."""
    for group in groups:
        if group.error_code == ErrorCode.NONE:
            group.authorized_operations = await checks.operations(GROUP, group.group_id)


def _or(right: Right, instead: Right | None) -> tuple[Right, ...]:
    return (right,) if instead is None else (right, instead)
