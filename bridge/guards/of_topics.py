"""The guards of APIs about topics."""

from collections import Counter
from typing import Any

from bridge.apis import (
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_producers,
    describe_topic_partitions,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
)
from bridge.errors import KafkaError
from bridge.guards.guard import CLUSTER, TOPIC, Guard, Handle, Right, each, take_out, with_refusals
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import ZERO_UUID
from bridge.requests.authorization import Checks
from bridge.runtime.futures import gathered_for, in_turns
from bridge.security.acls import Operation

_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _no_offsets(topic: list_offsets.RequestTopic, code: int) -> list_offsets.ResponseTopic:
    indexes = {one.partition_index for one in topic.partitions}
    partitions = [list_offsets.ResponsePartition(partition_index=index, error_code=code) for index in indexes]
    return list_offsets.ResponseTopic(name=topic.name, partitions=partitions)


def _no_epochs(topic: offset_for_leader_epoch.RequestTopic, code: int) -> offset_for_leader_epoch.ResponseTopic:
    return offset_for_leader_epoch.ResponseTopic(
        topic=topic.topic,
        partitions=[
            offset_for_leader_epoch.ResponsePartition(partition=one.partition, error_code=code)
            for one in topic.partitions
        ],
    )


def _not_deleted(topic: delete_records.RequestTopic, code: int) -> delete_records.ResponseTopic:
    return delete_records.ResponseTopic(
        name=topic.name,
        partitions=[
            delete_records.ResponsePartition(partition_index=one.partition_index, error_code=code)
            for one in topic.partitions
        ],
    )


def _not_grown(topic: create_partitions.RequestTopic, code: int) -> create_partitions.ResponseTopic:
    return create_partitions.ResponseTopic(name=topic.name, error_code=code, error_message=None)


def _no_producers(topic: describe_producers.RequestTopic, code: int) -> describe_producers.ResponseTopic:
    return describe_producers.ResponseTopic(
        name=topic.name,
        partitions=[
            describe_producers.ResponsePartition(
                partition_index=index, error_code=code, error_message=ErrorCode(code).text, active_producers=[]
            )
            for index in topic.partition_indexes
        ],
    )


async def _metadata(request: metadata.Request, checks: Checks, handle: Handle) -> Any:
    """Topics that one may not describe do not show; those that are missing need CREATE to be made."""
    refused = [] if request.topics is None else await _undescribable(request, checks)
    if request.topics and request.allow_auto_topic_creation:
        refused += await _not_to_be_made(request, checks)
    response = await handle(request)
    if request.topics is None:
        hidden = await checks.denied(Operation.DESCRIBE, TOPIC, [one.name for one in response.topics], lists=True)
        response.topics = [one for one in response.topics if one.name not in hidden]
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = await checks.cluster_operations()
    if request.include_topic_authorized_operations:
        await _tell_operations(response.topics, checks)
    response.topics = [*response.topics, *refused]
    return response


async def _undescribable(request: metadata.Request, checks: Checks) -> list[metadata.ResponseTopic]:
    broker, wanted = checks.broker, request.topics or ()
    ids = {one.topic_id async for one in in_turns(wanted) if one.topic_id != ZERO_UUID and one.name is None}
    named = {
        topic_id: topic.name for topic_id, topic in (await gathered_for(ids, broker.topics.by_id)).items() if topic
    }
    names = {one.name if one.name is not None else named.get(one.topic_id) for one in wanted}
    denied = await checks.denied(Operation.DESCRIBE, TOPIC, [name for name in names if name is not None])
    if not denied:
        return []
    kept, refused = [], []
    for one in wanted:
        if (one.name if one.name is not None else named.get(one.topic_id)) in denied:
            topic_id = one.topic_id if one.name is None else ZERO_UUID
            refused.append(metadata.ResponseTopic(error_code=_DENIED, name=one.name, topic_id=topic_id, partitions=[]))
        else:
            kept.append(one)
    request.topics = kept
    return refused


async def _not_to_be_made(request: metadata.Request, checks: Checks) -> list[metadata.ResponseTopic]:
    broker = checks.broker
    if not broker.settings.kafka.auto_create_topics or await checks.allows(Operation.CREATE, quietly=True):
        return []
    missing = [
        one.name for one in request.topics or () if one.name is not None and broker.topics.cached(one.name) is None
    ]
    denied = await checks.denied(Operation.CREATE, TOPIC, missing, lists=True)
    found = await gathered_for(list(denied), lambda name: _exists(name, checks))
    gone = {name for name, exists in found.items() if not exists}
    request.topics = [one for one in request.topics or () if one.name not in gone]
    await checks.denied(Operation.CREATE, TOPIC, gone)
    return [metadata.ResponseTopic(error_code=_DENIED, name=name, partitions=[]) for name in gone]


async def _exists(name: str, checks: Checks) -> bool:
    try:
        return await checks.broker.topics.get(name) is not None
    except KafkaError:  # the handler says what is wrong with it
        return True


async def _tell_operations(topics: list[Any], checks: Checks) -> None:
    """Also of topics that do not exist, as in Kafka."""
    async for topic in in_turns(topics):
        if topic.name is not None:
            topic.topic_authorized_operations = await checks.operations(TOPIC, topic.name)


