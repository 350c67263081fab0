"""DescribeUserScramCredentials: users' SCRAM credentials (KIP-554); none where users are not kept in Pulsar."""

from collections import Counter

from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int8, Int16, Int32, message
from bridge.requests.api import Api, Broker
from bridge.requests.rights import cluster
from bridge.requests.session import Session
from bridge.security.acls import Operation
from bridge.security.names import prepared_name
from bridge.security.sasl.credentials import ScramCredential

NUMBERS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
"""The protocol's numbers of mechanisms (ScramMechanism)."""


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
    """Answer from memory; what another node has changed is there within a second."""
    store = broker.security
    known = store.users() if store is not None and store.keeps_users else {}
    asked = Counter(user.name for user in request.users or ()) or Counter(list(known))
    results = [_describe(name, count, known.get(prepared_name(name) or "", [])) for name, count in asked.items()]
    return Response(error_code=ErrorCode.NONE, error_message=None, results=results)


def _describe(name: str, times: int, credentials: list[ScramCredential]) -> Result:
    code, text = ErrorCode.NONE, None
    if times > 1:
        code = ErrorCode.DUPLICATE_RESOURCE
        text = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
    elif not credentials:
        code = ErrorCode.RESOURCE_NOT_FOUND
        text = f"Attempt to describe a user credential that does not exist: {name}"
    infos = [Credential(mechanism=NUMBERS[one.mechanism], iterations=one.iterations) for one in credentials]
    return Result(user=name, error_code=code, error_message=text, credential_infos=[] if code else infos)


API = Api(
    key=50,
    name="DescribeUserScramCredentials",
    min_version=0,
    max_version=0,
    flexible=0,
    handle=handle,
    request=Request,
    response=Response,
    rights=cluster(Operation.DESCRIBE),
    read_only=True,
)
