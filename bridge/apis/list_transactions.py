"""ListTransactions: the transactional ids that this node coordinates (KIP-664).

v1 adds a filter by duration (KIP-994), v2 one by a pattern (KIP-1152).
"""

import time
from collections.abc import Callable
from typing import Annotated, Any

from bridge.groups.consumer.regex import compiled
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, Int64, message, since
from bridge.requests.api import Api, Broker, Rest, Right, Rights, ServedBy
from bridge.requests.authorization import Checks
from bridge.requests.rights import TRANSACTIONAL_ID
from bridge.requests.routes import OfAllNodes
from bridge.requests.session import Session
from bridge.requests.transactional import shown_state
from bridge.runtime.futures import in_turns
from bridge.security.acls import Operation
from bridge.transactions.transactions import TransactionRecord

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
    """List those that every filter takes."""
    unknown = [name for name in dict.fromkeys(request.state_filters) if name not in STATES]
    takes = _filter(request)
    states = [
        State(transactional_id=name, producer_id=record.producer_id, transaction_state=shown_state(record))
        async for name, record in in_turns(await broker.transactions.all())
        if takes(name, record)
    ]
    return Response(error_code=ErrorCode.NONE, unknown_state_filters=unknown, transaction_states=states)


def _filter(request: Request) -> Callable[[str, TransactionRecord], bool]:
    states, producer_ids = set(request.state_filters), set(request.producer_id_filters)
    pattern = request.transactional_id_pattern
    fits = compiled(pattern) if pattern else None
    begun_before = time.time_ns() // 1_000_000 - request.duration_filter

    def takes(name: str, record: TransactionRecord) -> bool:
        state = shown_state(record)
        return (
            (not states or state in states)
            and (not producer_ids or record.producer_id in producer_ids)
            and (request.duration_filter < 0 or record.begun_ms < begun_before)
            and (fits is None or fits(name))
        )

    return takes


async def _check_rights(request: Request, checks: Checks, rest: Rest) -> Any:
    response: Response = await rest(request)
    names = [one.transactional_id for one in response.transaction_states]
    denied = await checks.denied(Operation.DESCRIBE, TRANSACTIONAL_ID, names, lists=True)
    response.transaction_states = [one for one in response.transaction_states if one.transactional_id not in denied]
    return response


API = Api(
    key=66,
    name="ListTransactions",
    min_version=0,
    max_version=2,
    flexible=0,
    handle=handle,
    request=Request,
    response=Response,
    rights=Rights((Right(Operation.DESCRIBE, TRANSACTIONAL_ID, "to be listed"),), _check_rights),
    route=OfAllNodes("transaction_states"),
    served_by=ServedBy.ITSELF,
    read_only=True,
)
