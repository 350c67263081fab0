"""OffsetForLeaderEpoch: where the log of a leader's time ended (KIP-101, KIP-320), to find out truncated logs.

v3 adds the replica id; v4 is flexible. Pulsar never takes back what it has acknowledged: no log is ever truncated, so
every epoch that a client may ask about ends where the log does. All records carry epoch 0, but positions and committed
offsets may carry another, of a leader or of another cluster; an answer without an end would be a truncation to clients.
"""

from typing import Annotated

from bridge.cluster import RECORD_EPOCH
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, Int64, message, since
from bridge.requests import leadership
from bridge.requests.api import Api, Broker, Right, ServedBy
from bridge.requests.rights import CLUSTER, each
from bridge.requests.session import Session
from bridge.runtime.futures import gathered
from bridge.security.acls import Operation

CONSUMER = -2
"""The replica id that clients of an old version are taken to have: a debugging consumer."""
UNKNOWN = -1
"""No such epoch, or no offset for it."""


@message
class RequestPartition:
    """The epoch whose end is asked for, and the one that the client takes for the present one."""

    partition: Int32
    current_leader_epoch: Annotated[Int32, since(2)] = UNKNOWN
    leader_epoch: Int32


@message
class RequestTopic:
    """One topic's partitions."""

    topic: str
    partitions: list[RequestPartition]


@message
class Request:
    """Epochs asked about."""

    replica_id: Annotated[Int32, since(3)] = CONSUMER
    topics: list[RequestTopic]


@message
class ResponsePartition:
    """The newest epoch up to the one asked for, and the offset after its last record."""

    error_code: Int16
    partition: Int32
    leader_epoch: Annotated[Int32, since(1)] = UNKNOWN
    end_offset: Int64 = UNKNOWN


@message
class ResponseTopic:
    """One topic's partitions."""

    topic: str
    partitions: list[ResponsePartition]


@message
class Response:
    """Ends of epochs."""

    throttle_time_ms: Annotated[Int32, since(2)] = 0
    topics: list[ResponseTopic]


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Answer with the high watermark for every epoch."""

    async def topic(wanted: RequestTopic) -> ResponseTopic:
        found = (_partition(wanted.topic, partition, broker) for partition in wanted.partitions)
        return ResponseTopic(topic=wanted.topic, partitions=await gathered(found))

    return Response(topics=await gathered(map(topic, request.topics)))


async def _partition(topic: str, wanted: RequestPartition, broker: Broker) -> ResponsePartition:
    try:
        log = await leadership.log_of(broker, topic, wanted.partition, wanted.current_leader_epoch)
        if wanted.leader_epoch < RECORD_EPOCH:  # none, as `LeaderEpochFileCache.endOffsetFor` answers for it
            return ResponsePartition(error_code=ErrorCode.NONE, partition=wanted.partition)
        end = await log.latest()
    except KafkaError as error:
        return ResponsePartition(error_code=error.code, partition=wanted.partition)
    return ResponsePartition(
        error_code=ErrorCode.NONE, partition=wanted.partition, leader_epoch=RECORD_EPOCH, end_offset=end
    )


API = Api(
    key=23,
    name="OffsetForLeaderEpoch",
    min_version=2,
    max_version=4,
    flexible=4,
    handle=handle,
    request=Request,
    response=Response,
    rights=each(
        Operation.DESCRIBE,
        name="topic",
        instead=Right(Operation.CLUSTER_ACTION, CLUSTER, "instead, for all topics"),
    ),
    served_by=ServedBy.LEADER,
    read_only=True,
)
