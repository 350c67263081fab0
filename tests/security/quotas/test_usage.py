"""What is taken of each quota, and what a client has to wait for it."""

from __future__ import annotations

import pytest

from bridge.security.quotas.entities import CLIENT_ID, IP, USER, QuotaKey, checked_entity
from bridge.security.quotas.usage import REQUEST_DELAY_SECONDS, ClientQuotas
from bridge.telemetry.metrics import QuotaMetrics

ALICE = checked_entity([(USER, "alice")])
PRODUCE, FETCH = QuotaKey.PRODUCE, QuotaKey.FETCH


def quotas(**values: float) -> ClientQuotas:
    made = ClientQuotas(QuotaMetrics())
    made.set_values({(ALICE, QuotaKey(key)): value for key, value in values.items()})
    return made


def test_without_quotas_nothing_is_remembered() -> None:
    made = ClientQuotas(QuotaMetrics())
    assert not made.active and not made.of_addresses
    assert made.take_bytes(PRODUCE, "alice", "c", 10**9, 0.0) == 0.0
    assert made.take_time("alice", "c", 10.0, 0.0) == 0.0
    assert made.fetch_bytes("alice", "c", 0.0) is None
    assert made.mutate("alice", "c", 10**6, 0.0, strict=True) == (True, 0.0)
    assert made.connect("10.0.0.1", 0.0) == 0.0
    assert made.remembered == 0


def test_bytes_over_the_rate_are_waited_for() -> None:
    made = quotas(producer_byte_rate=1000.0)
    assert made.active
    assert made.take_bytes(PRODUCE, "alice", "a", 500, 0.0) == 0.0
    assert made.take_bytes(PRODUCE, "alice", "b", 3000, 0.0) == 3.0
    assert made.take_bytes(PRODUCE, "alice", "b", 500, 3.0) == 0.5
    assert made.take_bytes(PRODUCE, "bob", "b", 10**6, 3.0) == 0.0
    assert made.delay(PRODUCE, "alice", "a", 3.25) == 0.25
    assert made.delay(FETCH, "alice", "a", 3.25) == 0.0


def test_over_ten_seconds_a_busy_client_gets_the_rate() -> None:
    made = quotas(producer_byte_rate=1000.0)
    now, sent = 0.0, 0
    while now < 10:
        wait = made.take_bytes(PRODUCE, "alice", "a", 100, now)
        sent += 100
        now += wait + 0.001
    assert 9900 <= sent <= 10_700


def test_a_fetch_gets_what_the_rate_allows_for_a_moment_or_what_was_saved() -> None:
    made = quotas(consumer_byte_rate=1000.0)
    assert made.fetch_bytes("alice", "a", 0.0) == 500
    made.take_bytes(FETCH, "alice", "a", 500, 0.0)
    assert made.fetch_bytes("alice", "a", 0.0) == 250
    assert made.fetch_bytes("alice", "a", 100.0) == 1000
    assert quotas(consumer_byte_rate=1.0).fetch_bytes("alice", "a", 0.0) == 1


def test_handling_time_is_a_share_and_the_wait_is_bounded_as_in_kafka() -> None:
    made = quotas(request_percentage=10.0)
    assert made.take_time("alice", "a", 0.1, 0.0) == 0.0
    assert made.take_time("alice", "a", 0.05, 0.0) == pytest.approx(0.5)
    assert made.take_time("alice", "a", 100.0, 0.0) == REQUEST_DELAY_SECONDS
    assert made.take_time("alice", "a", 0.0, 9.5) == pytest.approx(0.5)  # more is forgiven


def test_changes_of_topics_have_a_burst_and_newer_versions_are_refused_in_debt() -> None:
    made = quotas(controller_mutation_rate=2.0)
    assert made.mutate("alice", "a", 22, 0.0, strict=True) == (True, 0.0)
    assert made.mutate("alice", "a", 10, 0.0, strict=True) == (True, 0.0)
    assert made.mutate("alice", "a", 1, 0.0, strict=True) == (False, 5.0)
    assert made.mutate("alice", "a", 2, 0.0, strict=False) == (True, 6.0)
    assert made.mutate("alice", "a", 1, 6.0, strict=True) == (True, 0.0)


def test_connections_of_an_address() -> None:
    made = ClientQuotas(QuotaMetrics())
    made.set_values({(checked_entity([(IP, None)]), QuotaKey.CONNECTION): 1.0})
    assert made.of_addresses and not made.active
    assert [made.connect("10.0.0.1", 0.0) for _ in range(11)] == [0.0] * 10 + [1.0]
    assert made.connect("10.0.0.2", 0.0) == 0.0
    assert made.connect("10.0.0.1", 0.5) == 0.5
    assert made.connect("10.0.0.1", 1.0) == 0.0


def test_other_quotas_count_at_once_and_are_told() -> None:
    made, told = quotas(producer_byte_rate=1.0), []
    made.on_change = lambda: told.append(made.active)
    made.take_bytes(PRODUCE, "alice", "a", 1000, 0.0)
    made.set_values({(ALICE, PRODUCE): 1000.0})
    assert made.delay(PRODUCE, "alice", "a", 0.0) < 1.0
    made.set_values({})
    assert made.delay(PRODUCE, "alice", "a", 0.0) == 0.0
    assert told == [True, False] and made.remembered == 0


def test_client_ids_without_end_take_no_memory() -> None:
    made = ClientQuotas(QuotaMetrics())
    made.set_values({(checked_entity([(CLIENT_ID, None)]), key): 1.0 for key in (PRODUCE, FETCH, QuotaKey.REQUEST)})
    for number in range(100_000):
        made.take_bytes(PRODUCE, "u", str(number), 10, 0.0)
        made.take_time("u", str(number), 0.1, 0.0)
    assert made.remembered <= 20_000
