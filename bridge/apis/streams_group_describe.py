"""StreamsGroupDescribe: streams groups, their topologies, members and tasks (KIP-1071).

v0 is the only version. It is flexible.
"""

from bridge.apis.describe_groups import LIMITS, MAX_MEMBERS, NO_OPERATIONS, descriptions_in_order, rights_to_describe
from bridge.apis.streams_group_heartbeat import task_ids
from bridge.errors import KafkaError
from bridge.groups.streams import model
from bridge.groups.streams.snapshot import StreamsGroupState, StreamsSnapshot
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, message
from bridge.kafka.streams_messages import Endpoint, KeyValue, TaskIds, TaskOffset, TopicInfo
from bridge.requests.api import Api, Broker, ServedBy
from bridge.requests.authorization import Checks
from bridge.requests.rights import TOPIC
from bridge.requests.routes import OfGroups
from bridge.requests.session import Session
from bridge.runtime.futures import gathered_for
from bridge.security.acls import Operation

HAS_HIDDEN_TOPICS = "The described group uses topics that the client is not authorized to describe."


@message
class Request:
    """Groups by name."""

    group_ids: list[str]
    include_authorized_operations: bool


@message
class Subtopology:
    """A part of the topology; internal topics with their numbers of partitions once these are known."""

    subtopology_id: str
    source_topics: list[str]
    repartition_sink_topics: list[str]
    state_changelog_topics: list[TopicInfo]
    repartition_source_topics: list[TopicInfo]


@message
class Topology:
    """The group's topology."""

    epoch: Int32
    subtopologies: list[Subtopology] | None = None


@message
class Assignment:
    """The tasks of a member."""

    active_tasks: list[TaskIds]
    standby_tasks: list[TaskIds]
    warmup_tasks: list[TaskIds]


@message
class Member:
    """A member."""

    member_id: str
    member_epoch: Int32
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str
    client_host: str
    topology_epoch: Int32
    process_id: str
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue]
    task_offsets: list[TaskOffset]
    task_end_offsets: list[TaskOffset]
    assignment: Assignment
    target_assignment: Assignment
    is_classic: bool


@message
class Group:
    """A group, or why it is not described."""

    error_code: Int16
    error_message: str | None = None
    group_id: str
    group_state: str = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    topology: Topology | None = None
    members: list[Member]
    authorized_operations: Int32 = NO_OPERATIONS


@message
class Response:
    """The groups in the order asked for."""

    throttle_time_ms: Int32 = 0
    groups: list[Group]


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Describe each group as it is stored."""
    found = await gathered_for(request.group_ids, lambda group_id: _describe(group_id, broker))
    return Response(groups=await descriptions_in_order(request.group_ids, found, MAX_MEMBERS))


async def _describe(group_id: str, broker: Broker) -> Group:
    if not group_id:
        return _refused(group_id, ErrorCode.INVALID_GROUP_ID)
    try:
        group = await broker.groups.streams_snapshot(group_id)
    except KafkaError as error:
        return _refused(group_id, error.code, error.message)
    return described(group_id, group)


def described(group_id: str, group: StreamsSnapshot) -> Group:
    """A group as it is told."""
    return Group(
        error_code=ErrorCode.NONE,
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=_topology(group),
        members=[_member(one, group.targets.get(one.id, model.NO_TASKS)) for one in group.members.values()],
    )


def _topology(group: StreamsSnapshot) -> Topology | None:
    if group.topology is None:
        return None
    parts = sorted(group.topology.subtopologies)
    return Topology(epoch=group.topology.epoch, subtopologies=[_subtopology(one, group) for one in parts])


def _subtopology(one: model.Subtopology, group: StreamsSnapshot) -> Subtopology:
    return Subtopology(
        subtopology_id=one.id,
        source_topics=sorted(one.source_topics),
        repartition_sink_topics=sorted(one.repartition_sinks),
        state_changelog_topics=[_internal(info, group) for info in sorted(one.changelogs)],
        repartition_source_topics=[_internal(info, group) for info in sorted(one.repartition_sources)],
    )


def _internal(one: model.TopicInfo, group: StreamsSnapshot) -> TopicInfo:
    is_ready = group.state is not StreamsGroupState.NOT_READY
    return TopicInfo(
        name=one.name,
        partitions=(group.partitions_of(one.name) or one.partitions) if is_ready else one.partitions,
        replication_factor=one.replication_factor,
        topic_configs=[KeyValue(key=key, value=value) for key, value in one.configs],
    )


def _member(member: model.StreamsMember, target: model.Tasks) -> Member:
    endpoint = member.endpoint
    return Member(
        member_id=member.id,
        member_epoch=member.epoch,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[KeyValue(key=key, value=value) for key, value in member.tags.items()],
        task_offsets=[],
        task_end_offsets=[],
        assignment=_assignment(member.assigned),
        target_assignment=_assignment(target),
        is_classic=False,
    )


def _assignment(tasks: model.Tasks) -> Assignment:
    return Assignment(
        active_tasks=task_ids(tasks.active),
        standby_tasks=task_ids(tasks.standby),
        warmup_tasks=task_ids(tasks.warmup),
    )


def error_response(request: Request, error: int, text: str, version: int) -> Response:
    """The error of every group."""
    return Response(groups=[_refused(group_id, error, text) for group_id in request.group_ids])


async def _with_known_topics(group: Group, checks: Checks) -> Group:
    parts = group.topology.subtopologies if group.topology is not None else None
    names: set[str] = set()
    for one in parts or ():
        names.update(one.source_topics, one.repartition_sink_topics)
        names.update(info.name for info in (*one.state_changelog_topics, *one.repartition_source_topics))
    if not await checks.denied(Operation.DESCRIBE, TOPIC, names, lists=True):
        return group
    return _refused(group.group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, HAS_HIDDEN_TOPICS)


def _refused(group_id: str, error: int, text: str = "") -> Group:
    return Group(error_code=error, error_message=text or None, group_id=group_id, members=[])


API = Api(
    key=89,
    name="StreamsGroupDescribe",
    min_version=0,
    max_version=0,
    flexible=0,
    handle=handle,
    request=Request,
    response=Response,
    rights=rights_to_describe("of its topology", _with_known_topics),
    error_response=error_response,
    route=OfGroups("group_ids", "groups"),
    served_by=ServedBy.COORDINATOR,
    read_only=True,
    limits=LIMITS,
)
