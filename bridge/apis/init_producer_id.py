"""InitProducerId: give an idempotent or transactional producer its id and epoch.

v2 is flexible; v3 lets a producer send its id and epoch to continue with them (KIP-360); v4 may answer
PRODUCER_FENCED, v5 TRANSACTION_ABORTABLE (KIP-890).
"""

import asyncio
from typing import Annotated, Any

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, Int64, message, since
from bridge.requests.api import Api, Broker, Rest, Right, Rights, ServedBy
from bridge.requests.authorization import Checks
from bridge.requests.rights import CLUSTER, TOPIC, TRANSACTIONAL_ID
from bridge.requests.routes import OfTransaction
from bridge.requests.session import Session
from bridge.requests.transactional import connection_of, done, transactions_of
from bridge.security.acls import Operation, Resource
from bridge.telemetry import log

_log = log.get(__name__)

_FENCED_FROM = 4
_TIMEOUT_SECONDS = 10.0
"""After it clients are told to ask again (COORDINATOR_LOAD_IN_PROGRESS)."""


@message
class Request:
    """A producer that needs an id, or continues with the one it has."""

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
    producer_epoch: Int16 = -1


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Assign an id, or begin another epoch of a transactional id, which aborts what is open there.

    An idempotent producer that sends its id (KIP-360: after an error its records may be out of order) gets a new one,
    as from a broker that has forgotten it.
    """
    if request.transactional_id == "" or (request.producer_id < 0) != (request.producer_epoch < 0):
        return Response(error_code=ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return await _of_transactional_id(request.transactional_id, request, broker, session)
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            producer_id = await broker.topics.producer_ids.next()
    except (KafkaError, TimeoutError) as error:
        _log.warning("! no producer id", extra={"error": str(error) or "Pulsar does not answer"})
        return Response(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return Response(error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=0)


async def _of_transactional_id(name: str, request: Request, broker: Broker, session: Session) -> Response:
    coordinator = await transactions_of(broker, name).coordinator()
    begun = coordinator.init_producer_id(
        name, request.producer_id, request.producer_epoch, request.transaction_timeout_ms, connection_of(session)
    )
    change = await done(begun, session.api_version, _FENCED_FROM)
    return Response(error_code=ErrorCode.NONE, producer_id=change.producer_id, producer_epoch=change.epoch)


async def _check_rights(request: Request, checks: Checks, rest: Rest) -> Any:
    if request.transactional_id is not None:
        await checks.require(Operation.WRITE, Resource(TRANSACTIONAL_ID, request.transactional_id))
    elif not await _may_be_idempotent(checks):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return await rest(request)


async def _may_be_idempotent(checks: Checks) -> bool:
    """Who may write to any topic may do so with a producer id (KIP-679)."""
    return (
        await checks.allows(Operation.IDEMPOTENT_WRITE, quietly=True)
        or await checks.allows_any(Operation.WRITE, TOPIC)
        or await checks.allows(Operation.IDEMPOTENT_WRITE)  # tells of the denial
    )


API = Api(
    key=22,
    name="InitProducerId",
    min_version=0,
    max_version=5,
    flexible=2,
    handle=handle,
    request=Request,
    response=Response,
    rights=Rights(
        (
            Right(Operation.IDEMPOTENT_WRITE, CLUSTER, "or WRITE on any topic"),
            Right(Operation.WRITE, TRANSACTIONAL_ID, "if there is one"),
        ),
        _check_rights,
    ),
    route=OfTransaction(),
    served_by=ServedBy.COORDINATOR,
)
