import pytest

from bridge.access.pulsar_permissions.questions import NEVER, NOTHING, AskedPlace, Question
from bridge.pulsar.role_probe import Right
from bridge.security.acls import CLUSTER, SUPPORTED, Operation, Resource, ResourceType

PLACE = AskedPlace("tenant/ns", "existing")
EXISTING = "persistent://tenant/ns/existing"
TOPIC = "persistent://tenant/ns/orders"


def rights(kind: ResourceType, operation: Operation, name: str = "orders") -> str:
    need = PLACE.needs(operation, Resource(kind, name))
    return " and ".join("/".join(question.right.value for question in questions) for questions in need)


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (Operation.READ, "consume"), (Operation.WRITE, "produce"), (Operation.DESCRIBE, "list/look up"),
        (Operation.CREATE, "create"), (Operation.DELETE, "delete"), (Operation.ALTER, "create and delete"),
        (Operation.DESCRIBE_CONFIGS, "create"), (Operation.ALTER_CONFIGS, "create and delete"),
    ],
)  # fmt: skip
def test_what_a_topic_needs(operation: Operation, expected: str) -> None:
    assert rights(ResourceType.TOPIC, operation) == expected


def test_every_operation_that_there_is_has_an_answer() -> None:
    for kind, operations in SUPPORTED.items():
        for operation in operations:
            PLACE.needs(operation, Resource(kind, "x"))
    assert {
        operation for operation in SUPPORTED[ResourceType.TOPIC] if not rights(ResourceType.TOPIC, operation)
    } == set()


def test_the_cluster_is_the_super_users() -> None:
    for operation in (Operation.ALTER, Operation.ALTER_CONFIGS, Operation.CLUSTER_ACTION):
        assert PLACE.needs(operation, CLUSTER) == NEVER
    assert PLACE.needs(Operation.IDEMPOTENT_WRITE, CLUSTER) == NOTHING
    assert rights(ResourceType.CLUSTER, Operation.CREATE) == "create"
    assert rights(ResourceType.CLUSTER, Operation.DESCRIBE) == "create and delete"
    assert rights(ResourceType.TRANSACTIONAL_ID, Operation.WRITE) == "produce"
    assert PLACE.needs(Operation.CREATE_TOKENS, Resource(ResourceType.USER, "User:a")) == NEVER


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "a/b",
        "persistent://other/ns/t",
        "a%2Fb",
        "a\0b",
        "x" * 250,
        "a-partition-0",
        "__bridge_security",
        "ä",
    ],
)
def test_nothing_is_asked_about_what_is_no_topic(name: str) -> None:
    for operation in SUPPORTED[ResourceType.TOPIC]:
        assert PLACE.needs(operation, Resource(ResourceType.TOPIC, name)) == NEVER


def test_a_group_is_a_subscription() -> None:
    group = Resource(ResourceType.GROUP, "g")
    assert PLACE.needs(Operation.READ, group, [TOPIC]) == (
        (Question(Right.CONSUME, EXISTING, "g"), Question(Right.CONSUME, TOPIC, "g")),
    )
    assert PLACE.needs(Operation.DESCRIBE, group) == PLACE.needs(Operation.DELETE, group)
    for name in ("", "x" * 1025, "a\nb", "a\0", "\ud800"):
        assert PLACE.needs(Operation.READ, Resource(ResourceType.GROUP, name)) == NEVER
