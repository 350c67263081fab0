"""StreamsGroupHeartbeat: join, stay in and leave a streams group (KIP-1071).

v0 is the only version. It is flexible.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from bridge.apis.consumer_group_heartbeat import require
from bridge.errors import KafkaError
from bridge.groups.configs import STREAMS_HEARTBEAT
from bridge.groups.consumer.model import JOINING, LEAVING_STATIC
from bridge.groups.streams import model
from bridge.groups.streams.endpoints import EndpointPartitions
from bridge.groups.streams.state import StreamsAnswer, StreamsHeartbeat
from bridge.groups.streams.topology import MOST_ID, MOST_TASKS, StatusCode
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int8, Int16, Int32, message
from bridge.kafka.streams_messages import Endpoint, KeyValue, TaskIds, TaskOffset, TopicInfo
from bridge.requests import internal_topics
from bridge.requests.api import Api, Broker, RequestLimit, Rest, Right, Rights, ServedBy
from bridge.requests.authorization import Checks
from bridge.requests.responses import DeferredResponse
from bridge.requests.rights import CLUSTER, GROUP, TOPIC
from bridge.requests.routes import OF_GROUP
from bridge.requests.session import Session
from bridge.requests.topic_creation import MAX_PARTITIONS
from bridge.requests.topics import has_many
from bridge.security.acls import Operation, Resource

ACCEPTABLE_LAG: Final = 10_000
TASK_OFFSET_INTERVAL_MS: Final = 60_000
"""What would hold for warm-up tasks; Kafka's defaults."""


@message
class CopartitionGroup:
    """Topics that need the same number of partitions, by their places in the lists of the subtopology."""

    source_topics: list[Int16]
    source_topic_regex: list[Int16]
    repartition_source_topics: list[Int16]


@message
class Subtopology:
    """A part of the topology that is processed as a whole."""

    subtopology_id: str
    source_topics: list[str]
    source_topic_regex: list[str]
    state_changelog_topics: list[TopicInfo]
    repartition_sink_topics: list[str]
    repartition_source_topics: list[TopicInfo]
    copartition_groups: list[CopartitionGroup]


@message
class Topology:
    """What the application does, as far as its tasks and topics go."""

    epoch: Int32
    subtopologies: list[Subtopology]


@message
class Request:
    """A member; null, and −1 for the timeout, for what is as before."""

    group_id: str
    member_id: str
    member_epoch: Int32
    endpoint_information_epoch: Int32
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: Int32 = -1
    topology: Topology | None = None
    active_tasks: list[TaskIds] | None = None
    standby_tasks: list[TaskIds] | None = None
    warmup_tasks: list[TaskIds] | None = None
    process_id: str | None = None
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue] | None = None
    task_offsets: list[TaskOffset] | None = None
    task_end_offsets: list[TaskOffset] | None = None
    shutdown_application: bool = False


@message
class Status:
    """Something that holds for the group."""

    status_code: Int8
    status_detail: str


@message
class TopicPartition:
    """Partitions of a topic."""

    topic: str
    partitions: list[Int32]


@message
class EndpointToPartitions:
    """What can be asked for at an endpoint."""

    user_endpoint: Endpoint
    active_partitions: list[TopicPartition]
    standby_partitions: list[TopicPartition]


