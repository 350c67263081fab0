"""ListTransactions: the transactional ids that this node coordinates (KIP-664); there are none.

v1 adds a filter by duration (KIP-994), v2 one by a pattern (KIP-1152).
"""

import re
from typing import Annotated

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, Int64, message, since
from bridge.requests.api import Api, Broker, Right, Rights
from bridge.requests.rights import TRANSACTIONAL_ID
from bridge.requests.session import Session
from bridge.security.acls import Operation

STATES = frozenset(
    (
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "PrepareEpochFence",
        "Dead",
    )
)
"""`org.apache.kafka.coordinator.transaction.TransactionState`."""


@message
class Request:
    """Which transactional ids to list."""

    state_filters: list[str]
    producer_id_filters: list[Int64]
    duration_filter: Annotated[Int64, since(1)] = -1
    transactional_id_pattern: Annotated[str | None, since(2)] = None


@message
class State:
    """A transactional id."""

    transactional_id: str
    producer_id: Int64
    transaction_state: str


@message
class Response:
    """The transactional ids, and those of the states asked for that do not exist."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    unknown_state_filters: list[str]
    transaction_states: list[State]


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Answer that there are none."""
    if request.transactional_id_pattern:
        try:
            re.compile(request.transactional_id_pattern)
        except re.error:
            raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION) from None
    unknown = [name for name in dict.fromkeys(request.state_filters) if name not in STATES]
    return Response(error_code=ErrorCode.NONE, unknown_state_filters=unknown, transaction_states=[])


API = Api(
    key=66,
    name="ListTransactions",
    min_version=0,
    max_version=2,
    flexible=0,
    handle=handle,
    request=Request,
    response=Response,
    rights=Rights((Right(Operation.DESCRIBE, TRANSACTIONAL_ID, "to be listed"),)),
    read_only=True,
    pure=True,
)
