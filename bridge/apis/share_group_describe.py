"""ShareGroupDescribe: share groups, their members and assignments (KIP-932).

v0 was the early access of Kafka 4.0. Every version is flexible.
"""

from collections.abc import Mapping
from uuid import UUID

from bridge.apis.consumer_group_describe import HAS_HIDDEN_TOPICS, Assigned, described, has_hidden_topics
from bridge.apis.describe_groups import LIMITS, MAX_MEMBERS, NO_OPERATIONS, descriptions_in_order, rights_to_describe
from bridge.errors import KafkaError
from bridge.groups.consumer.model import ConsumerMember
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, message
from bridge.requests.api import Api, Broker, ServedBy
from bridge.requests.authorization import Checks
from bridge.requests.routes import OfGroups
from bridge.requests.session import Session
from bridge.runtime.futures import gathered_for

ASSIGNOR = "simple"


@message
class Request:
    """Groups by name."""

    group_ids: list[str]
    include_authorized_operations: bool


@message
class Member:
    """A member."""

    member_id: str
    rack_id: str | None = None
    member_epoch: Int32
    client_id: str
    client_host: str
    subscribed_topic_names: list[str]
    assignment: Assigned


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
        group = await broker.groups.share_snapshot(group_id)
    except KafkaError as error:
        return _refused(group_id, error.code, error.message)
    names = {topic.id: name for name, topic in group.view.topics.items()}
    return Group(
        error_code=ErrorCode.NONE,
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=ASSIGNOR,
        members=[_member(one, names) for one in group.members.values()],
    )


def _member(member: ConsumerMember, names: Mapping[UUID, str]) -> Member:
    return Member(
        member_id=member.id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        assignment=described(member.assigned, names),
    )


def error_response(request: Request, error: int, text: str, version: int) -> Response:
    """The error of every group."""
    return Response(groups=[_refused(group_id, error, text) for group_id in request.group_ids])


async def _with_known_topics(group: Group, checks: Checks) -> Group:
    if not await has_hidden_topics(group.members, [one.assignment for one in group.members], checks):
        return group
    return _refused(group.group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, HAS_HIDDEN_TOPICS)


def _refused(group_id: str, error: int, text: str = "") -> Group:
    return Group(error_code=error, error_message=text or None, group_id=group_id, members=[])


API = Api(
    key=77,
    name="ShareGroupDescribe",
    min_version=1,
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
