"""Entries and filters."""

import pytest

from bridge.security.acls import (
    AccessControlEntry,
    AclFilter,
    InvalidAcl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    valid_entry,
    valid_filter,
)

READ_ORDERS = valid_entry(2, "orders", 3, "User:alice", "*", 3, 3)
WRITE_O = valid_entry(2, "o", 4, "User:*", "10.0.0.1", 4, 2)
ALL_TOPICS = valid_entry(2, "*", 3, "User:bob", "*", 2, 3)


def test_an_entry_says_what_the_client_sent() -> None:
    assert (
        AccessControlEntry(
            ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:alice", "*", Operation.READ, Permission.ALLOW
        )
        == READ_ORDERS
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"resource_type": 0}, "unknown resource type 0"),
        ({"resource_type": 1}, "for filters alone"),
        ({"resource_type": 99}, "unknown resource type 99"),
        ({"name": ""}, "name is empty"),
        ({"name": "x" * 1025}, "longer than 1024 bytes"),
        ({"name": "ä" * 513}, "longer than 1024 bytes"),
        ({"name": "a\r\nb"}, "control characters"),
        ({"pattern_type": 2}, "MATCH"),
        ({"pattern_type": 1}, "for filters alone"),
        ({"pattern_type": 0}, "unknown pattern type"),
        ({"principal": "alice"}, "like User:alice"),
        ({"principal": "User:"}, "like User:alice"),
        ({"principal": ":alice"}, "like User:alice"),
        ({"principal": "User:" + "x" * 1020}, "longer"),
        ({"host": ""}, "host is empty"),
        ({"operation": 1}, "for filters alone"),
        ({"operation": 0}, "unknown operation"),
        ({"permission": 1}, "for filters alone"),
        ({"permission": -1}, "unknown permission"),
        ({"resource_type": 4}, "kafka-cluster"),
        ({"resource_type": 4, "name": "kafka-cluster", "pattern_type": 4}, "literal"),
    ],
)
def test_an_entry_that_cannot_be_is_refused_in_words(change: dict[str, object], words: str) -> None:
    fields: dict[str, object] = {
        "resource_type": 2, "name": "orders", "pattern_type": 3, "principal": "User:a", "host": "*", "operation": 3,
        "permission": 3,
    }  # fmt: skip
    with pytest.raises(InvalidAcl, match=words):
        valid_entry(**(fields | change))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("filter_", "found"),
    [
        (AclFilter(), [READ_ORDERS, WRITE_O, ALL_TOPICS]),
        (AclFilter(name="orders"), [READ_ORDERS]),
        (AclFilter(name="orders", pattern_type=PatternType.MATCH), [READ_ORDERS, WRITE_O, ALL_TOPICS]),
        (AclFilter(name="other", pattern_type=PatternType.MATCH), [WRITE_O, ALL_TOPICS]),
        (AclFilter(name="zebra", pattern_type=PatternType.MATCH), [ALL_TOPICS]),
        (AclFilter(pattern_type=PatternType.MATCH), [READ_ORDERS, WRITE_O, ALL_TOPICS]),
        (AclFilter(pattern_type=PatternType.PREFIXED), [WRITE_O]),
        (AclFilter(name="o", pattern_type=PatternType.PREFIXED), [WRITE_O]),
        (AclFilter(principal="User:alice"), [READ_ORDERS]),
        (AclFilter(host="10.0.0.1"), [WRITE_O]),
        (AclFilter(operation=Operation.ALL), [ALL_TOPICS]),
        (AclFilter(permission=Permission.DENY), [WRITE_O]),
        (AclFilter(resource_type=ResourceType.GROUP), []),
    ],
)
def test_a_filter_finds_what_it_means(filter_: AclFilter, found: list[AccessControlEntry]) -> None:
    assert filter_.found([READ_ORDERS, WRITE_O, ALL_TOPICS]) == found


def test_a_filter_of_numbers_that_mean_nothing_is_refused() -> None:
    assert valid_filter(1, None, 1, None, None, 1, 1) == AclFilter()
    for numbers in ((0, 1, 1, 1), (1, 0, 1, 1), (1, 1, 0, 1), (1, 1, 1, 0), (1, 9, 1, 1)):
        kind, pattern, operation, permission = numbers
        with pytest.raises(InvalidAcl, match="unknown"):
            valid_filter(kind, None, pattern, None, None, operation, permission)
