"""`bridge acl`: lists, adds and removes ACLs."""

import argparse
import json
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from bridge.cli.kafka.endpoint import SECONDS, Endpoint, KafkaFailed, result
from bridge.cli.table import table
from bridge.errors import SettingsError

_HEAD = ("resource", "name", "pattern", "principal", "host", "operation", "permission")
_CLUSTER = "kafka-cluster"


def run(options: argparse.Namespace) -> int:
    """Do what `options.action` says; the exit code."""
    endpoint = Endpoint(options)
    with endpoint.told():
        return _ACTIONS[options.action](endpoint.admin, options)


def _list(admin: AdminClient, options: argparse.Namespace) -> int:
    permission = AclPermissionType.DENY if options.deny else AclPermissionType.ANY
    found = result(admin.describe_acls(_filter(options, AclOperation.ANY, permission), request_timeout=SECONDS))
    rows = sorted(_row(one) for one in found)
    if options.json:
        print(json.dumps({"acls": [dict(zip(_HEAD, row, strict=True)) for row in rows]}, indent=1))
    else:
        print(*table(_HEAD, rows), sep="\n")
    return 0


def _add(admin: AdminClient, options: argparse.Namespace) -> int:
    kind, name, pattern = _resource(options)
    if kind is ResourceType.ANY:
        raise SettingsError("of what? --topic, --group, --transactional-id or --cluster")
    host, permission = options.host or "*", AclPermissionType.DENY if options.deny else AclPermissionType.ALLOW
    acls = [AclBinding(kind, name, pattern, options.principal, host, one, permission) for one in _operations(options)]
    for acl, future in admin.create_acls(acls, request_timeout=SECONDS).items():
        result(future, " ".join(_row(acl)))
        print(*_row(acl), "added")
    return 0


def _remove(admin: AdminClient, options: argparse.Namespace) -> int:
    # without --deny what allows, as kafka-acls.sh has it: a denial that is gone unasked lets its client in
    permission = AclPermissionType.DENY if options.deny else AclPermissionType.ALLOW
    asked = [_filter(options, one, permission) for one in _operations(options) or [AclOperation.ANY]]
    gone = [acl for future in admin.delete_acls(asked, request_timeout=SECONDS).values() for acl in result(future)]
    if not gone:
        raise KafkaFailed(f"there is no such ACL that {'denies' if options.deny else 'allows'}")
    for acl in gone:
        print(*_row(acl), "removed")
    return 0


def _filter(options: argparse.Namespace, operation: AclOperation, permission: AclPermissionType) -> AclBindingFilter:
    kind, name, pattern = _resource(options)
    return AclBindingFilter(kind, name, pattern, options.principal, options.host, operation, permission)


def _resource(options: argparse.Namespace) -> tuple[ResourceType, str | None, ResourcePatternType]:
    pattern = ResourcePatternType.PREFIXED if options.prefixed else ResourcePatternType.LITERAL
    if options.topic is not None:
        return ResourceType.TOPIC, options.topic, pattern
    if options.group is not None:
        return ResourceType.GROUP, options.group, pattern
    if options.transactional_id is not None:
        return ResourceType.TRANSACTIONAL_ID, options.transactional_id, pattern
    if options.cluster:
        return ResourceType.BROKER, _CLUSTER, ResourcePatternType.LITERAL  # librdkafka's name for the cluster
    return ResourceType.ANY, None, ResourcePatternType.ANY


def _operations(options: argparse.Namespace) -> list[AclOperation]:
    return [AclOperation[one.upper().replace("-", "_")] for one in options.operation]


def _row(acl: Any) -> tuple[str, ...]:
    kind = "cluster" if acl.restype is ResourceType.BROKER else acl.restype.name.lower()
    words = (acl.operation.name, acl.permission_type.name)
    pattern = acl.resource_pattern_type.name.lower()
    return (kind, acl.name, pattern, acl.principal, acl.host, *(word.lower() for word in words))


_ACTIONS = {"list": _list, "add": _add, "remove": _remove}