@message
class Response:
    """The member's epoch, its tasks and others' endpoints where there is news, and how the group stands."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: str | None = None
    member_id: str = ""
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    acceptable_recovery_lag: Int32 = 0
    task_offset_interval_ms: Int32 = 0
    status: list[Status] | None = None
    active_tasks: list[TaskIds] | None = None
    standby_tasks: list[TaskIds] | None = None
    warmup_tasks: list[TaskIds] | None = None
    endpoint_information_epoch: Int32 = 0
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = None


async def handle(request: Request, broker: Broker, session: Session) -> Response | DeferredResponse[Response]:
    """Take the heartbeat to its group; the answer comes when what it says is stored."""
    _check_supported(request)
    _check(request)
    if has_many(request.active_tasks, request.standby_tasks):
        said = await broker.cpu_thread.run(_heartbeat, request, session)
    else:
        said = _heartbeat(request, session)
    beat = await broker.groups.streams_heartbeat(request.group_id, said)
    answering = _answer(request.group_id, request.member_epoch, beat, broker, session)
    return await answering if beat.done() else DeferredResponse(answering)


async def _answer(
    group_id: str, epoch: int, beat: "asyncio.Future[StreamsAnswer]", broker: Broker, session: Session
) -> Response:
    try:
        answer = await beat
    except KafkaError as error:
        return Response(error_code=error.code, error_message=error.message or None, status=[])
    if epoch < JOINING:
        return Response(error_code=ErrorCode.NONE, member_id=answer.member_id, member_epoch=answer.epoch, status=[])
    status = [Status(status_code=one.code, status_detail=one.detail) for one in answer.statuses]
    if answer.to_create:
        more = await internal_topics.begin(group_id, answer.to_create, broker, session)
        for one in status:
            if one.status_code == StatusCode.MISSING_INTERNAL_TOPICS:
                one.status_detail += more
    response = Response(
        error_code=ErrorCode.NONE,
        member_id=answer.member_id,
        member_epoch=answer.epoch,
        heartbeat_interval_ms=broker.groups.configs.number(group_id, STREAMS_HEARTBEAT),
        acceptable_recovery_lag=ACCEPTABLE_LAG,
        task_offset_interval_ms=TASK_OFFSET_INTERVAL_MS,
        status=status,
        endpoint_information_epoch=answer.endpoint_epoch,
        partitions_by_user_endpoint=None if answer.endpoints is None else list(map(_endpoint, answer.endpoints)),
    )
    if answer.tasks is not None:
        response.active_tasks = task_ids(answer.tasks.active)
        response.standby_tasks = task_ids(answer.tasks.standby)
        response.warmup_tasks = task_ids(answer.tasks.warmup)
    return response


def task_ids(tasks: frozenset[model.Task]) -> list[TaskIds]:
    """Tasks as messages have them: by subtopology, in order."""
    found: dict[str, list[int]] = {}
    for part, number in sorted(tasks):
        found.setdefault(part, []).append(number)
    return [TaskIds(subtopology_id=part, partitions=numbers) for part, numbers in found.items()]


def _endpoint(one: EndpointPartitions) -> EndpointToPartitions:
    active, standby = (
        [TopicPartition(topic=name, partitions=list(numbers)) for name, numbers in role.items()]
        for role in (one.active, one.standby)
    )
    endpoint = Endpoint(host=one.endpoint.host, port=one.endpoint.port)
    return EndpointToPartitions(user_endpoint=endpoint, active_partitions=active, standby_partitions=standby)


# ---- what a request says ---------------------------------------------------------------------------------------------


def _check_supported(request: Request) -> None:
    """What Kafka 4.3 knows of in the message, and does not take yet."""
    require(request.instance_id is None, "Static membership is not yet supported.")
    require(request.task_offsets is None, "TaskOffsets are not supported yet.")
    require(request.task_end_offsets is None, "TaskEndOffsets are not supported yet.")
    require(not request.warmup_tasks, "WarmupTasks are not supported yet.")


def _check(request: Request) -> None:
    """What Kafka's GroupCoordinatorService looks at next, in its order."""
    epoch = request.member_epoch
    for name, text in {"MemberId": request.member_id, "GroupId": request.group_id, "RackId": request.rack_id}.items():
        require(text is None or bool(text.strip()), f"{name} can't be empty.")
    tasks = {
        "ActiveTasks": request.active_tasks,
        "StandbyTasks": request.standby_tasks,
        "WarmupTasks": request.warmup_tasks,
    }
    if epoch == JOINING:
        require(request.rebalance_timeout_ms != -1, "RebalanceTimeoutMs must be provided in first request.")
        for name, listed in tasks.items():
            require(listed == [], f"{name} must be empty when (re-)joining.")
        require(request.topology is not None, "Topology must be non-null when (re-)joining.")
    require(epoch != LEAVING_STATIC, "InstanceId can't be null.")
    require(epoch >= LEAVING_STATIC, f"MemberEpoch is {epoch}, but must be greater than or equal to -2.")
    told = [listed is not None for listed in tasks.values()]
    require(all(told) or not any(told), "If one task-type is non-null, all must be non-null.")
    require(epoch == JOINING or request.topology is None, "Topology can only be provided when (re-)joining.")


