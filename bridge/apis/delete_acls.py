"""DeleteAcls: delete access control entries (KIP-140); SECURITY_DISABLED without an authorizer, as in Kafka.

v1 has the pattern type (KIP-290); v2 is flexible; v3 knows user resources (KIP-373).
"""

from collections.abc import Iterator

from bridge.access.security_store.security_log import SecurityUnavailable
from bridge.apis.describe_acls import LITERAL
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int8, Int16, Int32, message
from bridge.requests.api import Api, Broker, RequestLimit
from bridge.requests.audit import MAX_LINES, AuditedChange, entry_change
from bridge.requests.rights import cluster
from bridge.requests.session import Session
from bridge.runtime.futures import in_turns
from bridge.security.acls import AccessControlEntry, AclFilter, InvalidAcl, Operation, valid_filter
from bridge.security.authorizer import MAX_ENTRIES

MAX_FILTERS = 1000
"""In one request: each looks at all entries."""


@message
class Filter:
    """Which entries to delete."""

    resource_type_filter: Int8
    resource_name_filter: str | None
    pattern_type_filter: Int8 = LITERAL
    principal_filter: str | None
    host_filter: str | None
    operation: Int8
    permission_type: Int8


@message
class Request:
    """What to delete."""

    filters: list[Filter]


@message
class Match:
    """An entry that a filter matches."""

    error_code: Int16
    error_message: str | None
    resource_type: Int8
    resource_name: str
    pattern_type: Int8 = LITERAL
    principal: str
    host: str
    operation: Int8
    permission_type: Int8


@message
class Result:
    """What one filter matches."""

    error_code: Int16
    error_message: str | None
    matching_acls: list[Match]


@message
class Response:
    """What each filter matches."""

    throttle_time_ms: Int32 = 0
    filter_results: list[Result]


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Delete what the filters find, and answer when that counts on this node."""
    filters: list[AclFilter | KafkaError] = []
    found: list[list[AccessControlEntry]] = []
    try:
        store = broker.acls
        if len(request.filters) > MAX_FILTERS:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"A request has at most {MAX_FILTERS} filters")
        filters = [_judge(one) for one in request.filters]
        await store.catch_up()
        found = await store.delete_entries([one for one in filters if not isinstance(one, KafkaError)])
    except (KafkaError, SecurityUnavailable) as failed:
        code = failed.code if isinstance(failed, KafkaError) else ErrorCode.REQUEST_TIMED_OUT
        error = KafkaError(code, str(failed))
        filters = [one if isinstance(one, KafkaError) else error for one in filters or [error] * len(request.filters)]
    deleted = iter(found)
    results = [await _result(one if isinstance(one, KafkaError) else next(deleted)) for one in filters]
    return Response(filter_results=results)


def _judge(one: Filter) -> AclFilter | KafkaError:
    try:
        return valid_filter(
            one.resource_type_filter,
            one.resource_name_filter,
            one.pattern_type_filter,
            one.principal_filter,
            one.host_filter,
            one.operation,
            one.permission_type,
        )
    except InvalidAcl as error:
        return KafkaError(ErrorCode.INVALID_REQUEST, str(error))


async def _result(found: KafkaError | list[AccessControlEntry]) -> Result:
    if isinstance(found, KafkaError):
        return Result(error_code=found.code, error_message=found.message, matching_acls=[])
    matches = [
        Match(
            error_code=ErrorCode.NONE,
            error_message=None,
            resource_type=entry.resource_type,
            resource_name=entry.name,
            pattern_type=entry.pattern_type,
            principal=entry.principal,
            host=entry.host,
            operation=entry.operation,
            permission_type=entry.permission,
        )
        async for entry in in_turns(found)
    ]
    return Result(error_code=ErrorCode.NONE, error_message=None, matching_acls=matches)


def audit(request: Request, response: Response) -> Iterator[AuditedChange]:
    """The entries that are no more. Of those that get no line it is enough that they are: there may be thousands."""
    matches = (one for result in response.filter_results for one in result.matching_acls)
    for number, one in enumerate(matches):
        if number < MAX_LINES:
            yield entry_change(one, one.pattern_type, one.error_code, "acl deleted")
        else:
            yield AuditedChange(one.error_code, "", "", "acl deleted")


API = Api(
    key=31,
    name="DeleteAcls",
    min_version=1,
    max_version=3,
    flexible=2,
    handle=handle,
    request=Request,
    response=Response,
    rights=cluster(Operation.ALTER),
    audit=audit,
    limits=(RequestLimit("entries that its filters find, together", MAX_ENTRIES, ErrorCode.INVALID_REQUEST),),
)
