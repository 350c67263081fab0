"""ShareAcknowledge: say what has become of records that a member of a share group has acquired (KIP-932).

v1 is the first that is served: 0 was Kafka 4.0's early access. v2 renews locks (KIP-1222), and tells for how long they
are. The answer comes when what is said is stored.
"""

from collections import defaultdict
from dataclasses import field
from typing import Annotated, Any

from bridge.errors import KafkaError
from bridge.groups.configs import SHARE_LOCK
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.leader_hints import LeaderIdAndEpoch, NodeEndpoint
from bridge.kafka.message import Int16, Int32, Uuid, message, since
from bridge.kafka.share_messages import AcknowledgementBatch
from bridge.requests import acknowledgements, share
from bridge.requests.api import Api, Broker, RequestLimit, Right, Rights, ServedBy
from bridge.requests.rights import GROUP, TOPIC
from bridge.requests.routes import OF_SHARE_GROUP
from bridge.requests.session import Session
from bridge.security.acls import Operation
from bridge.shares.sessions import CLOSES, OPENS


@message
class AcknowledgePartition:
    """What is said of one partition's records."""

    partition_index: Int32
    acknowledgement_batches: list[AcknowledgementBatch]


@message
class AcknowledgeTopic:
    """A topic's partitions."""

    topic_id: Uuid
    partitions: list[AcknowledgePartition]


@message
class Request:
    """A member's acknowledgements."""

    group_id: str | None = None
    member_id: str | None
    share_session_epoch: Int32
    is_renew_ack: Annotated[bool, since(2)] = False
    topics: list[AcknowledgeTopic]


@message
class PartitionData:
    """One partition's result."""

    partition_index: Int32
    error_code: Int16
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch = field(default_factory=LeaderIdAndEpoch)


@message
class ResponseTopic:
    """A topic's partitions."""

    topic_id: Uuid
    partitions: list[PartitionData]


@message
class Response:
    """The results, and where leaders are that were not asked."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: str | None = None
    acquisition_lock_timeout_ms: Annotated[Int32, since(2)] = 0
    responses: list[ResponseTopic]
    node_endpoints: list[NodeEndpoint] = field(default_factory=list)


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Have it stored; the epoch −1 ends the session, too, and gives back what the member has."""
    group_id, member_id = request.group_id or "", request.member_id or ""
    shares = share.shares_of(broker, group_id, member_id)
    if request.share_session_epoch == OPENS:
        raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
    found = shares.sessions.next(group_id, member_id, request.share_session_epoch)
    said = share.said_of(request.topics)
    parts = await share.opened(shares, found, said, broker, session)
    errors = await acknowledgements.acknowledged(member_id, said, parts, renews=request.is_renew_ack)
    if request.share_session_epoch == CLOSES:
        shares.sessions.close(found, counts=False)
    hints = share.hints_of(broker, session)
    answers = defaultdict[Any, list[PartitionData]](list)
    for (topic_id, index), error in errors.items():
        code = ErrorCode.NONE if error is None else error.code
        leader = share.leader_of(hints, parts[topic_id, index].topic, index, code)
        answers[topic_id].append(
            PartitionData(
                partition_index=index,
                error_code=code,
                error_message=None if error is None else error.message or None,
                current_leader=leader,
            )
        )
    topics = [ResponseTopic(topic_id=topic_id, partitions=found) for topic_id, found in answers.items()]
    return Response(
        error_code=ErrorCode.NONE,
        acquisition_lock_timeout_ms=shares.configs.number(group_id, SHARE_LOCK),
        responses=topics,
        node_endpoints=hints.endpoints,
    )


API = Api(
    key=79,
    name="ShareAcknowledge",
    min_version=1,
    max_version=2,
    flexible=0,
    handle=handle,
    request=Request,
    response=Response,
    rights=Rights((Right(Operation.READ, GROUP), Right(Operation.READ, TOPIC)), share.check_group),
    served_by=ServedBy.LEADER,
    route=OF_SHARE_GROUP,
    limits=(RequestLimit("batches of acknowledgements", share.MOST_RANGES, ErrorCode.INVALID_REQUEST),),
)
