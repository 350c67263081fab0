"""Whether a client may do something, decided by the permissions of its principal in Pulsar."""

from collections.abc import Collection, Mapping
from itertools import islice
from typing import Final, NamedTuple

from bridge import log
from bridge.config import PulsarSettings
from bridge.futures import loop_time
from bridge.metrics import PermissionMetrics, PulsarMetrics
from bridge.pulsar import Access, Admin, AdminError
from bridge.pulsar.auth.credentials import NoCredentials, StaticToken, TokenFile
from bridge.pulsar.role_probe import RightUnknown, RoleProbe
from bridge.pulsar_permissions.answers import Answers
from bridge.pulsar_permissions.questions import Need, Place, Question
from bridge.pulsar_permissions.roles import Role, Roles
from bridge.security.acls import Operation, Resource, ResourceType

_log = log.get(__name__)

_MAX_TOPICS: Final = 16
"""That a role has permissions of its own on, and that are asked about for the sake of its groups."""
_GRANTS_SECONDS: Final = 5.0


class _Grants(NamedTuple):
    """Permissions on single topics: by topic and role."""

    read_at: float
    of_topics: Mapping[str, Mapping[str, Collection[str]]]


class PulsarPermissions:
    """Asks Pulsar in the name of each role, and remembers what it says for a bounded time (`answers`)."""

    def __init__(
        self, settings: PulsarSettings, access: Access, admin: Admin, existing: str, metrics: PermissionMetrics
    ) -> None:
        """`existing`: the local name of a partitioned topic that each namespace has."""
        self._settings = settings
        self._access = access
        self._admin = admin
        self._existing = existing
        self._places: dict[str, Place] = {}
        proxy = settings.proxy_token_file
        self._proxy = TokenFile(proxy, PulsarMetrics()) if proxy else None
        self._roles = Roles(self._probe, metrics)
        self._answers: Answers[tuple[Role, Question]] = Answers(self._ask, RightUnknown, metrics)
        self._grants: dict[str, _Grants] = {}

    async def close(self) -> None:
        """Ask no more."""
        await self._answers.close()
        await self._roles.close()

    def can_ask_about(self, role: Role) -> bool:
        """Whether Pulsar can be asked about this role at all."""
        return role.token is not None or self._proxy is not None

    async def log_in(self, role: Role) -> bool:
        """Whether Pulsar takes the role's token, asked now; RightUnknown."""
        return await self._roles.ask(role, lambda probe: probe.log_in())

    def known(self, role: Role, operation: Operation, resource: Resource, namespace: str) -> bool | None:
        """Whether the role may, if that needs no waiting."""
        is_group = resource.type is ResourceType.GROUP
        topics = self._topics_of(role, namespace) if is_group else ()
        return self._known(role, self._place(namespace).needs(operation, resource, topics))

    async def allows(self, role: Role, operation: Operation, resource: Resource, namespace: str) -> bool:
        """Whether the role may; NoAnswer if Pulsar does not say."""
        if not self.can_ask_about(role):
            return False
        place = self._place(namespace)
        if await self._met(role, place.needs(operation, resource)):
            return True
        if resource.type is not ResourceType.GROUP:
            return False
        await self._read_grants(namespace)
        return await self._met(role, place.needs(operation, resource, self._topics_of(role, namespace)))

    def _place(self, namespace: str) -> Place:
        found = self._places.get(namespace)
        if found is None:
            found = self._places[namespace] = Place(namespace, self._existing)
        return found

    def _known(self, role: Role, need: Need) -> bool | None:
        if not self.can_ask_about(role):
            return False
        known = self._answers.known
        for questions in need:
            is_unknown = False
            for question in questions:
                answer = known((role, question))
                if answer:
                    break
                is_unknown = is_unknown or answer is None
            else:
                return None if is_unknown else False
        return True

    async def _met(self, role: Role, need: Need) -> bool:
        for questions in need:
            for question in questions:
                if await self._answers.get((role, question)):
                    break
            else:
                return False
        return True

    async def _ask(self, key: tuple[Role, Question]) -> bool:
        role, (right, topic, subscription) = key
        return await self._roles.ask(role, lambda probe: probe.may(right, topic, subscription))

    def _probe(self, role: Role) -> RoleProbe:
        if role.token is not None:
            return RoleProbe(self._settings, self._access.of(StaticToken(role.token)))
        return RoleProbe(self._settings, self._access.of(self._proxy or NoCredentials(), role.name))

    async def _read_grants(self, namespace: str) -> None:
        """Which roles have permissions on single topics: the bridge's own role may see that."""
        found, now = self._grants.get(namespace), loop_time()
        if found is not None and now - found.read_at < _GRANTS_SECONDS:
            return
        try:
            policies = await self._admin.namespace_policies(namespace)
        except AdminError as error:
            _log.warning("! pulsar permissions not read", extra={"reason": str(error)})
            self._grants[namespace] = _Grants(now, {} if found is None else found.of_topics)
            return
        self._grants[namespace] = _Grants(now, (policies.get("auth_policies") or {}).get("destination_auth") or {})

    def _topics_of(self, role: Role, namespace: str) -> list[str]:
        grants = self._grants.get(namespace)
        if grants is None:
            return []
        found = (topic for topic, roles in grants.of_topics.items() if "consume" in (roles.get(role.name) or ()))
        return list(islice(found, _MAX_TOPICS))
