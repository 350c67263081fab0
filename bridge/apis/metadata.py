"""Metadata: the brokers, the topics, and which broker leads which partition.

v1 adds racks, the controller and null for "all topics" (an empty list was all before, and means none since); v2 the
cluster id; v3 throttle_time_ms; v4 allow_auto_topic_creation; v5 offline replicas; v7 leader epochs; v8 authorized
operations; v9 is flexible; v10 adds topic ids (KIP-516); v11 drops the cluster's operations (KIP-700); v12 lets topics
be asked for by id; v13 adds an error for the whole request (KIP-1102).
"""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Annotated, Any, NamedTuple

from bridge.cluster import ClusterSnapshot, Leader
from bridge.cluster.membership.view import NO_NODE
from bridge.errors import KafkaError
from bridge.kafka import message as messages
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import ZERO_UUID, Int16, Int32, Uuid, message, nullable_since, since, until
from bridge.requests.api import Api, Broker, RequestLimit, Rest, Right, Rights
from bridge.requests.authorization import Checks
from bridge.requests.rights import CLUSTER, TOPIC, exists, tell_topic_operations
from bridge.requests.session import Session
from bridge.requests.topic_creation import create_for
from bridge.runtime.futures import gathered, gathered_for, in_turns
from bridge.security.acls import Operation
from bridge.storage import names
from bridge.storage.topics.topic import Topic

FLEXIBLE = 9
LISTENER_ERRORS = 6
"""From this version on a leader that cannot be reached by the client's listener is told as such."""
BY_ID = 12
NO_OPERATIONS = -(2**31)
"""The authorized operations, if they were not asked for."""


@message
class RequestTopic:
    """A topic asked for, by name or, from v12 on, by id: then the Java client names it "", others null."""

    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    name: Annotated[str | None, nullable_since(10)]


@message
class Request:
    """The topics asked for."""

    topics: Annotated[list[RequestTopic] | None, nullable_since(1)]
    allow_auto_topic_creation: Annotated[bool, since(4)] = True
    include_cluster_authorized_operations: Annotated[bool, since(8), until(10)] = False
    include_topic_authorized_operations: Annotated[bool, since(8)] = False


@message
class ResponseBroker:
    """A broker and its advertised address."""

    node_id: Int32
    host: str
    port: Int32
    rack: Annotated[str | None, since(1)] = None


@message
class ResponsePartition:
    """A partition and its leader."""

    error_code: Int16
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Annotated[Int32, since(7)] = -1
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    offline_replicas: Annotated[list[Int32], since(5)] = field(default_factory=list)


@message
class ResponseTopic:
    """A topic and its partitions, or why there is none."""

    error_code: Int16
    name: Annotated[str | None, nullable_since(12)]
    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    is_internal: Annotated[bool, since(1)] = False
    partitions: list[ResponsePartition]
    topic_authorized_operations: Annotated[Int32, since(8)] = NO_OPERATIONS


@message
class Response:
    """The cluster as clients see it."""

    throttle_time_ms: Annotated[Int32, since(3)] = 0
    brokers: list[ResponseBroker]
    cluster_id: Annotated[str | None, since(2)] = None
    controller_id: Annotated[Int32, since(1)] = -1
    topics: list[ResponseTopic]
    cluster_authorized_operations: Annotated[Int32, since(8), until(10)] = NO_OPERATIONS
    error_code: Annotated[Int16, since(13)] = 0


