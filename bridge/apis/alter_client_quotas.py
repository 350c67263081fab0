"""AlterClientQuotas: set limits for users, clients and addresses (KIP-546); refused, as there are no client quotas.

v1 is flexible.
"""

from bridge.api import Api, Broker, Session
from bridge.apis.describe_client_quotas import Entity
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Float64, Int16, Int32, message


@message
class Operation:
    """A limit to set or to remove."""

    key: str
    value: Float64
    remove: bool


@message
class RequestEntry:
    """What to do with the limits of one entity."""

    entity: list[Entity]
    ops: list[Operation]


@message
class Request:
    """What to change."""

    entries: list[RequestEntry]
    validate_only: bool


@message
class ResponseEntry:
    """One entity's result."""

    error_code: Int16
    error_message: str | None
    entity: list[Entity]


@message
class Response:
    """The results."""

    throttle_time_ms: Int32 = 0
    entries: list[ResponseEntry]


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Refuse to set limits; removing one changes nothing, as there is none."""
    return Response(entries=[_answer(entry) for entry in request.entries])


def _answer(entry: RequestEntry) -> ResponseEntry:
    if not entry.entity:
        text = "Invalid empty client quota entity"
        return ResponseEntry(error_code=ErrorCode.INVALID_REQUEST, error_message=text, entity=entry.entity)
    if all(one.remove for one in entry.ops):
        return ResponseEntry(error_code=ErrorCode.NONE, error_message=None, entity=entry.entity)
    text = "There are no client quotas here: the bridge limits connections and memory by its own settings."
    return ResponseEntry(error_code=ErrorCode.INVALID_REQUEST, error_message=text, entity=entry.entity)


API = Api(
    key=49,
    name="AlterClientQuotas",
    min_version=0,
    max_version=1,
    flexible=1,
    handle=handle,
    request=Request,
    response=Response,
    pure=True,
)
