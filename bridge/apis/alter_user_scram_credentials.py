"""AlterUserScramCredentials: let users log in by SCRAM, or no more (KIP-554); here nobody logs in."""

from bridge.api import Api, Broker, Session
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int8, Int16, Int32, message


@message
class Deletion:
    """A user's way to log in that is to go."""

    name: str
    mechanism: Int8


@message
class Upsertion:
    """A user's way to log in that is to be."""

    name: str
    mechanism: Int8
    iterations: Int32
    salt: bytes
    salted_password: bytes


@message
class Request:
    """What to change."""

    deletions: list[Deletion]
    upsertions: list[Upsertion]


@message
class Result:
    """What became of one user."""

    user: str
    error_code: Int16
    error_message: str | None


@message
class Response:
    """What became of each user."""

    throttle_time_ms: Int32 = 0
    results: list[Result]


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Keep no password that would never be asked for; what is to be deleted does not exist."""
    results = {}
    for deletion in request.deletions:
        text = "Attempt to delete a user credential that does not exist"
        results[deletion.name] = Result(
            user=deletion.name, error_code=ErrorCode.RESOURCE_NOT_FOUND, error_message=text
        )
    for upsertion in request.upsertions:
        text = "Kafka clients do not log in here: there is no SASL mechanism that would use the credential."
        results[upsertion.name] = Result(
            user=upsertion.name, error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, error_message=text
        )
    return Response(results=list(results.values()))


API = Api(
    key=51,
    name="AlterUserScramCredentials",
    min_version=0,
    max_version=0,
    flexible=0,
    handle=handle,
    request=Request,
    response=Response,
)
