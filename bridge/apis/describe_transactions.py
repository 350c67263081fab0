"""DescribeTransactions: the states of transactional ids (KIP-664); there are none."""

from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, Int64, message, with_defaults
from bridge.requests.api import Api, Broker
from bridge.requests.rights import TRANSACTIONAL_ID, each
from bridge.requests.session import Session
from bridge.security.acls import Operation


@message
class Request:
    """Transactional ids."""

    transactional_ids: list[str]


@message
class Topic:
    """Partitions of a topic that are in the transaction."""

    topic: str
    partitions: list[Int32]


@message
class State:
    """A transactional id's state, or why it has none."""

    error_code: Int16
    transactional_id: str
    transaction_state: str
    transaction_timeout_ms: Int32
    transaction_start_time_ms: Int64
    producer_id: Int64
    producer_epoch: Int16
    topics: list[Topic]


@message
class Response:
    """The states."""

    throttle_time_ms: Int32 = 0
    transaction_states: list[State]


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Answer for each that it is not known."""
    return Response(transaction_states=[_unknown(one) for one in request.transactional_ids])


def _unknown(transactional_id: str) -> State:
    error = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if transactional_id else ErrorCode.INVALID_REQUEST
    return with_defaults(State, error_code=error, transactional_id=transactional_id)


API = Api(
    key=65,
    name="DescribeTransactions",
    min_version=0,
    max_version=0,
    flexible=0,
    handle=handle,
    request=Request,
    response=Response,
    rights=each(Operation.DESCRIBE, kind=TRANSACTIONAL_ID, asked="transactional_ids", name=""),
    read_only=True,
    pure=True,
)
