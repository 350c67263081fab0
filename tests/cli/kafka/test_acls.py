"""`bridge acl`, against a real bridge."""

import json
from collections.abc import Callable, Iterator

import pytest

from tests.cli.kafka.conftest import Said
from tests.support.bridges import BridgeThread

Run = Callable[..., Said]


@pytest.fixture
def administered(bridge_with: Callable[..., BridgeThread]) -> Iterator[str]:
    """Any client administers it, for none logs in."""
    yield bridge_with(kafka={"authorizer": "kafka", "super_users": "User:ANONYMOUS"}).kafka


def test_entries_are_added_listed_and_removed(administered: str, run: Run) -> None:
    at = ("--bootstrap", administered)
    alice = ("--principal", "User:alice")
    code, lines, _ = run(
        "acl", "add", *alice, "--operation", "read", "--operation", "describe-configs", "--topic", "orders", *at
    )
    assert (code, sorted(lines)) == (0, [
        "topic orders literal User:alice * describe_configs allow added",
        "topic orders literal User:alice * read allow added",
    ])  # fmt: skip
    run("acl", "add", "--principal", "User:bob", "--deny", "--operation", "all", "--group", "b", "--prefixed", *at)
    run("acl", "add", "--principal", "User:bob", "--operation", "alter", "--cluster", *at)
    _, lines, _ = run("acl", "list", "--json", *at)
    told = [tuple(one.values()) for one in json.loads("".join(lines))["acls"]]
    assert told == [
        ("cluster", "kafka-cluster", "literal", "User:bob", "*", "alter", "allow"),
        ("group", "b", "prefixed", "User:bob", "*", "all", "deny"),
        ("topic", "orders", "literal", "User:alice", "*", "describe_configs", "allow"),
        ("topic", "orders", "literal", "User:alice", "*", "read", "allow"),
    ]
    _, lines, _ = run("acl", "list", *alice, "--topic", "orders", *at)
    assert len(lines) == 3
    assert run("acl", "remove", *alice, "--operation", "read", "--topic", "orders", *at)[1] == [
        "topic orders literal User:alice * read allow removed"
    ]
    bob = ("--principal", "User:bob")
    assert run("acl", "remove", *bob, *at)[1] == ["cluster kafka-cluster literal User:bob * alter allow removed"]
    assert run("acl", "remove", *bob, *at)[::2] == (1, "bridge: there is no such ACL that allows\n")
    assert run("acl", "remove", *bob, "--deny", *at)[1] == ["group b prefixed User:bob * all deny removed"]
    assert run("acl", "remove", *bob, "--deny", *at)[::2] == (1, "bridge: there is no such ACL that denies\n")
    assert run("acl", "add", *alice, "--operation", "read", *at)[0] == 2
