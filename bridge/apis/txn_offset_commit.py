"""TxnOffsetCommit: commit a group's offsets in a transaction (KIP-98); refused, as there are no transactions.

v2 adds committed_leader_epoch; v3 is flexible and names the member (KIP-447); v4 may answer TRANSACTION_ABORTABLE, and
v5 adds the group to the transaction (both KIP-890).
"""

from typing import Annotated

from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, Int64, message, since
from bridge.requests.api import Api, Broker
from bridge.requests.rights import OF_A_TRANSACTION
from bridge.requests.session import Session


@message
class RequestPartition:
    """The offset after the last record consumed."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Annotated[Int32, since(2)] = -1
    committed_metadata: str | None


@message
class RequestTopic:
    """A topic's partitions."""

    name: str
    partitions: list[RequestPartition]


@message
class Request:
    """Offsets of one group, committed by a transaction of this producer."""

    transactional_id: str
    group_id: str
    producer_id: Int64
    producer_epoch: Int16
    generation_id: Annotated[Int32, since(3)] = -1
    member_id: Annotated[str, since(3)] = ""
    group_instance_id: Annotated[str | None, since(3)] = None
    topics: list[RequestTopic]


@message
class ResponsePartition:
    """One partition's result."""

    partition_index: Int32
    error_code: Int16


@message
class ResponseTopic:
    """A topic's partitions."""

    name: str
    partitions: list[ResponsePartition]


@message
class Response:
    """The results."""

    throttle_time_ms: Int32 = 0
    topics: list[ResponseTopic]


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Refuse every partition, with the error that InitProducerId has for the transactional id."""
    error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return Response(
        topics=[
            ResponseTopic(
                name=topic.name,
                partitions=[
                    ResponsePartition(partition_index=one.partition_index, error_code=error) for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


API = Api(
    key=28,
    name="TxnOffsetCommit",
    min_version=0,
    max_version=5,
    flexible=3,
    handle=handle,
    request=Request,
    response=Response,
    rights=OF_A_TRANSACTION,
    pure=True,
)
