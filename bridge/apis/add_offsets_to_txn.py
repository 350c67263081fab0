"""AddOffsetsToTxn: say that a transaction commits a group's offsets (KIP-98); refused, as there are no transactions.

v3 is flexible; v4 may answer TRANSACTION_ABORTABLE (KIP-890).
"""

from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, Int64, message
from bridge.requests.api import Api, Broker
from bridge.requests.rights import OF_A_TRANSACTION
from bridge.requests.session import Session


@message
class Request:
    """A transaction and the group whose offsets it commits."""

    transactional_id: str
    producer_id: Int64
    producer_epoch: Int16
    group_id: str


@message
class Response:
    """The result."""

    throttle_time_ms: Int32 = 0
    error_code: Int16


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Refuse, with the error that InitProducerId has for the transactional id."""
    return Response(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


API = Api(
    key=25,
    name="AddOffsetsToTxn",
    min_version=0,
    max_version=4,
    flexible=3,
    handle=handle,
    request=Request,
    response=Response,
    rights=OF_A_TRANSACTION,
)
