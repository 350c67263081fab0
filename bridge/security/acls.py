"""Access control entries as Kafka has them (KIP-11, KIP-140, KIP-290): what they say, and which a filter finds.

The numbers are those of the protocol (AclOperation, ResourceType, PatternType, AclPermissionType).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple, TypeVar

_E = TypeVar("_E", bound=IntEnum)

CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""
WILDCARD: Final = "*"
"""Every resource, as the name of a literal pattern; every address, as a host."""
ALL_USERS: Final = "User:*"
MAX_NAME_BYTES: Final = 1024
"""Of a resource's name, a principal and a host: entries are kept in memory by every node."""


class ResourceType(IntEnum):
    """The type of resource that an entry is about."""

    ANY = 1
    """In filters alone."""
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How the name in an entry is meant."""

    ANY = 1
    """In filters alone."""
    MATCH = 2
    """In filters alone: all patterns that apply to a resource of this name."""
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """What an entry allows or denies."""

    ANY = 1
    """In filters alone."""
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class Permission(IntEnum):
    """Whether an entry allows or denies."""

    ANY = 1
    """In filters alone."""
    DENY = 2
    ALLOW = 3


class Resource(NamedTuple):
    """One topic, group, transactional id, user or the cluster."""

    type: ResourceType
    name: str


CLUSTER: Final = Resource(ResourceType.CLUSTER, CLUSTER_NAME)

_CONFIGS = (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)
SUPPORTED: Final = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DESCRIBE,
        Operation.DELETE,
        Operation.ALTER,
        *_CONFIGS,
    ),
    ResourceType.GROUP: (Operation.READ, Operation.DESCRIBE, Operation.DELETE, *_CONFIGS),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.CLUSTER_ACTION,
        *_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
        Operation.ALTER,
        Operation.DESCRIBE,
    ),
    ResourceType.TRANSACTIONAL_ID: (Operation.DESCRIBE, Operation.WRITE),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""What there is to be allowed of each type (AclEntry.supportedOperations). Entries may name others, to no effect."""

IMPLIED_BY: Final = {
    Operation.DESCRIBE: frozenset(
        {Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER, Operation.ALL}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({*_CONFIGS, Operation.ALL}),
}
"""Who is allowed one of these operations may do the key's as well; denials imply nothing."""


class InvalidAcl(ValueError):
    """No entry can be like that; the text is for the client."""


class AccessControlEntry(NamedTuple):
    """Who may do what with which resources, or may not: a binding in Kafka's words."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType
    principal: str
    """`User:alice`; of all principals of the type User: `User:*`."""
    host: str
    """The client's address, or `*`."""
    operation: Operation
    permission: Permission

    @property
    def is_literal(self) -> bool:
        """Whether the name is that of one resource, or of all."""
        return self.pattern_type is PatternType.LITERAL

    def applies_to(self, name: str) -> bool:
        """Whether it is about a resource of this name, its type taken for granted."""
        return self.name in (name, WILDCARD) if self.is_literal else name.startswith(self.name)

    def is_for(self, principal: str, host: str) -> bool:
        """Whether it is about this client."""
        return self.principal in (principal, ALL_USERS) and self.host in (host, WILDCARD)


@dataclass(frozen=True, slots=True)
class AclFilter:
    """Which entries are meant; None and ANY: whatever it is."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def matches(self, entry: AccessControlEntry) -> bool:
        """Whether the entry is meant."""
        return (
            self.resource_type in (ResourceType.ANY, entry.resource_type)
            and self._matches_name(entry)
            and self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (Operation.ANY, entry.operation)
            and self.permission in (Permission.ANY, entry.permission)
        )

    def found(self, entries: Iterable[AccessControlEntry]) -> list[AccessControlEntry]:
        """Those that are meant."""
        return [entry for entry in entries if self.matches(entry)]

    def _matches_name(self, entry: AccessControlEntry) -> bool:
        if self.pattern_type is PatternType.MATCH:
            return self.name is None or entry.applies_to(self.name)
        return self.pattern_type in (PatternType.ANY, entry.pattern_type) and self.name in (None, entry.name)


def valid_entry(
    resource_type: int, name: str, pattern_type: int, principal: str, host: str, operation: int, permission: int
) -> AccessControlEntry:
    """The entry that a client wants; InvalidAcl says what is wrong with it."""
    entry = AccessControlEntry(
        _member(ResourceType, resource_type, "resource type"),
        name,
        _member(PatternType, pattern_type, "pattern type"),
        principal,
        host,
        _member(Operation, operation, "operation"),
        _member(Permission, permission, "permission type"),
    )
    if entry.pattern_type is PatternType.MATCH:
        raise InvalidAcl("the pattern type MATCH is for filters alone")
    _check_texts(entry)
    if entry.resource_type is ResourceType.CLUSTER and (name != CLUSTER_NAME or not entry.is_literal):
        raise InvalidAcl(f"the only cluster resource is {CLUSTER_NAME}, with a literal pattern")
    return entry


def valid_filter(
    resource_type: int,
    name: str | None,
    pattern_type: int,
    principal: str | None,
    host: str | None,
    operation: int,
    permission: int,
) -> AclFilter:
    """The filter that a client sends; InvalidAcl for numbers that mean nothing."""
    return AclFilter(
        _number(ResourceType, resource_type, "resource type"),
        name,
        _number(PatternType, pattern_type, "pattern type"),
        principal,
        host,
        _number(Operation, operation, "operation"),
        _number(Permission, permission, "permission type"),
    )


def _number(kind: type[_E], number: int, what: str) -> _E:
    try:
        return kind(number)
    except ValueError:
        raise InvalidAcl(f"unknown {what} {number}") from None


def _member(kind: type[_E], number: int, what: str) -> _E:
    """What an entry may have: ANY is for filters."""
    found = _number(kind, number, what)
    if found.name == "ANY":
        raise InvalidAcl(f"the {what} ANY is for filters alone")
    return found


def _check_texts(entry: AccessControlEntry) -> None:
    kind, colon, who = entry.principal.partition(":")
    if not kind or not colon or not who:
        raise InvalidAcl("a principal is like User:alice")
    for what, text in (("resource name", entry.name), ("principal", entry.principal), ("host", entry.host)):
        if not text:
            raise InvalidAcl(f"the {what} is empty")
        if len(text.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES:
            raise InvalidAcl(f"the {what} is longer than {MAX_NAME_BYTES} bytes")
        if any(ord(character) < 0x20 for character in text):
            raise InvalidAcl(f"the {what} has control characters")
