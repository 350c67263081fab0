"""InitProducerId: give an idempotent or transactional producer its id and epoch.

v2 is flexible; v3 lets a producer bring its id and epoch along to go on with them (KIP-360); v4 may answer
PRODUCER_FENCED.
"""

from typing import Annotated

from bridge.api import Api, Broker, Session
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, Int64, message, since


@message
class Request:
    """A producer that wants an id, or goes on with the one it has."""

    transactional_id: str | None
    transaction_timeout_ms: Int32
    producer_id: Annotated[Int64, since(3)] = -1
    producer_epoch: Annotated[Int16, since(3)] = -1


@message
class Response:
    """The id and epoch."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    producer_id: Int64 = -1
    producer_epoch: Int16


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Refuse, for now."""
    raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)  # the lead fills this in


API = Api(
    key=22,
    name="InitProducerId",
    min_version=0,
    max_version=4,
    flexible=2,
    handle=handle,
    request=Request,
    response=Response,
)