def read(body: memoryview, version: int) -> Request:
    """Decode a request; in v0, which has no null, an empty list asks for all topics."""
    request, _ = messages.decode_prefix(Request, body, version, version >= FLEXIBLE)
    if version == 0 and not request.topics:
        request.topics = None
    return request


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Describe the topics asked for, and create missing ones if the client and the settings allow it."""
    found: Sequence[Topic | ResponseTopic | None]
    if request.topics is None:
        found = await gathered(_listed(name, broker) for name in await broker.topics.names())
    else:
        create = request.allow_auto_topic_creation and broker.settings.kafka.auto_create_topics
        creator = session if create else None
        version = session.api_version
        # duplicates are answered once, as by Kafka
        wanted = {(one.topic_id, one.name): one async for one in in_turns(request.topics)}.values()
        found = await gathered(_find(one, version, creator, broker) for one in wanted)
    # Leaders and brokers are of one view of the cluster: kafka-python 3.0 hangs if a leader is not among the brokers.
    cluster = broker.cluster.snapshot
    nodes = cluster.nodes_at(session.listener)
    told = _Told(cluster, frozenset(node.id for node in nodes), session.api_version)
    topics = [_describe(one, told) if isinstance(one, Topic) else one async for one in in_turns(found) if one]
    if session.is_librdkafka:  # `cluster.departed` has why
        nodes = sorted(nodes + broker.cluster.departed_at(session.listener), key=lambda node: node.id)
    return Response(
        brokers=[ResponseBroker(node_id=node.id, host=node.host, port=node.port, rack=node.rack) for node in nodes],
        cluster_id=broker.cluster.cluster_id,
        controller_id=cluster.controller_at(session.listener),
        topics=topics,
    )


def _is_by_id(wanted: RequestTopic, version: int) -> bool:
    """Whether the topic is the one that has the id, whatever name is beside it."""
    return version >= BY_ID and wanted.topic_id != ZERO_UUID


async def _find(wanted: RequestTopic, version: int, creator: Session | None, broker: Broker) -> Topic | ResponseTopic:
    if _is_by_id(wanted, version):
        return await _find_by_id(wanted.topic_id, broker)
    name = wanted.name or ""
    try:
        if wanted.topic_id != ZERO_UUID:  # the field exists before v12, but has no meaning
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        names.check(name)
        topic = await broker.topics.get(name)
        if topic is None and creator is not None and name not in names.INTERNAL:
            topic = await create_for(creator, name, broker)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    except KafkaError as error:
        return ResponseTopic(error_code=error.code, name=name, partitions=[])
    return topic


async def _listed(name: str, broker: Broker) -> Topic | ResponseTopic | None:
    """A topic of the list of all; None if it was deleted since. One that Pulsar tells nothing of hides no other."""
    try:
        return await broker.topics.get(name)
    except KafkaError:
        return ResponseTopic(error_code=ErrorCode.LEADER_NOT_AVAILABLE, name=name, partitions=[])


async def _find_by_id(topic_id: uuid.UUID, broker: Broker) -> Topic | ResponseTopic:
    try:
        topic = await broker.topics.by_id(topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    except KafkaError as error:
        return ResponseTopic(error_code=error.code, name=None, topic_id=topic_id, partitions=[])
    return topic


class _Told(NamedTuple):
    """What one answer tells of the cluster."""

    cluster: ClusterSnapshot
    reachable: frozenset[int]
    """The nodes that have the client's listener."""
    version: int


def _describe(topic: Topic, told: _Told) -> ResponseTopic:
    partitions = []
    for index in range(topic.partitions):
        leader = told.cluster.named_leader(topic.name, index)
        replicas = [*leader.replicas, *told.cluster.followers(topic.name, index)]
        here = leader.node is not None and leader.node.id in told.reachable
        partitions.append(
            ResponsePartition(
                error_code=ErrorCode.NONE if here else _unreachable(leader, told.version),
                partition_index=index,
                leader_id=leader.owner if here else NO_NODE,
                leader_epoch=leader.epoch,
                replica_nodes=replicas,
                isr_nodes=replicas,
                offline_replicas=[] if here else leader.replicas,
            )
        )
    return ResponseTopic(error_code=ErrorCode.NONE, name=topic.name, topic_id=topic.id, partitions=partitions)


def _unreachable(leader: Leader, version: int) -> ErrorCode:
    """Why a client gets no leader: there is none, or it lacks the client's listener (`KRaftMetadataCache`)."""
    if leader.node is not None and version >= LISTENER_ERRORS:
        return ErrorCode.LISTENER_NOT_FOUND
    return ErrorCode.LEADER_NOT_AVAILABLE


