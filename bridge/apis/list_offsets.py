"""ListOffsets: the offset of a partition's first or last record, or of the first one at or after a time.

v1 gives one offset instead of a list; v2 adds the isolation level and throttle_time_ms; v4 leader epochs; v6 is
flexible; v7 allows the timestamp -3, the record with the highest timestamp (KIP-734).
"""

from typing import Annotated

from bridge.api import Api, Broker, Session
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int8, Int16, Int32, Int64, message, since

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3


@message
class RequestPartition:
    """The point in time, or one of the special timestamps above."""

    partition_index: Int32
    current_leader_epoch: Annotated[Int32, since(4)] = -1
    timestamp: Int64


@message
class RequestTopic:
    """One topic's partitions."""

    name: str
    partitions: list[RequestPartition]


@message
class Request:
    """Offsets asked for."""

    replica_id: Int32
    isolation_level: Annotated[Int8, since(2)] = 0
    topics: list[RequestTopic]


@message
class ResponsePartition:
    """The offset found and its timestamp; -1 for none."""

    partition_index: Int32
    error_code: Int16
    timestamp: Int64 = -1
    offset: Int64 = -1
    leader_epoch: Annotated[Int32, since(4)] = -1


@message
class ResponseTopic:
    """One topic's partitions."""

    name: str
    partitions: list[ResponsePartition]


@message
class Response:
    """Offsets found."""

    throttle_time_ms: Annotated[Int32, since(2)] = 0
    topics: list[ResponseTopic]


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Refuse, for now."""
    raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)  # the lead fills this in


API = Api(
    key=2,
    name="ListOffsets",
    min_version=1,
    max_version=7,
    flexible=6,
    handle=handle,
    request=Request,
    response=Response,
)
