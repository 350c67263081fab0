"""`kafka.authorizer = "pulsar"`: the permissions that a client's principal has in Pulsar decide."""

from collections.abc import Collection
from copy import copy
from typing import Final

from bridge.access.pulsar_permissions.answers import NoAnswer
from bridge.access.pulsar_permissions.permissions import PulsarPermissions
from bridge.access.pulsar_permissions.roles import Role
from bridge.access.pulsar_permissions.token_key import TokenKey
from bridge.access.pulsar_permissions.token_login import TokenPasswords
from bridge.config import Settings
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar import Access, Admin
from bridge.requests.authorization import Denials
from bridge.requests.session import Session
from bridge.runtime.futures import gathered, in_chunks
from bridge.security.acls import CLUSTER_NAME, SUPPORTED, Operation, Resource, ResourceType
from bridge.security.principal import USER
from bridge.security.sasl.credentials import Passwords
from bridge.telemetry.metrics import Metrics

_UNDECIDED: Final = {
    ResourceType.TOPIC: ErrorCode.LEADER_NOT_AVAILABLE,
    ResourceType.GROUP: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""While Pulsar does not say: clients try again."""


class PulsarAuthorization:
    """For super users nothing is asked."""

    def __init__(self, settings: Settings, access: Access, admin: Admin, metrics: Metrics) -> None:
        self._permissions = PulsarPermissions(settings.pulsar, access, admin, metrics.permissions)
        self._super_users = frozenset(settings.kafka.super_user_names)
        self._namespace = settings.pulsar.full_namespace
        self._any_user_name = settings.tenants.has_user_names
        self._claim = settings.pulsar.token_auth_claim
        key = settings.pulsar.token_public_key_file
        self._key = TokenKey(key) if key else None
        self._denials = Denials(metrics.security)

    def of(self, namespace: str) -> "PulsarAuthorization":
        """For clients that work in another namespace."""
        other = copy(self)  # what was learnt, and what was refused, is shared
        other._namespace = namespace
        return other

    def note_denial(self, session: Session, operation: Operation, resource: Resource) -> None:
        """Tell the audit log, once in a while."""
        self._denials.note(session, operation, resource)

    def passwords(self, others: Passwords) -> Passwords:
        """Log-in by tokens of Pulsar's; `others`: for passwords that are none."""
        return TokenPasswords(
            self._permissions,
            self._namespace,
            others,
            any_user_name=self._any_user_name,
            claim=self._claim,
            key=self._key,
        )

    async def allowed(
        self, session: Session, operation: Operation, kind: ResourceType, names: Collection[str]
    ) -> Collection[str]:
        """Answered from memory as far as possible; KafkaError while Pulsar does not say."""
        if str(session.principal) in self._super_users:
            return names
        role = _role(session)
        if role is None:
            return ()
        known = self._permissions.known
        allowed, unknown = set[str](), list[str]()
        async for some in in_chunks(list(names)):
            for name in some:
                answer = known(role, operation, Resource(kind, name), self._namespace)
                if answer is None:
                    unknown.append(name)
                elif answer:
                    allowed.add(name)
        if unknown:
            answers = await self._ask(role, operation, kind, unknown)
            allowed.update(name for name, answer in zip(unknown, answers, strict=True) if answer)
        return allowed

    def allows_at_once(self, session: Session, operation: Operation, resource: Resource) -> bool | None:
        """As far as it is in memory."""
        if str(session.principal) in self._super_users:
            return True
        role = _role(session)
        return False if role is None else self._permissions.known(role, operation, resource, self._namespace)

    async def allowed_any(self, session: Session, operation: Operation, kind: ResourceType) -> bool:
        """To write is asked for when it is done (KIP-679); all else is a right to the cluster."""
        if kind is ResourceType.TOPIC and operation is Operation.WRITE:
            return True
        return bool(await self.allowed(session, operation, ResourceType.CLUSTER, (CLUSTER_NAME,)))

    def viewer(self, session: Session) -> str:
        """By the role: Pulsar does not ask where its client is."""
        return str(session.principal)

    async def operations(self, session: Session, resource: Resource) -> int:
        """Each operation by itself."""
        bits = 0
        for operation in SUPPORTED[resource.type]:
            if await self.allowed(session, operation, resource.type, (resource.name,)):
                bits |= 1 << operation
        return bits

    async def close(self) -> None:
        """Ask no more."""
        await self._permissions.close()

    async def _ask(self, role: Role, operation: Operation, kind: ResourceType, names: list[str]) -> list[bool]:
        permissions, namespace = self._permissions, self._namespace
        try:
            return await gathered(
                permissions.allows(role, operation, Resource(kind, name), namespace) for name in names
            )
        except NoAnswer as error:
            raise KafkaError(_UNDECIDED.get(kind, ErrorCode.REQUEST_TIMED_OUT), str(error)) from None


def _role(session: Session) -> Role | None:
    """Whom Pulsar is asked about: the principal's name, with its own token if it has one."""
    if session.principal.type != USER:
        return None
    return Role(session.principal.name, None if session.login is None else session.login.token)
