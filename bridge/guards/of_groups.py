"""The guards of APIs about groups and their offsets."""

from collections.abc import Iterable, Sequence
from typing import Any

from bridge.apis import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    find_coordinator,
    offset_commit,
    offset_delete,
    offset_fetch,
)
from bridge.errors import KafkaError
from bridge.guards.guard import (
    GROUP,
    TOPIC,
    TRANSACTIONAL_ID,
    Guard,
    Handle,
    Right,
    each,
    take_out,
    whole,
    with_refusals,
)
from bridge.kafka.error_codes import ErrorCode
from bridge.requests.authorization import Checks
from bridge.security.acls import Operation, Resource

_TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_GROUP_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
_READ_GROUP = Right(Operation.READ, GROUP)


async def _offset_commit(request: offset_commit.Request, checks: Checks, handle: Handle) -> Any:
    if not await checks.allows(Operation.READ, Resource(GROUP, request.group_id)):
        return offset_commit.Response(topics=[_uncommitted(topic, _GROUP_DENIED) for topic in request.topics])
    await _name(request.topics, checks)
    refused = await take_out(request, checks, Operation.READ, TOPIC, "topics", "name", may_lack_name=_by_id(checks))
    if refused and not request.topics:
        return offset_commit.Response(topics=[_uncommitted(topic, _TOPIC_DENIED) for topic in refused])
    return await with_refusals(await handle(request), "topics", refused, _uncommitted, _TOPIC_DENIED)


def _by_id(checks: Checks) -> bool:
    return checks.session.api_version >= offset_commit.BY_ID


async def _name(topics: Sequence[Any], checks: Checks) -> None:
    """Versions that name topics by their ids."""
    if topics and _by_id(checks):
        await offset_commit.name_topics(topics, checks.broker)


def _uncommitted(topic: offset_commit.RequestTopic, code: int) -> offset_commit.ResponseTopic:
    return offset_commit.ResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            offset_commit.ResponsePartition(partition_index=one.partition_index, error_code=code)
            for one in topic.partitions
        ],
    )


async def _offset_fetch(request: offset_fetch.Request, checks: Checks, handle: Handle) -> Any:
    if not request.groups:
        return await _offsets_of_one(request, checks, handle)
    refused = await take_out(request, checks, Operation.DESCRIBE, GROUP, "groups", "group_id")
    hidden = {group.group_id: await _hide(group, checks) for group in request.groups}
    response = await handle(request) if request.groups else offset_fetch.Response(groups=[])
    for group in response.groups:
        if group.error_code == ErrorCode.NONE:
            group.topics = await _shown(group.topics, hidden[group.group_id], checks)
    return await with_refusals(response, "groups", refused, _unfetched, _GROUP_DENIED)


async def _offsets_of_one(request: offset_fetch.Request, checks: Checks, handle: Handle) -> Any:
    if not await checks.allows(Operation.DESCRIBE, Resource(GROUP, request.group_id)):
        if checks.session.api_version >= offset_fetch.TOP_LEVEL_ERROR:
            return offset_fetch.Response(topics=[], error_code=_GROUP_DENIED)
        return offset_fetch.Response(topics=[_no_offsets(topic, _GROUP_DENIED) for topic in request.topics or ()])
    hidden = await _hide(request, checks)
    response = await handle(request)
    if response.error_code == ErrorCode.NONE:
        response.topics = await _shown(response.topics, hidden, checks)
    return response


async def _hide(group: Any, checks: Checks) -> list[Any] | None:
    """Take out the topics that the client may not describe; None: it asks for all there are."""
    if group.topics is None:
        return None
    await _name(group.topics, checks)
    return await take_out(group, checks, Operation.DESCRIBE, TOPIC, "topics", "name", may_lack_name=_by_id(checks))


async def _shown(topics: list[Any], hidden: list[Any] | None, checks: Checks) -> list[Any]:
    if hidden is None:
        denied = await checks.denied(Operation.DESCRIBE, TOPIC, [topic.name for topic in topics], lists=True)
        return [topic for topic in topics if topic.name not in denied]
    return [*topics, *(_no_offsets(topic, _TOPIC_DENIED) for topic in hidden)]


def _no_offsets(topic: offset_fetch.Topic, code: int) -> offset_fetch.ResponseTopic:
    return offset_fetch.ResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            offset_fetch.ResponsePartition(
                partition_index=index, committed_offset=-1, committed_leader_epoch=-1, metadata="", error_code=code
            )
            for index in topic.partition_indexes
        ],
    )


def _unfetched(group: offset_fetch.RequestGroup, code: int) -> offset_fetch.ResponseGroup:
    return offset_fetch.ResponseGroup(group_id=group.group_id, error_code=code)


async def _find_coordinator(request: find_coordinator.Request, checks: Checks, handle: Handle) -> Any:
    kind = {find_coordinator.GROUP: GROUP, find_coordinator.TRANSACTION: TRANSACTIONAL_ID}.get(request.key_type)
    if kind is None:  # the handler refuses it
        return await handle(request)
    code = _GROUP_DENIED if kind is GROUP else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if not request.coordinator_keys:
        if await checks.allows(Operation.DESCRIBE, Resource(kind, request.key)):
            return await handle(request)
        return find_coordinator.Response(error_code=code, error_message=code.text, node_id=-1, host="", port=-1)
    refused = await take_out(request, checks, Operation.DESCRIBE, kind, "coordinator_keys")
    response = await handle(request) if request.coordinator_keys else find_coordinator.Response()
    return await with_refusals(response, "coordinators", refused, _not_found, code)


def _not_found(key: str, code: int) -> find_coordinator.Coordinator:
    text = ErrorCode(code).text
    return find_coordinator.Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=text)


