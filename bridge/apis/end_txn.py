"""EndTxn: commit or abort a transaction (KIP-98); refused, as there are no transactions.

v3 is flexible; v4 may answer TRANSACTION_ABORTABLE; v5 gives the producer its next epoch (both KIP-890).
"""

from typing import Annotated

from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, Int64, message, since
from bridge.requests.api import Api, Broker
from bridge.requests.rights import OF_A_TRANSACTION
from bridge.requests.session import Session


@message
class Request:
    """A transaction, and whether it is committed."""

    transactional_id: str
    producer_id: Int64
    producer_epoch: Int16
    committed: bool


@message
class Response:
    """The result, and the producer's id and epoch for its next transaction."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    producer_id: Annotated[Int64, since(5)] = -1
    producer_epoch: Annotated[Int16, since(5)] = -1


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Refuse, with the error that InitProducerId has for the transactional id."""
    return Response(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


API = Api(
    key=26,
    name="EndTxn",
    min_version=0,
    max_version=5,
    flexible=3,
    handle=handle,
    request=Request,
    response=Response,
    rights=OF_A_TRANSACTION,
)
