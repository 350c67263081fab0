"""CreateAcls, DescribeAcls, DeleteAcls with an authorizer, as confluent-kafka and raw requests ask."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from bridge.apis import create_acls, delete_acls, describe_acls
from bridge.kafka.error_codes import ErrorCode
from bridge.security.acls import Operation
from bridge.security.acls import Resource as Wanted
from bridge.security.acls import ResourceType as Kind
from tests.apis.wire import ask
from tests.support.bridges import BridgeThread, settings_for, started_nodes
from tests.support.pulsar import PulsarAddress

READ, WRITE = AclOperation.READ, AclOperation.WRITE
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
ORDERS = Wanted(Kind.TOPIC, "orders")


@pytest.fixture
def nodes(pulsar: PulsarAddress) -> Iterator[list[BridgeThread]]:
    """Any client administers them, for none logs in."""
    kafka = {"authorizer": "kafka", "super_users": "User:root;User:ANONYMOUS"}
    settings = settings_for(pulsar, pulsar.create_namespace(), {"kafka": kafka})
    with started_nodes(settings) as started:
        yield started


def binding(name: str, principal: str, operation: Any = READ, permission: Any = ALLOW) -> Any:
    return AclBinding(ResourceType.TOPIC, name, ResourcePatternType.LITERAL, principal, "*", operation, permission)


def every(principal: str | None = None) -> Any:
    return AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, principal, None, AclOperation.ANY, AclPermissionType.ANY
    )


def allows(node: BridgeThread, principal: str) -> bool:
    store = node.server.security
    assert store.authorizes

    async def caught_up() -> bool:
        await store.catch_up()
        return store.authorizer.allows(principal, "127.0.0.1", Operation.READ, ORDERS)

    return node.call(caught_up())


def test_entries_are_created_listed_and_deleted_and_all_nodes_decide_by_them(nodes: list[BridgeThread]) -> None:
    one, two = (AdminClient({"bootstrap.servers": node.kafka}) for node in nodes)
    wanted = [binding("orders", "User:alice"), binding("orders", "User:bob", permission=DENY), binding("x", "User:*")]
    for future in one.create_acls(wanted).values():
        future.result(30)
    for future in two.create_acls(wanted[:1]).values():  # it is there
        future.result(30)
    assert [allows(node, "User:alice") for node in nodes] == [True, True]
    assert [allows(node, "User:bob") for node in nodes] == [False, False]
    assert [allows(node, "User:root") for node in nodes] == [True, True]
    assert sorted(map(str, two.describe_acls(every()).result(30))) == sorted(map(str, wanted))
    (deleted,) = (future.result(30) for future in two.delete_acls([every("User:alice")]).values())
    assert list(map(str, deleted)) == [str(wanted[0])]
    assert [allows(node, "User:alice") for node in nodes] == [False, False]


def _creation(**changed: Any) -> Any:
    values: dict[str, Any] = {
        "resource_type": 2, "resource_name": "orders", "resource_pattern_type": 3, "principal": "User:alice",
        "host": "*", "operation": 3, "permission_type": 3,
    }  # fmt: skip
    return create_acls.Creation(**(values | changed))


def _filter(kind: Any, **changed: Any) -> Any:
    values = {
        "resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1, "principal_filter": None,
        "host_filter": None, "operation": 1, "permission_type": 1,
    }  # fmt: skip
    return kind(**(values | changed))


def test_what_is_wrong_is_told_of_each_and_the_rest_is_done(nodes: list[BridgeThread]) -> None:
    node = nodes[0]
    creations = [_creation(operation=1), _creation(), _creation(principal="alice"), _creation(resource_type=99)]
    results = ask(node, create_acls.API, create_acls.Request(creations=creations)).results
    assert [one.error_code for one in results] == [ErrorCode.INVALID_REQUEST, 0] + [ErrorCode.INVALID_REQUEST] * 2
    described = ask(node, describe_acls.API, _filter(describe_acls.Request, operation=0))
    assert described.error_code == ErrorCode.INVALID_REQUEST
    described = ask(node, describe_acls.API, _filter(describe_acls.Request))
    assert [(one.resource_name, len(one.acls)) for one in described.resources] == [("orders", 1)]
    every_entry = _filter(delete_acls.Filter)
    filters = [_filter(delete_acls.Filter, permission_type=77), every_entry, every_entry]
    found = ask(node, delete_acls.API, delete_acls.Request(filters=filters)).filter_results
    assert [one.error_code for one in found] == [ErrorCode.INVALID_REQUEST, 0, 0]
    assert [len(one.matching_acls) for one in found] == [0, 1, 1]
    many = create_acls.Request(creations=[_creation()] * (create_acls.MAX_CREATIONS + 1))
    assert {one.error_code for one in ask(node, create_acls.API, many).results} == {ErrorCode.INVALID_REQUEST}
    filters = [every_entry] * (delete_acls.MAX_FILTERS + 1)
    found = ask(node, delete_acls.API, delete_acls.Request(filters=filters)).filter_results
    assert {one.error_code for one in found} == {ErrorCode.INVALID_REQUEST}
