"""DeleteGroups: remove groups without members, and their committed offsets (KIP-229).

v2 is flexible.
"""

from collections.abc import Iterator

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, message
from bridge.requests.api import Api, Broker, ServedBy
from bridge.requests.audit import AuditedChange
from bridge.requests.rights import GROUP, each
from bridge.requests.routes import OfGroups
from bridge.requests.session import Session
from bridge.runtime.futures import gathered_for
from bridge.security.acls import Operation


@message
class Request:
    """Groups by name."""

    groups_names: list[str]


@message
class Result:
    """A group deleted, or why not."""

    group_id: str
    error_code: Int16


@message
class Response:
    """What became of each group."""

    throttle_time_ms: Int32 = 0
    results: list[Result]


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Delete each group; the answer comes when that is stored."""
    results = await gathered_for(request.groups_names, lambda group_id: _delete(group_id, broker))
    return Response(results=list(results.values()))


async def _delete(group_id: str, broker: Broker) -> Result:
    error = ErrorCode.NONE
    try:
        await broker.groups.delete(group_id)
    except KafkaError as failure:
        error = ErrorCode(failure.code)
    return Result(group_id=group_id, error_code=error)


def audit(request: Request, response: Response) -> Iterator[AuditedChange]:
    """The groups that are no more."""
    yield from (AuditedChange(one.error_code, "group", one.group_id, "deleted") for one in response.results)


API = Api(
    key=42,
    name="DeleteGroups",
    min_version=0,
    max_version=2,
    flexible=2,
    handle=handle,
    request=Request,
    response=Response,
    rights=each(Operation.DELETE, kind=GROUP, asked="groups_names", name=""),
    audit=audit,
    route=OfGroups("groups_names", "results"),
    served_by=ServedBy.COORDINATOR,
)
