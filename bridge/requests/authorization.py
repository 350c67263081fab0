"""Asks who decides what a client may do, for one request; denials are counted, and told to the audit log."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Final

from bridge.access.security_store.store import SecurityStore
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.requests.api import Api, Authorization, Broker, ServedBy
from bridge.requests.session import Session
from bridge.runtime.futures import in_turns, loop_time
from bridge.security.acls import CLUSTER, SUPPORTED, Operation, Resource, ResourceType
from bridge.telemetry import log
from bridge.telemetry.metrics import SecurityMetrics

NOT_TOLD: Final = -(2**31)
"""For authorizedOperations: the client has not asked for them."""
_AUDIT_SECONDS: Final = 60.0
_FEW: Final = 100
"""Names that are decided at once: some microseconds each."""
_MAX_LINES: Final = 1000
_MAX_LINES_OF_ONE: Final = 100
"""Of one principal."""
_MAX_CHARACTERS: Final = 256
"""Of a name: that of a group may be very long."""

_audit = log.get("bridge.audit")

ERRORS: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


class Denials:
    """The refusals of the last minute: each is told to the audit log once, however often a client tries.

    A client that makes up names has so many lines, and those of others are told all the same.
    """

    def __init__(self, metrics: SecurityMetrics, clock: Callable[[], float] = loop_time) -> None:
        self._metrics = metrics
        self._clock = clock
        self._told: set[tuple[str, Operation, Resource]] = set()
        self._lines = Counter[str]()
        self._untold = 0
        self._until = 0.0

    def note(self, session: Session, operation: Operation, resource: Resource) -> None:
        """A client may not do this."""
        self._metrics.denied(operation.name, resource.type.name)
        now = self._clock()
        if now >= self._until:
            self._begin(now)
        who = str(session.principal)
        key = (who, operation, resource)
        if key in self._told:
            return
        if self._lines[who] >= _MAX_LINES_OF_ONE or len(self._told) >= _MAX_LINES:
            self._untold += 1
            return
        self._told.add(key)
        self._lines[who] += 1
        about = {
            "conn": session.id, "peer": session.peer, "client": session.client_id[:128], "listener": session.listener,
            "principal": who,
        }  # fmt: skip
        what = {"operation": operation.name, "resource": resource.type.name, "name": resource.name[:_MAX_CHARACTERS]}
        _audit.warning("! denied", extra={**about, **what})

    def _begin(self, now: float) -> None:
        """Another minute."""
        if self._untold:
            _audit.warning("! more was denied", extra={"count": self._untold})
        self._told.clear()
        self._lines.clear()
        self._untold = 0
        self._until = now + _AUDIT_SECONDS


class AclAuthorization:
    """By the access control entries of the cluster, as Kafka's StandardAuthorizer."""

    def __init__(self, store: SecurityStore, metrics: SecurityMetrics) -> None:
        self._store = store
        self._denials = Denials(metrics)

    def note_denial(self, session: Session, operation: Operation, resource: Resource) -> None:
        """Tell the audit log, once in a while."""
        self._denials.note(session, operation, resource)

    def of(self, namespace: str) -> "AclAuthorization":
        """The same: entries are about names, in whichever namespace."""
        return self

    async def allowed(
        self, session: Session, operation: Operation, kind: ResourceType, names: Collection[str]
    ) -> Collection[str]:
        """Answered from memory."""
        allows, principal, host = self._store.authorizer.allows, str(session.principal), _host(session)
        if len(names) <= _FEW:
            return {name for name in names if allows(principal, host, operation, Resource(kind, name))}
        return {name async for name in in_turns(names) if allows(principal, host, operation, Resource(kind, name))}

    def allows_at_once(self, session: Session, operation: Operation, resource: Resource) -> bool:
        """Answered from memory."""
        return self._store.authorizer.allows(str(session.principal), _host(session), operation, resource)

    async def allowed_any(self, session: Session, operation: Operation, kind: ResourceType) -> bool:
        """Answered from memory."""
        return self._store.authorizer.allows_any(str(session.principal), _host(session), operation, kind)

    def viewer(self, session: Session) -> str:
        """By the client's address, too, where entries ask for it."""
        return self._store.authorizer.viewer(str(session.principal), _host(session))

    async def operations(self, session: Session, resource: Resource) -> int:
        """Answered from memory."""
        return self._store.authorizer.allowed_operations(str(session.principal), _host(session), resource)


