"""Decides by access control entries, as Kafka's StandardAuthorizer does.

Rules:

1. A super user may do everything.
2. Of the entries that apply to the resource and to the client, one that denies the operation, or all, decides.
3. Else one that allows the operation, or all, or an operation that implies it.
4. Else the client may not; where no entry of any client applies to the resource, `allow_if_no_entry` decides.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from bridge.security.acls import (
    ALL_USERS,
    CLUSTER,
    IMPLIED_BY,
    SUPPORTED,
    WILDCARD,
    AccessControlEntry,
    Operation,
    Permission,
    Resource,
    ResourceType,
)
from bridge.security.quotas.entities import address

MAX_DECISIONS: Final = 50_000
"""So many are remembered: those of some hundred clients on some hundred topics."""
MAX_ENTRIES: Final = 20_000
"""More are not taken: each node has all of them in memory, some hundred bytes each."""

_LONGEST_REMEMBERED: Final = 249
"""Characters of a name: of a topic. Clients may ask for longer ones."""
_ANY_NAME: Final = "hardcode"
"""A resource's name that Kafka asks for where it has none: so that super users, and defaults, are asked."""


class _Patterns:
    """The entries of one resource type, by name."""

    def __init__(self) -> None:
        self.literal: defaultdict[str, list[AccessControlEntry]] = defaultdict(list)
        self.prefixed: defaultdict[str, list[AccessControlEntry]] = defaultdict(list)
        self.lengths: list[int] = []

    def add(self, entry: AccessControlEntry) -> None:
        (self.literal if entry.is_literal else self.prefixed)[entry.name].append(entry)

    def close(self) -> None:
        """No more come."""
        self.lengths = sorted({len(prefix) for prefix in self.prefixed})

    def applying_to(self, name: str) -> Iterator[AccessControlEntry]:
        for literal in {name, WILDCARD}:
            yield from self.literal.get(literal, ())
        for length in self.lengths:
            if length > len(name):
                return
            yield from self.prefixed.get(name[:length], ())

    def prefixes_of(self, name: str) -> Iterator[str]:
        return (name[:length] for length in self.lengths if length <= len(name))


class Authorizer:
    """Made of all entries, again when they change; what was decided before is forgotten with it."""

    def __init__(
        self,
        entries: Iterable[AccessControlEntry] = (),
        super_users: Iterable[str] = (),
        *,
        allow_if_no_entry: bool = False,
    ) -> None:
        """`super_users`: principals such as `User:admin`."""
        self.super_users = frozenset(super_users)
        self.allow_if_no_entry = allow_if_no_entry
        self._patterns: dict[ResourceType, _Patterns] = {kind: _Patterns() for kind in SUPPORTED}
        self._by_address: set[str] = set()  # principals with entries about topics that ask for an address
        for entry in entries:  # Java writes addresses of IPv6 with all their zeros
            self._patterns[entry.resource_type].add(entry._replace(host=address(entry.host) or entry.host))
            if entry.resource_type is ResourceType.TOPIC and entry.host != WILDCARD:
                self._by_address.add(entry.principal)
        for patterns in self._patterns.values():
            patterns.close()
        self._decisions: dict[tuple[str, str, Operation, Resource], bool] = {}

    def allows(self, principal: str, host: str, operation: Operation, resource: Resource) -> bool:
        """Whether a client may do this; `host`: its address as entries write it, without a slash."""
        key = (principal, host, operation, resource)
        found = self._decisions.get(key)
        if found is None:
            if len(self._decisions) >= MAX_DECISIONS:
                self._decisions.clear()
            found = self._decide(principal, host, operation, resource)
            if len(resource.name) <= _LONGEST_REMEMBERED:
                self._decisions[key] = found
        return found

    def viewer(self, principal: str, host: str) -> str:
        """The same for all clients that may do the same with topics."""
        return principal if self._by_address.isdisjoint((principal, ALL_USERS)) else f"{principal} {host}"

    def allows_any(self, principal: str, host: str, operation: Operation, kind: ResourceType) -> bool:
        """Whether a client may do this with any resource of the type (KIP-679): what an entry allows, and none denies.

        Such an entry names the operation itself, or all of them.
        """
        if self.allows(principal, host, operation, Resource(kind, _ANY_NAME)):
            return True
        patterns = self._patterns[kind]
        denied = _Patterns()
        allowed: list[AccessControlEntry] = []
        for entry in _every(patterns):
            if not entry.is_for(principal, host) or entry.operation not in (operation, Operation.ALL):
                continue
            if entry.permission is Permission.ALLOW:
                allowed.append(entry)
            elif entry.is_literal and entry.name == WILDCARD:
                return False
            else:
                denied.add(entry)
        denied.close()
        return any(not _is_denied(entry, denied) for entry in allowed)

    def allowed_operations(self, principal: str, host: str, resource: Resource) -> int:
        """What a client may do with a resource, as the bits of KIP-430."""
        bits = 0
        for operation in SUPPORTED[resource.type]:
            if self.allows(principal, host, operation, resource):
                bits |= 1 << operation
        return bits

    def allows_cluster(self, principal: str, host: str, operation: Operation) -> bool:
        """Whether a client may do this with the cluster."""
        return self.allows(principal, host, operation, CLUSTER)

    def _decide(self, principal: str, host: str, operation: Operation, resource: Resource) -> bool:
        if principal in self.super_users:
            return True
        implied_by = IMPLIED_BY.get(operation, (operation, Operation.ALL))
        has_entry = is_allowed = False
        for entry in self._patterns[resource.type].applying_to(resource.name):
            has_entry = True
            if not entry.is_for(principal, host):
                continue
            if entry.permission is Permission.DENY:
                if entry.operation in (operation, Operation.ALL):
                    return False
            elif entry.operation in implied_by:
                is_allowed = True
        return is_allowed or (not has_entry and self.allow_if_no_entry)


def _every(patterns: _Patterns) -> Iterator[AccessControlEntry]:
    for named in (patterns.literal, patterns.prefixed):
        for entries in named.values():
            yield from entries


def _is_denied(entry: AccessControlEntry, denied: _Patterns) -> bool:
    """Whether whatever the entry allows is denied by another."""
    if entry.is_literal and entry.name == WILDCARD:
        return False
    if entry.is_literal and entry.name in denied.literal:
        return True
    return any(prefix in denied.prefixed for prefix in denied.prefixes_of(entry.name))
