"""AddOffsetsToTxn: say that a transaction commits a group's offsets (KIP-98).

v3 is flexible; v4 may answer TRANSACTION_ABORTABLE (KIP-890).
"""

from typing import Any

from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, Int64, message
from bridge.requests.api import Api, Broker, Rest, Right, Rights, ServedBy
from bridge.requests.authorization import Checks
from bridge.requests.rights import GROUP, TRANSACTIONAL_ID
from bridge.requests.routes import OfTransaction
from bridge.requests.session import Session
from bridge.requests.transactional import Question, at_coordinator, connection_of, done, transactions_of
from bridge.security.acls import Operation, Resource
from bridge.security.principal import NODE
from bridge.transactions.coordinator import Coordinator
from bridge.transactions.transactions import Change


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
    """Name the group; its offsets go to its own coordinator (TxnOffsetCommit)."""
    is_client = session.principal != NODE
    coordinator = await transactions_of(broker, request.transactional_id).coordinator()
    added = coordinator.add_group(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        request.group_id,
        protocol=1 if is_client else 2,  # a client of KIP-890 does not send it
        connection=connection_of(session) if is_client else None,
    )
    await done(added, session.api_version)
    return Response(error_code=ErrorCode.NONE)


async def added_by_offsets(broker: Broker, transactional_id: str, producer: tuple[int, int], group: str) -> None:
    """Offsets of a producer (id, epoch) tell their transaction of their group themselves (KIP-890)."""

    async def here(coordinator: Coordinator) -> Change:
        return await coordinator.add_group(transactional_id, *producer, group, protocol=2)

    def elsewhere() -> Question:
        request = Request(
            transactional_id=transactional_id, producer_id=producer[0], producer_epoch=producer[1], group_id=group
        )
        return Question(API, API.max_version, request, lambda answer: answer.error_code)

    await at_coordinator(broker, transactional_id, here, elsewhere)


async def _check_rights(request: Request, checks: Checks, rest: Rest) -> Any:
    await checks.require(Operation.WRITE, Resource(TRANSACTIONAL_ID, request.transactional_id))
    await checks.require(Operation.READ, Resource(GROUP, request.group_id))
    return await rest(request)


API = Api(
    key=25,
    name="AddOffsetsToTxn",
    min_version=0,
    max_version=4,
    flexible=3,
    handle=handle,
    request=Request,
    response=Response,
    rights=Rights((Right(Operation.WRITE, TRANSACTIONAL_ID), Right(Operation.READ, GROUP)), _check_rights),
    route=OfTransaction(),
    served_by=ServedBy.COORDINATOR,
)
