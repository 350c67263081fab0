"""AlterUserScramCredentials: change users' SCRAM credentials (KIP-554); refused, as clients are not authenticated."""

from collections import Counter

from bridge.api import Api, Broker, Session
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int8, Int16, Int32, message


@message
class Deletion:
    """A credential to delete."""

    name: str
    mechanism: Int8


@message
class Upsertion:
    """A credential to create or change."""

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
    """One user's result."""

    user: str
    error_code: Int16
    error_message: str | None


@message
class Response:
    """The results."""

    throttle_time_ms: Int32 = 0
    results: list[Result]


MECHANISMS = (1, 2)
"""SCRAM-SHA-256 and SCRAM-SHA-512."""


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Refuse to store credentials that would never be used; those to delete do not exist."""
    changes = [(one, _delete) for one in request.deletions] + [(one, _put) for one in request.upsertions]
    times = Counter(upsertion.name for upsertion in request.upsertions)
    results: dict[str, Result] = {}
    for one, judge in changes:
        error = _judge(one, times[one.name] > 1) or judge()
        results.setdefault(one.name, Result(user=one.name, error_code=error.code, error_message=error.message))
    return Response(results=list(results.values()))


def _judge(change: Deletion | Upsertion, twice: bool) -> KafkaError | None:
    """The checks that Kafka's ScramControlManager makes first."""
    if not change.name:
        return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if change.mechanism not in MECHANISMS:
        return KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if twice:
        text = "A user credential cannot be altered twice in the same request"
        return KafkaError(ErrorCode.DUPLICATE_RESOURCE, text)
    return None


def _delete() -> KafkaError:
    return KafkaError(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")


def _put() -> KafkaError:
    text = "Kafka clients do not log in here: there is no SASL mechanism that would use the credential."
    return KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, text)


API = Api(
    key=51,
    name="AlterUserScramCredentials",
    min_version=0,
    max_version=0,
    flexible=0,
    handle=handle,
    request=Request,
    response=Response,
    pure=True,
)
