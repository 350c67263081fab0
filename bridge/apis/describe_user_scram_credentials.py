"""DescribeUserScramCredentials: users' SCRAM credentials (KIP-554); there are none."""

from collections import Counter

from bridge.api import Api, Broker, Session
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int8, Int16, Int32, message


@message
class User:
    """A user by name."""

    name: str


@message
class Request:
    """The users to describe, null or none for all."""

    users: list[User] | None


@message
class Credential:
    """A credential."""

    mechanism: Int8
    iterations: Int32


@message
class Result:
    """One user's credentials, or why there are none."""

    user: str
    error_code: Int16
    error_message: str | None
    credential_infos: list[Credential]


@message
class Response:
    """The users."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: str | None
    results: list[Result]


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Answer that there are none; for a user asked for by name that is an error, as in Kafka."""
    times = Counter(user.name for user in request.users or ())
    results = [_none(name, count) for name, count in times.items()]
    return Response(error_code=ErrorCode.NONE, error_message=None, results=results)


def _none(name: str, times: int) -> Result:
    code, text = ErrorCode.RESOURCE_NOT_FOUND, f"Attempt to describe a user credential that does not exist: {name}"
    if times > 1:
        code = ErrorCode.DUPLICATE_RESOURCE
        text = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
    return Result(user=name, error_code=code, error_message=text, credential_infos=[])


API = Api(
    key=50,
    name="DescribeUserScramCredentials",
    min_version=0,
    max_version=0,
    flexible=0,
    handle=handle,
    request=Request,
    response=Response,
    read_only=True,
    pure=True,
)
