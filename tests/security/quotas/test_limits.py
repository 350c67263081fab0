"""Which quota counts for a client: Kafka's precedence, and who shares what it allows."""

from itertools import combinations

import pytest

from bridge.security.quotas.entities import CLIENT_ID, IP, USER, Entity, QuotaKey, checked_entity
from bridge.security.quotas.limits import Limits, Owner

LEVELS: list[tuple[Entity, Owner]] = [
    (checked_entity([(USER, "u"), (CLIENT_ID, "c")]), ("=u", "=c")),
    (checked_entity([(USER, "u"), (CLIENT_ID, None)]), ("=u", "=c")),
    (checked_entity([(USER, "u")]), ("=u", "")),
    (checked_entity([(USER, None), (CLIENT_ID, "c")]), ("=u", "=c")),
    (checked_entity([(USER, None), (CLIENT_ID, None)]), ("=u", "=c")),
    (checked_entity([(USER, None)]), ("=u", "")),
    (checked_entity([(CLIENT_ID, "c")]), ("", "=c")),
    (checked_entity([(CLIENT_ID, None)]), ("", "=c")),
]
"""From the most specific one on, with those who share it."""
KEY = QuotaKey.PRODUCE


@pytest.mark.parametrize("chosen", [set(some) for n in range(1, 9) for some in combinations(range(8), n)])
def test_the_most_specific_one_counts(chosen: set[int]) -> None:
    limits = Limits({(LEVELS[level][0], KEY): level + 1.0 for level in chosen})
    assert limits.find(KEY, "u", "c") == (min(chosen) + 1, LEVELS[min(chosen)][1])
    assert limits.find(QuotaKey.FETCH, "u", "c") is None


def test_others_are_not_limited() -> None:
    limits = Limits({(LEVELS[0][0], KEY): 1.0, (LEVELS[2][0], KEY): 2.0, (LEVELS[6][0], KEY): 3.0})
    assert limits.find(KEY, "u", "other") == (2.0, ("=u", ""))
    assert limits.find(KEY, "other", "c") == (3.0, ("", "=c"))
    assert limits.find(KEY, "other", "other") is None


def test_a_client_without_an_id_has_the_default() -> None:
    limits = Limits({(LEVELS[2][0], KEY): 2.0, (LEVELS[1][0], KEY): 1.0})
    assert limits.find(KEY, "u", "") == (1.0, ("=u", "="))
    assert Limits({(LEVELS[7][0], KEY): 4.0}).find(KEY, "", "") == (4.0, ("", "="))


@pytest.mark.parametrize("name", ["*", "=c", "", "c*"])
def test_no_name_is_taken_for_another(name: str) -> None:
    limits = Limits({(LEVELS[6][0], KEY): 1.0})
    assert limits.find(KEY, "u", name) is None
    assert limits.find(KEY, name, "c") == (1.0, ("", "=c"))


def test_quotas_that_come_and_go_leave_nothing() -> None:
    limits = Limits()
    for entity, _ in LEVELS:
        limits.put(entity, KEY, 1.0)
    host = checked_entity([(IP, "10.0.0.1")])
    limits.put(host, QuotaKey.CONNECTION, 1.0)
    assert limits.of_clients and limits.of_addresses
    for entity, _ in LEVELS:
        limits.remove(entity, KEY)
        limits.remove(entity, KEY)
    limits.remove(host, QuotaKey.CONNECTION)
    assert not limits.of_clients and not limits.of_addresses


def test_long_names_are_told_apart_and_take_little_memory() -> None:
    limits = Limits({(LEVELS[1][0], KEY): 1.0})
    found = [limits.find(KEY, "u", "c" * 32_000 + end) for end in "ab"]
    owners = {one.owner for one in found if one is not None}
    assert len(owners) == 2 and all(len(client_id) < 40 for _, client_id in owners)
    named = checked_entity([(CLIENT_ID, "c" * 1000)])
    assert Limits({(named, KEY): 2.0}).find(KEY, "u", "c" * 1000) is not None


def test_addresses() -> None:
    key = QuotaKey.CONNECTION
    limits = Limits({(checked_entity([(IP, "::ffff:10.0.0.1")]), key): 5.0, (checked_entity([(IP, None)]), key): 1.0})
    assert limits.connections("10.0.0.1") == (5.0, ("10.0.0.1", ""))
    assert limits.connections("10.0.0.2") == (1.0, ("10.0.0.2", ""))
    assert limits.connections("::ffff:10.0.0.2") == (1.0, ("10.0.0.2", ""))
    assert limits.of_addresses and not limits.of_clients
    assert Limits().connections("10.0.0.1") is None


def test_a_network_of_ipv6_shares_the_default_and_an_address_has_its_own() -> None:
    limits = Limits()
    limits.put(((IP, None),), QuotaKey.CONNECTION, 5.0)
    limits.put(((IP, "2001:db8::7"),), QuotaKey.CONNECTION, 7.0)
    one, other = limits.connections("2001:db8::1"), limits.connections("2001:db8::ffff:2")
    assert one == other is not None
    assert limits.connections("2001:db8:0:1::1") != one
    own = limits.connections("2001:db8::7")
    assert own is not None
    assert own.value == 7.0
    assert limits.connections("10.0.0.1") != limits.connections("10.0.0.2")
