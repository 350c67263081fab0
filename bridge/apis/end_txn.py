"""EndTxn: commit or abort a transaction (KIP-98).

v3 is flexible; v4 may answer TRANSACTION_ABORTABLE; v5 gives the producer its next epoch (both KIP-890).
"""

from typing import Annotated

from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, Int64, message, since
from bridge.requests.api import Api, Broker, ServedBy
from bridge.requests.rights import TRANSACTIONAL_ID, whole
from bridge.requests.routes import OfTransaction
from bridge.requests.session import Session
from bridge.requests.transactional import connection_of, done, transactions_of
from bridge.security.acls import Operation

EPOCH_EACH = 5
"""The version from which on each transaction has an epoch of its own."""


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
    """Decide; the answer leaves when that is stored."""
    protocol = 2 if session.api_version >= EPOCH_EACH else 1
    coordinator = await transactions_of(broker, request.transactional_id).coordinator()
    ended = coordinator.end(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        committed=request.committed,
        protocol=protocol,
        connection=connection_of(session) if protocol == 1 else None,
    )
    change = await done(ended, session.api_version)
    return Response(error_code=ErrorCode.NONE, producer_id=change.producer_id, producer_epoch=change.epoch)


API = Api(
    key=26,
    name="EndTxn",
    min_version=0,
    max_version=5,
    flexible=3,
    handle=handle,
    request=Request,
    response=Response,
    rights=whole(Operation.WRITE, TRANSACTIONAL_ID, "transactional_id"),
    route=OfTransaction(),
    served_by=ServedBy.COORDINATOR,
)
