"""Who may do what: ACLs, the users that are kept in Pulsar, quotas. All nodes have the same; none has a secret here."""

from typing import TYPE_CHECKING, Final

from bridge.http.status.table import Row

if TYPE_CHECKING:
    from bridge.http.status.sources import ObservedNode

ACL_COLUMNS: Final = ("principal", "permission", "operation", "type", "resource", "pattern", "host")
USER_COLUMNS: Final = ("name", "mechanisms")
QUOTA_COLUMNS: Final = ("entity", "key", "value")


def acls(node: "ObservedNode") -> list[Row]:
    """One row for each access control entry, in Kafka's words."""
    return [
        {
            "principal": one.principal,
            "permission": one.permission.name,
            "operation": one.operation.name,
            "type": one.resource_type.name,
            "resource": one.name,
            "pattern": one.pattern_type.name,
            "host": one.host,
        }
        for one in (node.security.entries() if node.security.authorizes else ())
    ]


def users(node: "ObservedNode") -> list[Row]:
    """One row for each user."""
    known = node.security.users() if node.security.keeps_users else {}
    return [
        {"name": name, "mechanisms": ", ".join(f"{one.mechanism} ({one.iterations})" for one in credentials)}
        for name, credentials in known.items()
    ]


def quotas(node: "ObservedNode") -> list[Row]:
    """One row for each quota of each entity."""
    return [
        {
            "entity": ", ".join(f"{kind} {'(default)' if name is None else name}" for kind, name in entity),
            "key": key,
            "value": value,
        }
        for (entity, key), value in node.security.quotas().items()
    ]
