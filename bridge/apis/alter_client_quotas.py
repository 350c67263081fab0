"""AlterClientQuotas: set quotas of users, client ids and addresses, on all nodes (KIP-546).

v1 is flexible.
"""

from collections.abc import Sequence

from bridge.access.security_store.security_log import SecurityUnavailable
from bridge.apis.describe_client_quotas import Entity
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Float64, Int16, Int32, message
from bridge.requests.api import Api, Broker, RequestLimit
from bridge.requests.rights import cluster
from bridge.requests.session import Session
from bridge.runtime.futures import in_turns
from bridge.security import acls
from bridge.security.quotas import entities
from bridge.security.quotas.entities import InvalidQuota, QuotaKey, checked_entity, checked_key
from bridge.security.records import Kept, quota_key, quota_record
from bridge.telemetry import log

_audit = log.get("bridge.audit")

MAX_CHANGES = 1000
"""In one request: all nodes read them."""
MAX_QUOTAS = 10_000
"""More are not taken: each node has all of them in memory."""


@message
class Operation:
    """A limit to set or to remove."""

    key: str
    value: Float64
    remove: bool


@message
class RequestEntry:
    """What to do with the limits of one entity."""

    entity: list[Entity]
    ops: list[Operation]


@message
class Request:
    """What to change."""

    entries: list[RequestEntry]
    validate_only: bool


@message
class ResponseEntry:
    """One entity's result."""

    error_code: Int16
    error_message: str | None
    entity: list[Entity]


@message
class Response:
    """The results."""

    throttle_time_ms: Int32 = 0
    entries: list[ResponseEntry]


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Store what is right of it, and answer when that counts on this node.

    Where Pulsar does not take it in time, the answer is REQUEST_TIMED_OUT: the change may count, now or later, or not.
    """
    alteration = _Alteration(0 if broker.security is None else len(broker.security.quotas()))
    async for entry in in_turns(request.entries):
        alteration.judge(entry)
    records = alteration.records
    if records and not request.validate_only:
        outcome = await _store(alteration, broker)
        async for entity, record in in_turns(records):
            _tell(session, entity, record, outcome)
    return Response(entries=[_result(named, error) async for named, error in in_turns(alteration.results.items())])


async def _store(alteration: "_Alteration", broker: Broker) -> str:
    try:
        if broker.security is None:
            raise SecurityUnavailable("this node keeps no quotas")
        await broker.security.change([record for _, record in alteration.records])
    except SecurityUnavailable as error:
        failed = KafkaError(ErrorCode.REQUEST_TIMED_OUT, str(error))
        alteration.fail(failed)
        return "failed"
    return "stored"


def _tell(session: Session, entity: "_Named", record: Kept, outcome: str) -> None:
    """The audit log has who has changed what; a change that has failed may count all the same."""
    about = {
        "conn": session.id, "peer": session.peer, "client": session.client_id[:128], "listener": session.listener,
        "principal": session.principal,
    }  # fmt: skip
    change = "deleted" if record.value is None else "set"
    _audit.info("= client quota changed", extra={**about, "quota": record.key, "change": change, "outcome": outcome})


_TOO_MANY = KafkaError(ErrorCode.POLICY_VIOLATION, f"A request changes at most {MAX_CHANGES} quotas")
_Named = tuple[tuple[str, str | None], ...]
"""An entity as the client has named it."""


class _Alteration:
    """What is to be stored, and what is wrong, by entity: as Kafka's ClientQuotaControlManager judges, in its order."""

    def __init__(self, there: int) -> None:
        """`there`: how many quotas there are."""
        self.records: list[tuple[_Named, Kept]] = []
        self._room = MAX_QUOTAS - there
        self._changes = 0
        self.results: dict[_Named, KafkaError | None] = {}
        """By entity."""

    def judge(self, entry: RequestEntry) -> None:
        """Take the next entry."""
        named = tuple((one.entity_type, one.entity_name) for one in entry.entity)
        self._changes += len(entry.ops)
        if self._changes > MAX_CHANGES and named not in self.results:  # tens of thousands cost no more than to read
            self.results[named] = _TOO_MANY
            return
        try:
            made = self._records(named, entry.ops)
        except InvalidQuota as error:
            self.results[named] = KafkaError(ErrorCode.INVALID_REQUEST, str(error))
            return
        except KafkaError as error:
            self.results[named] = error.bare()
            return
        self.results[named] = None
        self.records += [(named, record) for record in made]

    def fail(self, error: KafkaError) -> None:
        """What was to be stored was not."""
        for named, _ in self.records:
            self.results[named] = error

    def _records(self, named: _Named, operations: Sequence[Operation]) -> list[Kept]:
        shown = "ClientQuotaEntity(entries={" + ", ".join(f"{kind}={name}" for kind, name in named) + "})"
        wanted = {operation.key: operation for operation in operations}
        if len(wanted) < len(operations) or named in self.results:
            raise InvalidQuota(f"Ignoring duplicate entity {shown}")
        entity = checked_entity(named)
        made = []
        for key, operation in wanted.items():
            if operation.remove:
                if key in set(QuotaKey):
                    made.append(Kept(quota_key(entity, QuotaKey(key))))
                continue
            made.append(quota_record(entity, checked_key(entity, key, operation.value), operation.value))
        self._make_room(sum(record.value is not None for record in made))
        return made

    def _make_room(self, count: int) -> None:
        if count and self._room < count:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, f"There are {MAX_QUOTAS} client quotas already")
        self._room -= count


def _result(named: _Named, error: KafkaError | None) -> ResponseEntry:
    code, text = (ErrorCode.NONE, None) if error is None else (error.code, error.message)
    entity = [Entity(entity_type=kind, entity_name=name) for kind, name in named]
    return ResponseEntry(error_code=code, error_message=text, entity=entity)


def error_response(request: Request, error: int, text: str, version: int) -> Response:
    """The error of every entity."""
    text = text or ErrorCode(error).text
    entries = [ResponseEntry(error_code=error, error_message=text, entity=one.entity) for one in request.entries]
    return Response(entries=entries)


API = Api(
    key=49,
    name="AlterClientQuotas",
    min_version=0,
    max_version=1,
    flexible=1,
    handle=handle,
    request=Request,
    response=Response,
    rights=cluster(acls.Operation.ALTER_CONFIGS),
    error_response=error_response,
    limits=(
        RequestLimit("quotas", MAX_CHANGES, ErrorCode.POLICY_VIOLATION),
        RequestLimit("quotas there are", MAX_QUOTAS, ErrorCode.POLICY_VIOLATION),
        RequestLimit("characters of a name", entities.MAX_NAME_CHARACTERS, ErrorCode.INVALID_REQUEST),
    ),
)
