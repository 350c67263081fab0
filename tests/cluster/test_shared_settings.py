"""Nodes notice that their settings differ, and in which section."""

from bridge.cluster.shared_settings import different_sections, fingerprint
from bridge.config import Settings


def test_the_section_that_differs_is_named() -> None:
    mine = fingerprint(Settings())
    other = Settings().with_values(kafka={"default_partitions": 7}, groups={"slots": 9})
    assert different_sections(mine, fingerprint(other)) == ["kafka", "groups"]
    assert different_sections(mine, mine) == []


def test_what_is_each_nodes_own_is_not_compared() -> None:
    other = Settings().with_values(
        kafka={"listen": "127.0.0.1:1", "advertised": "a:1", "node_id": 7, "rack": "r"},
        cluster={"name": "x", "weight": 3},
        http={"listen": "127.0.0.1:2"},
    )
    assert fingerprint(other) == fingerprint(Settings())


def test_a_version_with_other_sections_is_not_taken_for_different() -> None:
    assert different_sections("kafka:1,new:2", "kafka:1,old:3") == []
    assert different_sections("", "kafka:1") == []


def test_nodes_that_decide_otherwise_what_clients_may_do_differ() -> None:
    one, other = (Settings().with_values(kafka={"authorizer": name}) for name in ("none", "kafka"))
    assert different_sections(fingerprint(one), fingerprint(other)) == ["authorizer"]
    root = other.with_values(kafka={"super_users": "User:root"})
    assert different_sections(fingerprint(other), fingerprint(root)) == ["authorizer"]