def _host(session: Session) -> str:
    return session.host[1:]


class _Everything:
    """Where all may do everything: for authorizedOperations, which tell just that."""

    def of(self, namespace: str) -> "_Everything":
        return self

    async def allowed(
        self, session: Session, operation: Operation, kind: ResourceType, names: Collection[str]
    ) -> Collection[str]:
        return names

    def allows_at_once(self, session: Session, operation: Operation, resource: Resource) -> bool:
        return True

    async def allowed_any(self, session: Session, operation: Operation, kind: ResourceType) -> bool:
        return True

    def viewer(self, session: Session) -> str:
        return ""

    async def operations(self, session: Session, resource: Resource) -> int:
        return sum(1 << operation for operation in SUPPORTED[resource.type])

    def note_denial(self, session: Session, operation: Operation, resource: Resource) -> None:
        """There are none."""


EVERYTHING: Final = _Everything()


class Checks:
    """What the client of one request may do."""

    __slots__ = ("_authorization", "api", "broker", "session")

    def __init__(self, authorization: Authorization, broker: Broker, session: Session, api: Api | None = None) -> None:
        """`api`: that of the request, if its `Rights` have the check."""
        self._authorization = authorization
        self.api = api
        self.broker = broker
        self.session = session

    async def denied(
        self, operation: Operation, kind: ResourceType, names: Iterable[str], *, lists: bool = False
    ) -> Collection[str]:
        """Those with which the client may not do this. `lists`: it has named none, and they are just left out.

        KafkaError where nobody says now; of a coordinator none that its clients know of leaders only: they would give
        up.
        """
        wanted = set(names)
        if not wanted:
            return ()
        try:
            allowed = await self._authorization.allowed(self.session, operation, kind, wanted)
        except KafkaError as error:
            of_coordinator = self.api is not None and self.api.served_by is ServedBy.COORDINATOR
            if error.code == ErrorCode.LEADER_NOT_AVAILABLE and of_coordinator:
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message) from None
            raise
        denied = wanted.difference(allowed)
        if denied and not lists:
            async for name in in_turns(denied):
                self._authorization.note_denial(self.session, operation, Resource(kind, name))
        return denied

    @property
    def viewer(self) -> str:
        """The same for all clients that may do the same with topics."""
        return self._authorization.viewer(self.session)

    async def describable(self, names: Collection[str]) -> Collection[str]:
        """Those topics of some that the client has not named that it may know of."""
        denied = await self.denied(Operation.DESCRIBE, ResourceType.TOPIC, names, lists=True)
        return [name for name in names if name not in denied]

    async def allows(self, operation: Operation, resource: Resource = CLUSTER, *, quietly: bool = False) -> bool:
        """Whether the client may do this; `quietly`: another right may still be enough."""
        return not await self.denied(operation, resource.type, [resource.name], lists=quietly)

    async def require(self, operation: Operation, resource: Resource = CLUSTER) -> None:
        """KafkaError with the code of the resource's type if the client may not do this."""
        if not await self.allows(operation, resource):
            raise KafkaError(ERRORS[resource.type])

    async def allows_any(self, operation: Operation, kind: ResourceType) -> bool:
        """Whether the client may do this with any resource of the type."""
        return await self._authorization.allowed_any(self.session, operation, kind)

    async def operations(self, kind: ResourceType, name: str) -> int:
        """What authorizedOperations has (KIP-430)."""
        return await self._authorization.operations(self.session, Resource(kind, name))

    async def cluster_operations(self) -> int:
        """Of the cluster; 0 for those who may not describe it, as in Kafka."""
        if not await self.allows(Operation.DESCRIBE, quietly=True):
            return 0
        return await self.operations(*CLUSTER)


def checks_of(broker: Broker, session: Session) -> Checks | None:
    """What asks for the client of a session; None: all may do everything."""
    authorization = broker.authorization
    return None if authorization is None else Checks(authorization, broker, session)
