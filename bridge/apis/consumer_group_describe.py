"""ConsumerGroupDescribe: groups of the new consumer protocol, their members and assignments (KIP-848).

v1 adds member_type (KIP-1099). A classic group is not found here; clients then ask DescribeGroups. Every version is
flexible.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any
from uuid import UUID

from bridge.apis.describe_groups import LIMITS, MAX_MEMBERS, NO_OPERATIONS, descriptions_in_order, rights_to_describe
from bridge.errors import KafkaError
from bridge.groups.consumer.model import NOTHING, Assignment, ConsumerMember, GroupSnapshot
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int8, Int16, Int32, Uuid, message, since
from bridge.requests.api import Api, Broker, ServedBy
from bridge.requests.authorization import Checks
from bridge.requests.rights import TOPIC
from bridge.requests.routes import OfGroups
from bridge.requests.session import Session
from bridge.runtime.futures import gathered_for
from bridge.security.acls import Operation

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1
HAS_HIDDEN_TOPICS = "The group has described topic(s) that the client is not authorized to describe."


@message
class Request:
    """Groups by name."""

    group_ids: list[str]
    include_authorized_operations: bool


@message
class TopicPartitions:
    """Partitions of a topic."""

    topic_id: Uuid
    topic_name: str
    partitions: list[Int32]


@message
class Assigned:
    """What a member has, or should have."""

    topic_partitions: list[TopicPartitions]


@message
class Member:
    """A member."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: Int32
    client_id: str
    client_host: str
    subscribed_topic_names: list[str]
    subscribed_topic_regex: str | None = None
    assignment: Assigned
    target_assignment: Assigned
    member_type: Annotated[Int8, since(1)] = -1


@message
class Group:
    """A group, or why it is not described."""

    error_code: Int16
    error_message: str | None = None
    group_id: str
    group_state: str = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: str = ""
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
        group = await broker.groups.consumer_snapshot(group_id)
        if group is None:
            raise broker.groups.consumer_group_not_found(group_id)
    except KafkaError as error:
        return _refused(group_id, error.code, error.message)
    names = {topic.id: name for name, topic in group.view.topics.items()}
    return Group(
        error_code=ErrorCode.NONE,
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor(),
        members=[_member(one, group, names) for one in group.members.values()],
    )


def _member(member: ConsumerMember, group: GroupSnapshot, names: Mapping[UUID, str]) -> Member:
    return Member(
        member_id=member.id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        assignment=described(member.assigned, names),
        target_assignment=described(group.targets.get(member.id, NOTHING), names),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def described(assigned: Assignment, names: Mapping[UUID, str]) -> Assigned:
    """An assignment by names. Topics that are no more have no name, and are left out."""
    return Assigned(
        topic_partitions=[
            TopicPartitions(topic_id=topic, topic_name=names[topic], partitions=sorted(numbers))
            for topic, numbers in assigned.items()
            if topic in names
        ]
    )


def error_response(request: Request, error: int, text: str, version: int) -> Response:
    """The error of every group."""
    return Response(groups=[_refused(group_id, error, text) for group_id in request.group_ids])


async def _with_known_topics(group: Group, checks: Checks) -> Group:
    """Nothing of a group whose members have topics that the client may not describe."""
    assigned = [one for member in group.members for one in (member.assignment, member.target_assignment)]
    if not await has_hidden_topics(group.members, assigned, checks):
        return group
    return _refused(group.group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, HAS_HIDDEN_TOPICS)


async def has_hidden_topics(members: Iterable[Any], assigned: Iterable[Assigned], checks: Checks) -> bool:
    """Whether members subscribe to, or have, topics that the client may not describe."""
    names = {name for member in members for name in member.subscribed_topic_names}
    names |= {topic.topic_name for one in assigned for topic in one.topic_partitions}
    return bool(await checks.denied(Operation.DESCRIBE, TOPIC, names))


def _refused(group_id: str, error: int, text: str = "") -> Group:
    return Group(error_code=error, error_message=text or None, group_id=group_id, members=[])


API = Api(
    key=69,
    name="ConsumerGroupDescribe",
    min_version=0,
    max_version=1,
    flexible=0,
    handle=handle,
    request=Request,
    response=Response,
    rights=rights_to_describe("of its members", _with_known_topics),
    error_response=error_response,
    route=OfGroups("group_ids", "groups"),
    served_by=ServedBy.COORDINATOR,
    read_only=True,
    limits=LIMITS,
)
