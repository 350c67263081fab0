"""Whether a client may do something, decided by the permissions of its principal in Pulsar."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Final

from bridge.access.pulsar_permissions.answers import Answers
from bridge.access.pulsar_permissions.questions import AskedPlace, Need, Question
from bridge.access.pulsar_permissions.roles import Role, Roles
from bridge.config import STATE_PREFIX, PulsarSettings
from bridge.pulsar import Access, Admin, AdminError
from bridge.pulsar.admin import Conflict
from bridge.pulsar.auth import Destination, RoleAccess
from bridge.pulsar.auth.credentials import StaticToken, TokenFile
from bridge.pulsar.role_name import RightUnknown
from bridge.pulsar.role_probe import RoleProbe
from bridge.runtime.futures import Cached
from bridge.security.acls import Operation, Resource, ResourceType
from bridge.telemetry import log
from bridge.telemetry.metrics import PermissionMetrics, PulsarMetrics

_log = log.get(__name__)

EXISTING: Final = f"{STATE_PREFIX}permissions"
"""A topic without records in each namespace that clients work in: who may do something with it, may with all topics."""
_MAX_TOPICS: Final = 16
"""That a role has permissions of its own on, and that are asked about for the sake of its groups."""
_GRANTS_SECONDS: Final = 5.0
_THERE_SECONDS: Final = 600.0


class _Grants:
    """Which roles have permissions on single topics of a namespace: the bridge's own role may see that."""

    def __init__(self, admin: Admin, namespace: str) -> None:
        self._admin = admin
        self._namespace = namespace
        self._of_roles: Mapping[str, list[str]] = {}
        self._cached = Cached(self._ask, _GRANTS_SECONDS)

    @property
    def are_current(self) -> bool:
        """Whether what they do not name is refused without another look."""
        return self._cached.is_current

    def topics_of(self, role: Role) -> Sequence[str]:
        """Full names of topics that the role may consume from by name, as they were read last."""
        return self._of_roles.get(role.name, ())

    async def read(self) -> None:
        """Read them, if they are not current; one read for all who wait. Without an answer the last ones stay."""
        await self._cached.get()

    async def _ask(self) -> None:
        try:
            policies = await self._admin.namespace_policies(self._namespace)
        except AdminError as error:
            _log.warning("! pulsar permissions not read", extra={"reason": str(error)})
            return
        self._of_roles = _consumers((policies.get("auth_policies") or {}).get("destination_auth") or {})


class PulsarPermissions:
    """Asks Pulsar in the name of each role, and remembers what it says for a bounded time (`answers`)."""

    def __init__(self, settings: PulsarSettings, access: Access, admin: Admin, metrics: PermissionMetrics) -> None:
        self._destination = Destination(settings, access.hosts)
        self._admin = admin
        self._there: dict[str, Cached[None]] = {}
        """That the topic is there by which a namespace is asked about."""
        self._places: dict[str, AskedPlace] = {}
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

    async def log_in(self, role: Role, *, is_proven: bool) -> bool:
        """Whether Pulsar takes the role's token, asked now; RightUnknown.

        `is_proven`: that it is this role's is known. Else Pulsar has to say so: that it takes a token says nothing of a
        claim in it.
        """
        return await self._roles.ask(role, lambda probe: probe.log_in() if is_proven else probe.is_called(role.name))

    def known(self, role: Role, operation: Operation, resource: Resource, namespace: str) -> bool | None:
        """Whether the role may, if that needs no waiting."""
        place = self._place(namespace)
        if resource.type is not ResourceType.GROUP:
            return self._known(role, place.needs(operation, resource))
        grants = self._grants_in(namespace)
        answer = self._known(role, place.needs(operation, resource, grants.topics_of(role)))
        # the namespace's answer comes first: until the topics' grants are read too, it is not the whole answer
        return None if answer is False and not grants.are_current else answer

    async def allows(self, role: Role, operation: Operation, resource: Resource, namespace: str) -> bool:
        """Whether the role may; NoAnswer if Pulsar does not say."""
        if not self.can_ask_about(role):
            return False
        place = self._place(namespace)
        if await self._met(role, place.needs(operation, resource)):
            return True
        if resource.type is not ResourceType.GROUP:
            return False
        grants = self._grants_in(namespace)
        await grants.read()
        return await self._met(role, place.needs(operation, resource, grants.topics_of(role)))

    def _place(self, namespace: str) -> AskedPlace:
        found = self._places.get(namespace)
        if found is None:
            found = self._places[namespace] = AskedPlace(namespace, EXISTING)
        return found

    def _grants_in(self, namespace: str) -> _Grants:
        found = self._grants.get(namespace)
        if found is None:
            found = self._grants[namespace] = _Grants(self._admin, namespace)
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

    async def _ask(self, key: tuple[Role, Question]) -> bool | None:
        role, (right, topic, subscription) = key
        namespace = topic.partition("://")[2].rpartition("/")[0]
        if namespace not in self._there:
            self._there[namespace] = Cached(partial(self._make, f"persistent://{namespace}/{EXISTING}"), _THERE_SECONDS)
        await self._there[namespace].get()
        return await self._roles.ask(role, lambda probe: probe.may(right, topic, subscription))

    async def _make(self, topic: str) -> None:
        try:
            await self._admin.create_partitioned(topic, 1)
        except Conflict:
            pass
        except AdminError as error:
            raise RightUnknown(f"{topic} cannot be made: {error}") from None

    def _probe(self, role: Role) -> RoleProbe:
        if role.token is not None:
            return RoleProbe(RoleAccess(self._destination, StaticToken(role.token)))
        assert self._proxy is not None  # noqa: S101 - `can_ask_about` says so
        return RoleProbe(RoleAccess(self._destination, self._proxy, role.name))


def _consumers(grants: Mapping[str, Mapping[str, Collection[str]]]) -> dict[str, list[str]]:
    """For each role the first topics that it may consume from; `grants`: actions by topic and role."""
    found: dict[str, list[str]] = {}
    for topic, roles in grants.items():
        for role, actions in roles.items():
            if "consume" in (actions or ()) and len(topics := found.setdefault(role, [])) < _MAX_TOPICS:
                topics.append(topic)
    return found
