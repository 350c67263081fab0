"""Whose a quota is, and which quotas there are: the checks and texts of Kafka's ClientQuotaControlManager."""

import ipaddress
import math
from collections.abc import Iterable
from enum import StrEnum
from typing import Final, TypeAlias

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
TYPES: Final = (USER, CLIENT_ID, IP)
MAX_NAME_CHARACTERS: Final = 1024
"""All nodes keep it in memory."""

Entity: TypeAlias = tuple[tuple[str, str | None], ...]
"""The types with their names, in the types' order; no name: of all that have none of their own."""


class QuotaKey(StrEnum):
    """The name of what a quota limits."""

    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    REQUEST = "request_percentage"
    MUTATION = "controller_mutation_rate"
    CONNECTION = "connection_creation_rate"


class InvalidQuota(ValueError):
    """A quota that cannot be set; the text is Kafka's."""


_OF_CLIENTS: Final = frozenset({QuotaKey.PRODUCE, QuotaKey.FETCH, QuotaKey.REQUEST, QuotaKey.MUTATION})
_OF_ADDRESSES: Final = frozenset({QuotaKey.CONNECTION})
_WHOLE: Final = {
    QuotaKey.PRODUCE: (2**63 - 1, "LONG"),
    QuotaKey.FETCH: (2**63 - 1, "LONG"),
    QuotaKey.CONNECTION: (2**31 - 1, "INT"),
}
_FRACTION: Final = 1e-6


def checked_entity(parts: Iterable[tuple[str, str | None]]) -> Entity:
    """The entity that the parts name; InvalidQuota where there is none."""
    found: dict[str, str | None] = {}
    for kind, name in parts:
        if kind in found:
            raise InvalidQuota(f"Invalid client quota entity, duplicate entity entry {kind}")
        if kind not in TYPES:
            raise InvalidQuota(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise InvalidQuota(f"Empty {kind} not supported")
        if name is not None and len(name) > MAX_NAME_CHARACTERS:
            raise InvalidQuota(f"A {kind} of more than {MAX_NAME_CHARACTERS} characters is not supported")
        found[kind] = name
    if not found:
        raise InvalidQuota("Invalid empty client quota entity")
    if IP in found:
        if len(found) > 1:
            text = "Invalid quota entity combination, IP entity should" + "not be combined with User or ClientId"
            raise InvalidQuota(text)  # as Kafka writes it
        found[IP] = _checked_address(found[IP])
    return tuple(sorted(found.items()))


def _checked_address(name: str | None) -> str | None:
    written = None if name is None else address(name)
    if name is not None and written is None:
        raise InvalidQuota(f"{name} is not a valid IP or resolvable host.")
    return written


def checked_key(entity: Entity, key: str, value: float) -> QuotaKey:
    """The quota that such an entity may have with this value; InvalidQuota if it may not."""
    allowed = _OF_ADDRESSES if entity[0][0] == IP else _OF_CLIENTS
    if key not in allowed:
        raise InvalidQuota(f"Invalid configuration key {key}")
    known = QuotaKey(key)
    if not value > 0:
        raise InvalidQuota(f"Quota {key} must be greater than 0")
    most, kind = _WHOLE.get(known, (0, ""))
    if kind:
        if value > float(most):  # Java compares so: 2^63 is not above a LONG
            raise InvalidQuota(f"Proposed value for {key} is too large for {'an' if kind == 'INT' else 'a'} {kind}.")
        if math.fmod(value, 1.0) > _FRACTION:
            raise InvalidQuota(f"{key} cannot be a fractional value.")
    elif math.isinf(value):
        raise InvalidQuota(f"Proposed value for {key} is too large.")
    return known


def address(text: str) -> str | None:
    """An IP address as all that mean the same are written; None if it is none. Names are not looked up."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return str(mapped or found)
