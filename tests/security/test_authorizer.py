"""What entries allow, beside a reading of Kafka's rules that is as plain as it can be."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.security import authorizer
from bridge.security.acls import (
    ALL_USERS,
    CLUSTER,
    IMPLIED_BY,
    SUPPORTED,
    AccessControlEntry,
    Operation,
    PatternType,
    Permission,
    Resource,
    ResourceType,
    valid_entry,
)
from bridge.security.authorizer import Authorizer

ALICE, BOB, HERE, THERE = "User:alice", "User:bob", "10.0.0.1", "10.0.0.2"
NAMES = ("*", "a", "ab", "abc", "b")


def entry(
    operation: Operation,
    permission: Permission = Permission.ALLOW,
    name: str = "abc",
    pattern: PatternType = PatternType.LITERAL,
    principal: str = ALICE,
    host: str = "*",
) -> AccessControlEntry:
    return valid_entry(ResourceType.TOPIC, name, pattern, principal, host, operation, permission)


TOPIC = Resource(ResourceType.TOPIC, "abc")
ENTRIES = st.builds(
    entry,
    st.sampled_from([Operation.ALL, Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALTER_CONFIGS]),
    st.sampled_from([Permission.ALLOW, Permission.DENY]),
    st.sampled_from(NAMES),
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    st.sampled_from([ALICE, ALL_USERS, BOB]),
    st.sampled_from(["*", HERE, THERE]),
)


def plainly(entries: Sequence[AccessControlEntry], operation: Operation, name: str) -> bool:
    """What StandardAuthorizer says for alice at HERE: the documentation's sentences."""
    relevant = [
        one
        for one in entries
        if (one.name in (name, "*") if one.pattern_type == PatternType.LITERAL else name.startswith(one.name))
        and one.principal in (ALICE, ALL_USERS)
        and one.host in (HERE, "*")
    ]
    if any(one.permission == Permission.DENY and one.operation in (operation, Operation.ALL) for one in relevant):
        return False
    enough = {operation, Operation.ALL} | IMPLIED_BY.get(operation, frozenset())
    return any(one.permission == Permission.ALLOW and one.operation in enough for one in relevant)


@given(st.lists(ENTRIES, max_size=12), st.sampled_from(SUPPORTED[ResourceType.TOPIC]), st.sampled_from(NAMES[1:]))
def test_it_decides_as_the_plain_rules(entries: list[AccessControlEntry], operation: Operation, name: str) -> None:
    one = Authorizer(entries)
    resource = Resource(ResourceType.TOPIC, name)
    for _ in range(2):  # the second time from memory
        assert one.allows(ALICE, HERE, operation, resource) == plainly(entries, operation, name)


@given(st.lists(ENTRIES, max_size=12))
def test_any_topic_is_allowed_only_where_one_is(entries: list[AccessControlEntry]) -> None:
    allowed = Authorizer(entries).allows_any(ALICE, HERE, Operation.WRITE, ResourceType.TOPIC)
    names = [*NAMES, "abcd", "bb", "*z", "zz"]  # one at least for each set of patterns
    expected = any(plainly(entries, Operation.WRITE, name) for name in names)
    assert allowed or not expected
    # each allowing entry is looked at as a whole, as by Kafka: names that are denied one by one do not add up to it
    assert expected or not allowed or any(one.permission is Permission.DENY for one in entries)


@given(st.lists(ENTRIES, max_size=6))
def test_a_super_user_may_do_all(entries: list[AccessControlEntry]) -> None:
    one = Authorizer(entries, [ALICE])
    assert all(one.allows(ALICE, HERE, operation, TOPIC) for operation in SUPPORTED[ResourceType.TOPIC])
    assert one.allows_any(ALICE, HERE, Operation.WRITE, ResourceType.TOPIC)
    assert one.allows_cluster(ALICE, HERE, Operation.ALTER)


def test_what_has_no_entry_is_denied_unless_it_is_said_otherwise() -> None:
    assert not Authorizer().allows(ALICE, HERE, Operation.READ, TOPIC)
    assert Authorizer(allow_if_no_entry=True).allows(ALICE, HERE, Operation.READ, TOPIC)
    another = [entry(Operation.READ, principal=BOB)]
    assert not Authorizer(another, allow_if_no_entry=True).allows(ALICE, HERE, Operation.READ, TOPIC)


def test_denials_imply_nothing() -> None:
    entries = [entry(Operation.READ), entry(Operation.WRITE, Permission.DENY)]
    assert Authorizer(entries).allows(ALICE, HERE, Operation.DESCRIBE, TOPIC)


@pytest.mark.parametrize(
    ("entries", "allowed"),
    [
        ([], False),
        ([entry(Operation.WRITE)], True),
        ([entry(Operation.ALL)], True),
        ([entry(Operation.READ)], False),
        ([entry(Operation.WRITE, principal=BOB)], False),
        ([entry(Operation.WRITE, host=THERE)], False),
        ([entry(Operation.WRITE), entry(Operation.WRITE, Permission.DENY, "*")], False),
        ([entry(Operation.WRITE), entry(Operation.ALL, Permission.DENY, "ab", PatternType.PREFIXED)], False),
        ([entry(Operation.WRITE), entry(Operation.WRITE, Permission.DENY)], False),
        ([entry(Operation.WRITE, name="*"), entry(Operation.WRITE, Permission.DENY)], True),
        (
            [
                entry(Operation.WRITE, name="ab", pattern=PatternType.PREFIXED),
                entry(Operation.WRITE, Permission.DENY, "abc", PatternType.PREFIXED),
            ],
            True,
        ),
    ],
)
def test_any_topic(entries: list[AccessControlEntry], allowed: bool) -> None:
    assert Authorizer(entries).allows_any(ALICE, HERE, Operation.WRITE, ResourceType.TOPIC) is allowed


def test_allowed_operations_are_bits() -> None:
    entries = [entry(Operation.READ), entry(Operation.ALTER_CONFIGS)]
    bits = Authorizer(entries).allowed_operations(ALICE, HERE, TOPIC)
    expected = (Operation.READ, Operation.DESCRIBE, Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS)
    assert bits == sum(1 << operation for operation in expected)
    assert Authorizer((), [ALICE]).allowed_operations(ALICE, HERE, CLUSTER) == sum(
        1 << operation for operation in SUPPORTED[ResourceType.CLUSTER]
    )


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authorizer, "MAX_DECISIONS", 10)
    one = Authorizer([entry(Operation.READ, name="*")])
    for number in range(25):
        assert one.allows(ALICE, HERE, Operation.READ, Resource(ResourceType.TOPIC, f"t{number}"))
        assert one.allows(ALICE, HERE, Operation.READ, Resource(ResourceType.TOPIC, f"{number}" * 300))
    remembered = list(one._decisions)
    assert len(remembered) <= 10
    assert all(len(resource.name) <= 249 for *_, resource in remembered)


@pytest.mark.parametrize(
    ("written", "peer"),
    [("0:0:0:0:0:0:0:1", "::1"), ("2001:DB8::1", "2001:db8::1"), ("::ffff:10.0.0.1", "10.0.0.1"), ("host", "host")],
)
def test_an_address_is_the_same_however_it_is_written(written: str, peer: str) -> None:
    denied = Authorizer([entry(Operation.READ, Permission.DENY, host=written), entry(Operation.READ)])
    assert not denied.allows(ALICE, peer, Operation.READ, TOPIC)
    assert denied.allows(ALICE, "10.9.9.9", Operation.READ, TOPIC)