async def _list_groups(request: Any, checks: Checks, handle: Handle) -> Any:
    response = await handle(request)
    if response.error_code == ErrorCode.NONE and not await checks.allows(Operation.DESCRIBE, quietly=True):
        names = [group.group_id for group in response.groups]
        denied = await checks.denied(Operation.DESCRIBE, GROUP, names, lists=True)
        response.groups = [group for group in response.groups if group.group_id not in denied]
    return response


async def _describe_groups(request: describe_groups.Request, checks: Checks, handle: Handle) -> Any:
    refused = await take_out(request, checks, Operation.DESCRIBE, GROUP, "groups")
    response = await handle(request)
    if request.include_authorized_operations:
        await _tell_operations(response.groups, checks)
    return await with_refusals(response, "groups", refused, _no_classic_group, _GROUP_DENIED)


def _asks_for_operations(request: Any) -> bool:
    return bool(request.include_authorized_operations)


async def _tell_operations(groups: Iterable[Any], checks: Checks) -> None:
    for group in groups:
        if group.error_code == ErrorCode.NONE:
            group.authorized_operations = await checks.operations(GROUP, group.group_id)


def _no_classic_group(group_id: str, code: int) -> describe_groups.Group:
    return describe_groups.Group(
        error_code=code, group_id=group_id, group_state="", protocol_type="", protocol_data="", members=[]
    )


async def _consumer_group_describe(request: consumer_group_describe.Request, checks: Checks, handle: Handle) -> Any:
    refused = await take_out(request, checks, Operation.DESCRIBE, GROUP, "group_ids")
    response = await handle(request)
    if request.include_authorized_operations:
        await _tell_operations(response.groups, checks)
    response.groups = [await _with_known_topics(group, checks) for group in response.groups]
    return await with_refusals(response, "groups", refused, _no_consumer_group, _GROUP_DENIED)


async def _with_known_topics(group: consumer_group_describe.Group, checks: Checks) -> consumer_group_describe.Group:
    """Nothing of a group whose members have topics that the client may not describe."""
    names = {
        name
        for member in group.members
        for name in (
            *member.subscribed_topic_names,
            *(one.topic_name for one in member.assignment.topic_partitions),
            *(one.topic_name for one in member.target_assignment.topic_partitions),
        )
    }
    if not await checks.denied(Operation.DESCRIBE, TOPIC, names):
        return group
    hidden = _no_consumer_group(group.group_id, _TOPIC_DENIED)
    hidden.error_message = "The group has described topic(s) that the client is not authorized to describe."
    return hidden


def _no_consumer_group(group_id: str, code: int) -> consumer_group_describe.Group:
    return consumer_group_describe.Group(error_code=code, group_id=group_id, members=[])


async def _heartbeat(request: consumer_group_heartbeat.Request, checks: Checks, handle: Handle) -> Any:
    await checks.require(Operation.READ, Resource(GROUP, request.group_id))
    if await checks.denied(Operation.DESCRIBE, TOPIC, request.subscribed_topic_names or ()):
        raise KafkaError(_TOPIC_DENIED)
    return await handle(request)


async def _offset_delete(request: offset_delete.Request, checks: Checks, handle: Handle) -> Any:
    await checks.require(Operation.DELETE, Resource(GROUP, request.group_id))
    refused = await take_out(request, checks, Operation.READ, TOPIC, "topics", "name")
    return await with_refusals(await handle(request), "topics", refused, _not_forgotten, _TOPIC_DENIED)


def _not_forgotten(topic: offset_delete.RequestTopic, code: int) -> offset_commit.ResponseTopic:
    return offset_commit.ResponseTopic(
        name=topic.name,
        partitions=[
            offset_commit.ResponsePartition(partition_index=one.partition_index, error_code=code)
            for one in topic.partitions
        ],
    )


def _not_deleted(group_id: str, code: int) -> delete_groups.Result:
    return delete_groups.Result(group_id=group_id, error_code=code)


_DESCRIBE_TOPIC = Right(Operation.DESCRIBE, TOPIC)
_DESCRIBE_GROUP = Right(Operation.DESCRIBE, GROUP)
GUARDS = {
    8: Guard((_READ_GROUP, Right(Operation.READ, TOPIC)), _offset_commit),
    9: Guard((_DESCRIBE_GROUP, _DESCRIBE_TOPIC), _offset_fetch),
    10: Guard((_DESCRIBE_GROUP, Right(Operation.DESCRIBE, TRANSACTIONAL_ID)), _find_coordinator),
    11: whole(Operation.READ, GROUP, "group_id"),
    12: whole(Operation.READ, GROUP, "group_id"),
    13: whole(Operation.READ, GROUP, "group_id"),
    14: whole(Operation.READ, GROUP, "group_id"),
    15: Guard((_DESCRIBE_GROUP,), _describe_groups, tells_operations=_asks_for_operations),
    16: Guard((Right(Operation.DESCRIBE, GROUP, "or on the cluster, for all"),), _list_groups),
    42: each(Operation.DELETE, _not_deleted, kind=GROUP, asked="groups_names", name="", told="results"),
    47: Guard((Right(Operation.DELETE, GROUP), Right(Operation.READ, TOPIC)), _offset_delete, refuses_whole=True),
    68: Guard(
        (_READ_GROUP, Right(Operation.DESCRIBE, TOPIC, "that it subscribes to; its pattern fits no others")),
        _heartbeat,
        refuses_whole=True,
    ),
    69: Guard(
        (_DESCRIBE_GROUP, Right(Operation.DESCRIBE, TOPIC, "of its members")),
        _consumer_group_describe,
        tells_operations=_asks_for_operations,
    ),
}
