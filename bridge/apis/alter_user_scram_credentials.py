"""AlterUserScramCredentials: change users' SCRAM credentials (KIP-554), where users are kept in Pulsar."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from bridge.access.security_store.security_log import SecurityUnavailable
from bridge.apis.describe_user_scram_credentials import NUMBERS
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int8, Int16, Int32, message
from bridge.requests.api import Api, Broker
from bridge.requests.rights import cluster
from bridge.requests.session import Session
from bridge.security.acls import Operation
from bridge.security.names import prepared_name
from bridge.security.records import Kept, user_key, user_record
from bridge.security.sasl.credentials import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    MIN_SALT_BYTES,
    ScramCredential,
    credential_of,
)
from bridge.telemetry import log

_audit = log.get("bridge.audit")

MAX_CHANGES = 1000
"""In one request: each takes some microseconds of the event loop."""
MAX_USERS = 20_000
"""More are not taken: each node has all of them in memory."""
MAX_SALT_BYTES = 1024
"""All nodes keep it in memory, and send it in each log-in."""


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
    salt: bytes = field(repr=False)
    salted_password: bytes = field(repr=False)


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


_MECHANISMS = {number: mechanism for mechanism, number in NUMBERS.items()}
_ONCE = "A user credential cannot be altered twice in the same request"


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Store what is right of it, and answer when that counts on this node.

    Where Pulsar does not take it in time, the answer is REQUEST_TIMED_OUT: the change may count, now or later, or not.
    """
    store = broker.security
    if len(request.deletions) + len(request.upsertions) > MAX_CHANGES:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"A request changes at most {MAX_CHANGES}")
    if store is None or not store.keeps_users:
        alteration = _Alteration(request, {})
        refused = KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, _NO_STORE)
        alteration.errors |= dict.fromkeys(alteration.records, refused)
        return _response(alteration)
    try:
        await store.catch_up()
    except SecurityUnavailable as error:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, str(error)) from None
    alteration = _Alteration(request, store.users())
    alteration.limit(MAX_USERS - len(store.users()))
    try:
        if alteration.records:
            await store.change(list(alteration.records.values()))
    except SecurityUnavailable as error:
        failed = KafkaError(ErrorCode.REQUEST_TIMED_OUT, str(error))
        alteration.errors |= dict.fromkeys(alteration.records, failed)
    _tell(session, alteration)
    return _response(alteration)


def _tell(session: Session, alteration: "_Alteration") -> None:
    """The audit log has who has changed whom; a change that has failed may count all the same."""
    about = {
        "conn": session.id, "peer": session.peer, "client": session.client_id[:128], "listener": session.listener,
        "principal": session.principal,
    }  # fmt: skip
    for name, record in alteration.records.items():
        what = "deleted" if record.value is None else "set"
        outcome = "failed" if name in alteration.errors else "stored"
        _audit.info("= user credential changed", extra={**about, "user": name, "change": what, "outcome": outcome})


def _response(alteration: "_Alteration") -> Response:
    names = dict.fromkeys((*alteration.records, *alteration.errors))
    return Response(results=[_result(name, alteration.errors.get(name)) for name in names])


_NO_STORE = "The users of this cluster are not kept in Pulsar: they are in security.password_file, or do not log in."


def _result(name: str, error: KafkaError | None) -> Result:
    code, text = (ErrorCode.NONE, None) if error is None else (error.code, error.message)
    return Result(user=name, error_code=code, error_message=text)


class _Alteration:
    """What is to be stored, and what is wrong, by user: as Kafka's ScramControlManager judges, in its order."""

    def __init__(self, request: Request, known: Mapping[str, Sequence[ScramCredential]]) -> None:
        self.records: dict[str, Kept] = {}
        self.errors: dict[str, KafkaError] = {}
        self._known = known
        for deletion in request.deletions:
            self._judge(deletion.name, lambda deletion=deletion: self._deletion(deletion))  # type: ignore[misc]
        for upsertion in request.upsertions:
            self._judge(upsertion.name, lambda upsertion=upsertion: _upsertion(upsertion))  # type: ignore[misc]

    def limit(self, room: int) -> None:
        """Refuse users above the room that there is for new ones."""
        new = [name for name in self.records if (prepared_name(name) or "") not in self._known]
        for name in new[max(room, 0) :]:
            del self.records[name]
            self.errors[name] = KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"There are {MAX_USERS} users already")

    def _judge(self, name: str, make: Callable[[], Kept]) -> None:
        if name in self.errors:
            return
        try:
            if self.records.pop(name, None) is not None:
                raise KafkaError(ErrorCode.DUPLICATE_RESOURCE, _ONCE)
            self.records[name] = make()
        except KafkaError as error:
            self.errors[name] = error

    def _deletion(self, deletion: Deletion) -> Kept:
        name, mechanism = _identity(deletion)
        if all(one.mechanism != mechanism for one in self._known.get(name, ())):
            text = "Attempt to delete a user credential that does not exist"
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, text)
        return Kept(user_key(mechanism, name))


def _identity(change: Deletion | Upsertion) -> tuple[str, str]:
    """The user's name as it is kept, and the mechanism."""
    if not change.name:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    mechanism = _MECHANISMS.get(change.mechanism)
    if mechanism is None:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    name = prepared_name(change.name)
    if name is None:
        text = "Username is too long, or has prohibited characters"
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, text)
    return name, mechanism


def _upsertion(upsertion: Upsertion) -> Kept:
    name, mechanism = _identity(upsertion)
    if upsertion.iterations < MIN_ITERATIONS:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if upsertion.iterations > MAX_ITERATIONS:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if not upsertion.salted_password:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Salted password must not be empty")
    if not MIN_SALT_BYTES <= len(upsertion.salt) <= MAX_SALT_BYTES:
        text = f"A salt has {MIN_SALT_BYTES} to {MAX_SALT_BYTES} bytes"
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, text)
    return user_record(name, credential_of(mechanism, upsertion.salted_password, upsertion.salt, upsertion.iterations))


def error_response(request: Request, error: int, text: str, version: int) -> Response:
    """The error of every user, once."""
    users = dict.fromkeys([*(one.name for one in request.deletions), *(one.name for one in request.upsertions)])
    refused = KafkaError(error, text or ErrorCode(error).text)
    return Response(results=[_result(user, refused) for user in users])


API = Api(
    key=51,
    name="AlterUserScramCredentials",
    min_version=0,
    max_version=0,
    flexible=0,
    handle=handle,
    request=Request,
    response=Response,
    rights=cluster(Operation.ALTER),
    error_response=error_response,
)
