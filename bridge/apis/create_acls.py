"""CreateAcls: create access control entries (KIP-140); SECURITY_DISABLED without an authorizer, as in Kafka.

v1 has the pattern type (KIP-290); v2 is flexible; v3 knows user resources (KIP-373).
"""

from collections.abc import Iterator

from bridge.access.security_store.security_log import SecurityUnavailable
from bridge.access.security_store.store import SecurityStore
from bridge.apis.describe_acls import LITERAL
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int8, Int16, Int32, message
from bridge.requests.api import Api, Broker
from bridge.requests.audit import AuditedChange, entry_change
from bridge.requests.rights import cluster
from bridge.requests.session import Session
from bridge.security.acls import AccessControlEntry, InvalidAcl, Operation, valid_entry
from bridge.security.authorizer import MAX_ENTRIES

MAX_CREATIONS = 1000
"""In one request: each takes some microseconds of the event loop."""


@message
class Creation:
    """An entry to create."""

    resource_type: Int8
    resource_name: str
    resource_pattern_type: Int8 = LITERAL
    principal: str
    host: str
    operation: Int8
    permission_type: Int8


@message
class Request:
    """What to create."""

    creations: list[Creation]


@message
class Result:
    """The result of one creation."""

    error_code: Int16
    error_message: str | None


@message
class Response:
    """The results."""

    throttle_time_ms: Int32 = 0
    results: list[Result]


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Store those that are right, and answer when they count on this node."""
    wanted: list[AccessControlEntry | KafkaError] = []
    try:
        store = broker.acls
        if len(request.creations) > MAX_CREATIONS:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"A request creates at most {MAX_CREATIONS} entries")
        wanted = [_judge(creation) for creation in request.creations]
        await _create(store, [one for one in wanted if not isinstance(one, KafkaError)])
    except KafkaError as error:
        wanted = [one if isinstance(one, KafkaError) else error for one in wanted or [error] * len(request.creations)]
    return Response(results=[_result(one) for one in wanted])


async def _create(store: SecurityStore, entries: list[AccessControlEntry]) -> None:
    try:
        await store.catch_up()
        known = store.entries()
        if len({*known, *entries}) > max(MAX_ENTRIES, len(known)):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"There are at most {MAX_ENTRIES} entries")
        await store.create_entries(entries)
    except SecurityUnavailable as error:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, str(error)) from None


def _judge(creation: Creation) -> AccessControlEntry | KafkaError:
    try:
        return valid_entry(
            creation.resource_type,
            creation.resource_name,
            creation.resource_pattern_type,
            creation.principal,
            creation.host,
            creation.operation,
            creation.permission_type,
        )
    except InvalidAcl as error:
        return KafkaError(ErrorCode.INVALID_REQUEST, str(error))


def _result(one: AccessControlEntry | KafkaError) -> Result:
    if isinstance(one, KafkaError):
        return Result(error_code=one.code, error_message=one.message)
    return Result(error_code=ErrorCode.NONE, error_message=None)


def audit(request: Request, response: Response) -> Iterator[AuditedChange]:
    """The new entries."""
    for one, result in zip(request.creations, response.results, strict=False):
        yield entry_change(one, one.resource_pattern_type, result.error_code, "acl created")


API = Api(
    key=30,
    name="CreateAcls",
    min_version=1,
    max_version=3,
    flexible=2,
    handle=handle,
    request=Request,
    response=Response,
    rights=cluster(Operation.ALTER),
    audit=audit,
)
