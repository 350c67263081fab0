"""DescribeClientQuotas: the limits set for users, clients and addresses (KIP-546); here there are never any.

v1 is flexible.
"""

from bridge.api import Api, Broker, Session
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Float64, Int8, Int16, Int32, message


@message
class Component:
    """Which entities of a type to tell."""

    entity_type: str
    match_type: Int8
    match: str | None


@message
class Request:
    """Which entities to tell; `strict`: only those of exactly these types."""

    components: list[Component]
    strict: bool


@message
class Entity:
    """A user, client or address; null: all others."""

    entity_type: str
    entity_name: str | None


@message
class Value:
    """A limit."""

    key: str
    value: Float64


@message
class Entry:
    """The limits of one entity."""

    entity: list[Entity]
    values: list[Value]


@message
class Response:
    """The limits."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: str | None
    entries: list[Entry] | None


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """There are none."""
    return Response(error_code=ErrorCode.NONE, error_message=None, entries=[])


API = Api(
    key=48,
    name="DescribeClientQuotas",
    min_version=0,
    max_version=1,
    flexible=1,
    handle=handle,
    request=Request,
    response=Response,
)