async def _check_rights(request: Request, checks: Checks, rest: Rest) -> Any:
    """Topics that one may not describe do not show; those that are missing need CREATE to be made."""
    refused = [] if request.topics is None else await _undescribable(request, checks)
    if request.topics and request.allow_auto_topic_creation:
        refused += await _not_to_be_made(request, checks)
    response: Response = await rest(request)
    if request.topics is None:
        hidden = await checks.denied(Operation.DESCRIBE, TOPIC, _names(response.topics), lists=True)
        response.topics = [one for one in response.topics if one.name not in hidden]
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = await checks.cluster_operations()
    if request.include_topic_authorized_operations:
        await tell_topic_operations(response.topics, checks)
    response.topics = [*response.topics, *refused]
    return response


def _names(topics: Iterable[ResponseTopic]) -> list[str]:
    return [one.name for one in topics if one.name is not None]


def _denied(name: str | None, topic_id: uuid.UUID = ZERO_UUID) -> ResponseTopic:
    return ResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name, topic_id=topic_id, partitions=[])


async def _undescribable(request: Request, checks: Checks) -> list[ResponseTopic]:
    """Take out the topics that the client may not describe. One with an id is the one that has it, however named."""
    ids = {one.topic_id async for one in in_turns(request.topics or ()) if _is_by_id(one, checks.session.api_version)}
    found = await gathered_for(ids, checks.broker.topics.by_id)
    named = {topic_id: topic.name for topic_id, topic in found.items() if topic}

    def name_of(one: RequestTopic) -> str | None:
        return named.get(one.topic_id) if one.topic_id in ids else one.name

    names = {name_of(one) for one in request.topics or ()}
    denied = await checks.denied(Operation.DESCRIBE, TOPIC, [name for name in names if name is not None])
    if not denied:
        return []
    kept, refused = [], []
    for one in request.topics or ():
        if name_of(one) not in denied:
            kept.append(one)
        else:
            refused.append(_denied(None, one.topic_id) if one.topic_id in ids else _denied(one.name))
    request.topics = kept
    return refused


async def _not_to_be_made(request: Request, checks: Checks) -> list[ResponseTopic]:
    broker, version = checks.broker, checks.session.api_version
    if not broker.settings.kafka.auto_create_topics or await checks.allows(Operation.CREATE, quietly=True):
        return []
    by_name = {one.name for one in request.topics or () if one.name is not None and not _is_by_id(one, version)}
    missing = [name for name in by_name if broker.topics.cached(name) is None]
    denied = await checks.denied(Operation.CREATE, TOPIC, missing, lists=True)
    found = await gathered_for(list(denied), lambda name: exists(name, checks))
    gone = {name for name, there in found.items() if not there}
    request.topics = [one for one in request.topics or () if one.name not in gone or _is_by_id(one, version)]
    await checks.denied(Operation.CREATE, TOPIC, gone)
    return [_denied(name) for name in gone]


API = Api(
    key=3,
    name="Metadata",
    min_version=0,
    max_version=13,
    flexible=FLEXIBLE,
    handle=handle,
    request=Request,
    response=Response,
    rights=Rights(
        (Right(Operation.DESCRIBE, TOPIC), Right(Operation.CREATE, CLUSTER, "or on the topic, to make it")),
        _check_rights,
        lambda request: bool(
            request.include_topic_authorized_operations or request.include_cluster_authorized_operations
        ),
    ),
    read=read,
    closes_on_error=True,  # the only error there is REBOOTSTRAP_REQUIRED (KIP-1102); the Java client looks for no other
    read_only=True,
    limits=(
        RequestLimit(
            "topics created for a client, a minute",
            "kafka.auto_create_topics_per_minute",
            ErrorCode.LEADER_NOT_AVAILABLE,
        ),
        RequestLimit(
            "topics created for all clients, a minute",
            "kafka.auto_create_topics_per_minute_of_all",
            ErrorCode.LEADER_NOT_AVAILABLE,
        ),
        RequestLimit(
            "partitions of all topics, with those created", "kafka.max_partitions", ErrorCode.POLICY_VIOLATION
        ),
    ),
)