async def _describe_topic_partitions(request: describe_topic_partitions.Request, checks: Checks, handle: Handle) -> Any:
    refused: list[Any] = []
    if request.topics:
        refused = await take_out(request, checks, Operation.DESCRIBE, TOPIC, "topics", "name")
    else:
        await _name_all(request, checks)
    response = await handle(request) if request.topics else describe_topic_partitions.Response(topics=[])
    await _tell_operations(response.topics, checks)
    return await with_refusals(response, "topics", refused, _not_described, _DENIED)


async def _name_all(request: describe_topic_partitions.Request, checks: Checks) -> None:
    """All that the client may know of, as if it had asked for them."""
    names = set(await checks.broker.topics.names())
    names.difference_update(await checks.denied(Operation.DESCRIBE, TOPIC, names, lists=True))
    if request.cursor is not None and request.cursor.topic_name not in names:  # it was deleted since
        names = {name for name in names if name > request.cursor.topic_name}
        request.cursor = None
    request.topics = [describe_topic_partitions.RequestTopic(name=name) for name in names]


def _not_described(topic: describe_topic_partitions.RequestTopic, code: int) -> describe_topic_partitions.ResponseTopic:
    return describe_topic_partitions.ResponseTopic(error_code=code, name=topic.name, topic_id=ZERO_UUID, partitions=[])


async def _create_topics(request: create_topics.Request, checks: Checks, handle: Handle) -> Any:
    refused: list[Any] = []
    if not await checks.allows(Operation.CREATE, quietly=True):
        times = Counter(topic.name for topic in request.topics)
        denied = await checks.denied(Operation.CREATE, TOPIC, [name for name in times if times[name] == 1])
        refused = [topic for topic in request.topics if topic.name in denied]
        request.topics = [topic for topic in request.topics if topic.name not in denied]
    response = await handle(request)
    hidden = await checks.denied(Operation.DESCRIBE_CONFIGS, TOPIC, [one.name for one in response.topics], lists=True)
    for topic in response.topics:
        if topic.name in hidden and topic.error_code == ErrorCode.NONE:
            topic.topic_config_error_code = _DENIED
            topic.num_partitions, topic.replication_factor, topic.configs = -1, -1, []
    return await with_refusals(response, "topics", refused, _not_created, _DENIED)


def _not_created(topic: create_topics.RequestTopic, code: int) -> create_topics.ResponseTopic:
    return create_topics.ResponseTopic(name=topic.name, error_code=code, error_message="Authorization failed.")


async def _delete_topics(request: delete_topics.Request, checks: Checks, handle: Handle) -> Any:
    """Who may not describe a topic that it names by its id is not told its name (`ControllerApis.deleteTopics`)."""
    if await checks.allows(Operation.DELETE, quietly=True):
        return await handle(request)
    request.topics = request.topics or [delete_topics.RequestTopic(name=name) for name in request.topic_names]
    request.topic_names = []
    ids = {one.topic_id for one in request.topics if one.name is None and one.topic_id != ZERO_UUID}
    known = {one.id: one.name for one in (await gathered_for(ids, checks.broker.topics.by_id)).values() if one}
    names = {one.name for one in request.topics if one.name is not None}.union(known.values())
    hidden = set(await checks.denied(Operation.DESCRIBE, TOPIC, names))
    denied = hidden.union(await checks.denied(Operation.DELETE, TOPIC, names - hidden))
    missing = {name for name in denied - hidden if not await _exists(name, checks)}
    times = Counter((one.name, one.topic_id) for one in request.topics)
    kept, refusals = [], []
    async for one in in_turns(request.topics):
        name = one.name if one.name is not None else known.get(one.topic_id)
        is_wrong = times[one.name, one.topic_id] > 1 or (one.name is not None and one.topic_id != ZERO_UUID)
        if name not in denied or is_wrong:  # the handler refuses what is wrong
            kept.append(one)
            continue
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if name in missing else _DENIED
        shown = None if one.name is None and name in hidden else name
        refusals.append(
            delete_topics.ResponseTopic(name=shown, topic_id=one.topic_id, error_code=code, error_message=code.text)
        )
    request.topics = kept
    response = await handle(request)
    response.responses = [*response.responses, *refusals]
    return response


_DESCRIBE = Right(Operation.DESCRIBE, TOPIC)
GUARDS = {
    0: Guard((Right(Operation.WRITE, TOPIC),)),
    1: Guard((Right(Operation.READ, TOPIC), Right(Operation.CLUSTER_ACTION, CLUSTER, "instead, of a follower"))),
    2: each(Operation.DESCRIBE, _no_offsets),
    3: Guard(
        (_DESCRIBE, Right(Operation.CREATE, CLUSTER, "or on the topic, to make it")),
        _metadata,
        tells_operations=lambda request: bool(
            request.include_topic_authorized_operations or request.include_cluster_authorized_operations
        ),
    ),
    19: Guard(
        (
            Right(Operation.CREATE, CLUSTER, "or on the topic"),
            Right(Operation.DESCRIBE_CONFIGS, TOPIC, "to be told its configs"),
        ),
        _create_topics,
    ),
    20: Guard((Right(Operation.DELETE, TOPIC, "or ALL CLUSTER"),), _delete_topics),
    21: each(Operation.DELETE, _not_deleted),
    23: each(
        Operation.DESCRIBE,
        _no_epochs,
        name="topic",
        instead=Right(Operation.CLUSTER_ACTION, CLUSTER, "instead, for all topics"),
    ),
    37: each(Operation.ALTER, _not_grown, told="results"),
    61: each(Operation.READ, _no_producers),
    75: Guard((_DESCRIBE,), _describe_topic_partitions, tells_operations=lambda request: True),
}
