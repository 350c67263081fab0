"""The principals of the matrix: each has one set of access control entries, and is named after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bridge.security.acls import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType

MINE = "mine-"
"""How the names of the resources begin that the entries are about. Those of `other-` are there as well."""
SUPER = "super"
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
CLUSTER, TRANSACTIONAL_ID = ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID
TYPES = (TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID)
OPERATIONS = [
    Operation.ALL, Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE, Operation.ALTER,
    Operation.DESCRIBE, Operation.CLUSTER_ACTION, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS,
    Operation.IDEMPOTENT_WRITE,
]  # fmt: skip
"""Kafka takes entries with each of them for each type, also where no API asks for it."""
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = Permission.ALLOW, Permission.DENY


class Entry(NamedTuple):
    """An access control entry without its principal."""

    type: ResourceType
    operation: Operation
    permission: Permission = ALLOW
    name: str = MINE
    pattern: PatternType = PREFIXED
    host: str = "*"


@dataclass(frozen=True, slots=True)
class Right:
    """A principal; `address`: where its client connects from."""

    name: str
    entries: Sequence[Entry] = ()
    address: str = "127.0.0.1"


def _entry(kind: ResourceType, operation: Operation, permission: Permission = ALLOW) -> Entry:
    if kind is CLUSTER:  # there is one cluster, and its pattern is always literal
        return Entry(kind, operation, permission, CLUSTER_NAME, LITERAL)
    return Entry(kind, operation, permission)


def _all_but(kind: ResourceType) -> list[Entry]:
    return [_entry(other, Operation.ALL) for other in TYPES if other is not kind]


def _each() -> Iterator[Right]:
    """Each operation of each type: alone; with everything of the other types; denied, with all else allowed."""
    for kind in TYPES:
        yield Right(f"all-but-{kind.name}", _all_but(kind))
        for operation in OPERATIONS:
            named = f"{kind.name}-{operation.name}"
            yield Right(f"only-{named}", [_entry(kind, operation)])
            yield Right(f"rest-and-{named}", [*_all_but(kind), _entry(kind, operation)])
            everything = [_entry(one, Operation.ALL) for one in TYPES]
            yield Right(f"deny-{named}", [*everything, _entry(kind, operation, DENY)])


def _topic(operation: Operation, name: str, pattern: PatternType, permission: Permission = ALLOW) -> list[Entry]:
    return [Entry(TOPIC, operation, permission, name, pattern), *_all_but(TOPIC)]


def _patterns() -> Iterator[Right]:
    """What literal, prefixed and wildcard patterns are about, and which of them wins."""
    everything, write = Operation.ALL, Operation.WRITE
    for operation in (everything, write):
        named = f"TOPIC-{operation.name}"
        yield Right(f"literal-{named}", _topic(operation, "mine-topic", LITERAL))
        yield Right(f"every-{named}", _topic(operation, "*", LITERAL))
        yield Right(f"longer-prefix-{named}", _topic(operation, "mine-topic-and-more", PREFIXED))
        yield Right(f"prefix-is-name-{named}", _topic(operation, "mine-topic", PREFIXED))
        allowed = [*_all_but(TOPIC), _entry(TOPIC, operation)]
        every = _topic(operation, "*", LITERAL)
        for what, denied in {
            "literal": Entry(TOPIC, operation, DENY, "mine-topic", LITERAL),
            "prefix": Entry(TOPIC, operation, DENY, "mine", PREFIXED),
            "every": Entry(TOPIC, operation, DENY, "*", LITERAL),
            "longer-prefix": Entry(TOPIC, operation, DENY, "mine-topic", PREFIXED),
        }.items():
            yield Right(f"prefix-but-{what}-{named}", [*allowed, denied])
            yield Right(f"every-but-{what}-{named}", [*every, denied])
    yield Right("every-GROUP-ALL", [*_all_but(GROUP), Entry(GROUP, everything, name="*", pattern=LITERAL)])
    yield Right("wildcard-prefix", _topic(everything, "*", PREFIXED))


def _hosts() -> Iterator[Right]:
    """Where the client may come from."""
    everything = [_entry(one, Operation.ALL) for one in TYPES]
    here = [one._replace(host="127.0.0.1") for one in everything]
    yield Right("from-here", here)
    yield Right("from-elsewhere", here, address="127.0.0.2")
    yield Right("from-here-denied", [*everything, *(one._replace(permission=DENY) for one in here)])
    yield Right(
        "from-elsewhere-not-denied", [*everything, *(one._replace(permission=DENY) for one in here)], "127.0.0.2"
    )


NOTHING = Right("nothing")
EVERYTHING = Right("everything", [_entry(one, Operation.ALL) for one in TYPES])
RIGHTS = [NOTHING, Right(SUPER), *_each(), *_patterns(), *_hosts(), EVERYTHING]
"""The last one has entries: when it may, so may all."""
WITHOUT_ENTRIES = [NOTHING, Right(SUPER), *(one for one in RIGHTS if one.name.startswith("only-TOPIC")), EVERYTHING]
"""Of the matrix with `allow_everyone_if_no_acl_found`."""
