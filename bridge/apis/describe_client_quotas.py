"""DescribeClientQuotas: the quotas of users, client ids and addresses (KIP-546).

v1 is flexible.
"""

from collections import Counter

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Float64, Int8, Int16, Int32, message
from bridge.requests.api import Api, Broker
from bridge.requests.rights import cluster
from bridge.requests.session import Session
from bridge.runtime.futures import in_turns
from bridge.security.acls import Operation
from bridge.security.quotas import entities
from bridge.security.quotas.entities import IP, TYPES

EXACT, DEFAULT, SPECIFIED = 0, 1, 2
_MATCHES = {DEFAULT: "MATCH_TYPE_DEFAULT", SPECIFIED: "MATCH_TYPE_SPECIFIED"}


@message
class Component:
    """The entities of one type to list."""

    entity_type: str
    match_type: Int8
    match: str | None


@message
class Request:
    """The entities to list; `strict`: only those of exactly these types."""

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
    """Answer from memory; what another node has changed is there within a second."""
    for component in request.components:
        _check(component)
    types = [component.entity_type for component in request.components]
    for one, times in Counter(types).items():
        if times > 1:
            raise _invalid(f"Entity type {one} cannot appear more than once in the filter.")
    if IP in types and len(types) > 1:
        text = "Invalid entity filter component combination. IP filter component should not be used with user or "
        raise _invalid(text + "clientId filter component.")
    found: dict[entities.Entity, list[Value]] = {}
    quotas = [] if broker.security is None else list(broker.security.quotas().items())
    async for (entity, key), value in in_turns(quotas):
        if _fits(entity, request):
            found.setdefault(entity, []).append(Value(key=key, value=value))
    entries = [
        Entry(entity=[Entity(entity_type=kind, entity_name=name) for kind, name in entity], values=values)
        for entity, values in found.items()
    ]
    return Response(error_code=ErrorCode.NONE, error_message=None, entries=entries)


def _fits(entity: entities.Entity, request: Request) -> bool:
    """As Kafka's ClientQuotasImage: each component has to fit; `strict`: there is nothing else in the entity."""
    if request.strict and len(entity) != len(request.components):
        return False
    names = dict(entity)
    for component in request.components:
        if component.entity_type not in names:
            return False
        wanted = component.match
        if component.entity_type == IP and wanted is not None:
            wanted = entities.address(wanted) or wanted
        if component.match_type != SPECIFIED and names[component.entity_type] != wanted:
            return False
    return True


def _check(component: Component) -> None:
    """As Kafka's DescribeClientQuotasRequest and ClientQuotasImage do."""
    if component.match_type == EXACT:
        if component.match is None:
            raise _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
    elif component.match_type not in _MATCHES:
        raise _invalid(f"Unknown match type {component.match_type}")
    elif component.match is not None:
        text = f"Request specified {_MATCHES[component.match_type]}, but also specified a match string."
        raise _invalid(text)
    if not component.entity_type:
        raise _invalid("Invalid empty entity type.")
    if component.entity_type not in TYPES:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {component.entity_type}")


def _invalid(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, text)


API = Api(
    key=48,
    name="DescribeClientQuotas",
    min_version=0,
    max_version=1,
    flexible=1,
    handle=handle,
    request=Request,
    response=Response,
    rights=cluster(Operation.DESCRIBE_CONFIGS),
    read_only=True,
)