def _heartbeat(request: Request, session: Session) -> StreamsHeartbeat:
    endpoint, tags = request.user_endpoint, request.client_tags
    owned = None
    if request.active_tasks is not None:
        owned = model.Tasks(*map(_tasks, (request.active_tasks, request.standby_tasks, request.warmup_tasks)))
    return StreamsHeartbeat(
        member_id=request.member_id,
        epoch=request.member_epoch,
        endpoint_epoch=request.endpoint_information_epoch,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topology=None if request.topology is None else _topology(request.topology),
        owned=owned,
        process_id=request.process_id,
        endpoint=None if endpoint is None else model.Endpoint(endpoint.host, endpoint.port),
        tags=None if tags is None else {one.key: one.value for one in tags},
        shutdown=request.shutdown_application,
        client_id=session.client_id,
        client_host=session.host,
    )


def _tasks(listed: Sequence[TaskIds] | None) -> frozenset[model.Task]:
    return frozenset(model.Task(one.subtopology_id, number) for one in listed or () for number in one.partitions)


def _topology(topology: Topology) -> model.Topology:
    return model.Topology(topology.epoch, tuple(map(_subtopology, topology.subtopologies)))


def _subtopology(one: Subtopology) -> model.Subtopology:
    return model.Subtopology(
        id=one.subtopology_id,
        source_topics=tuple(one.source_topics),
        source_topic_regex=tuple(one.source_topic_regex),
        repartition_sinks=tuple(one.repartition_sink_topics),
        changelogs=tuple(map(_internal, one.state_changelog_topics)),
        repartition_sources=tuple(map(_internal, one.repartition_source_topics)),
        copartition_groups=tuple(
            model.CopartitionGroup(
                tuple(group.source_topics), tuple(group.source_topic_regex), tuple(group.repartition_source_topics)
            )
            for group in one.copartition_groups
        ),
    )


def _internal(one: TopicInfo) -> model.TopicInfo:
    configs = tuple((config.key, config.value) for config in one.topic_configs)
    return model.TopicInfo(one.name, one.partitions, one.replication_factor, configs)


def _named(request: Request) -> set[str]:
    """Every topic of the topology."""
    parts = () if request.topology is None else request.topology.subtopologies
    plain = {name for one in parts for name in (*one.source_topics, *one.repartition_sink_topics)}
    internal = (info for one in parts for info in (*one.state_changelog_topics, *one.repartition_source_topics))
    return plain | {info.name for info in internal}


async def _check_rights(request: Request, checks: Checks, rest: Rest) -> Any:
    """READ of the group, and DESCRIBE of all topics of the topology."""
    await checks.require(Operation.READ, Resource(GROUP, request.group_id))
    if await checks.denied(Operation.DESCRIBE, TOPIC, _named(request)):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return await rest(request)


API = Api(
    key=88,
    name="StreamsGroupHeartbeat",
    min_version=0,
    max_version=0,
    flexible=0,
    handle=handle,
    request=Request,
    response=Response,
    rights=Rights(
        (
            Right(Operation.READ, GROUP),
            Right(Operation.DESCRIBE, TOPIC, "of its topology"),
            Right(Operation.CREATE, CLUSTER, "or on the topic, to create internal topics"),
        ),
        _check_rights,
    ),
    route=OF_GROUP,
    served_by=ServedBy.COORDINATOR,
    waits=True,
    limits=(
        RequestLimit("members of a group", "groups.consumer_max_members", ErrorCode.GROUP_MAX_SIZE_REACHED),
        RequestLimit("tasks of a topology", MOST_TASKS, "status INCORRECTLY_PARTITIONED_TOPICS"),
        RequestLimit("partitions of internal topics to create", MAX_PARTITIONS, "status MISSING_INTERNAL_TOPICS"),
        RequestLimit("characters of a subtopology's id", MOST_ID, ErrorCode.STREAMS_INVALID_TOPOLOGY),
        RequestLimit("bytes of a member's metadata", "groups.max_member_metadata_bytes", ErrorCode.INVALID_REQUEST),
        RequestLimit(
            "bytes of all members' metadata", "groups.max_metadata_bytes", ErrorCode.COORDINATOR_NOT_AVAILABLE
        ),
    ),
)
