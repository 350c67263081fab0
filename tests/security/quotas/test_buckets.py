"""Token buckets: they hold the rate over any time, and few of them are remembered."""

from hypothesis import given
from hypothesis import strategies as st

from bridge.security.quotas.buckets import IDLE_SECONDS, Bucket, Buckets

BURST = 2.0
steps = st.lists(st.tuples(st.floats(0, 100), st.floats(0, 1000)), min_size=1, max_size=60)
"""Pauses and amounts."""


def held(rate: float, done: list[tuple[float, float]], now: float, burst: float) -> None:
    """From no time on was more done than the rate, the burst and the last amount allow."""
    for since, _ in done:
        amounts = [amount for at, amount in done if at >= since]
        allowed = rate * (now - since) + burst + amounts[-1]
        assert sum(amounts) <= allowed * (1 + 1e-6) + 1e-6


@given(rate=st.floats(0.1, 1e6), steps=steps)
def test_a_client_that_waits_as_told_keeps_to_the_rate(rate: float, steps: list[tuple[float, float]]) -> None:
    buckets = Buckets(BURST, BURST)
    now, done = 0.0, []
    for pause, amount in steps:
        now += pause
        bucket = buckets.of(("=u", ""), rate, now)
        bucket.tokens -= amount
        done.append((now, amount))
        held(rate, done, now, rate * BURST)
        now += bucket.delay


@given(rate=st.floats(0.1, 1e6), amount=st.floats(0.001, 1e6), early=st.floats(0, 0.999))
def test_the_wait_is_exact(rate: float, amount: float, early: float) -> None:
    bucket = Bucket(0.0, rate, rate, 0.0)
    bucket.tokens -= amount
    wait = bucket.delay
    bucket.fill(rate, rate, wait * early)
    assert bucket.tokens < 0
    bucket.fill(rate, rate, wait)
    assert abs(bucket.tokens) <= amount * 1e-6
    assert bucket.delay <= wait * 1e-6


@given(st.lists(st.tuples(st.integers(0, 9), st.floats(0, 500)), min_size=1, max_size=80))
def test_many_clients_of_one_owner_keep_to_its_rate_together(tries: list[tuple[int, float]]) -> None:
    """Each waits as it was told; all together overdraw by what each of them does once."""
    rate, buckets = 100.0, Buckets(1.0, 1.0)
    free_at, now, total = [0.0] * 10, 0.0, 0.0
    for client, amount in tries:
        now = max(now, free_at[client])
        bucket = buckets.of(("=u", ""), rate, now)
        bucket.tokens -= amount
        total += amount
        free_at[client] = now + bucket.delay
    end = max(free_at)
    assert total <= rate * end + rate * 1.0 + 1e-6


def test_another_quota_counts_from_now_on() -> None:
    bucket = Bucket(0.0, 10.0, 10.0, 0.0)
    bucket.tokens -= 100
    bucket.fill(90.0, 90.0, 1.0)  # the second was the former one's
    assert bucket.tokens == -90 and bucket.delay == 1.0
    bucket.fill(1.0, 1.0, 3.0)
    assert bucket.tokens == 1.0


def test_a_clock_that_goes_back_changes_nothing() -> None:
    bucket = Bucket(0.0, 10.0, 10.0, 5.0)
    bucket.fill(10.0, 10.0, 4.0)
    assert bucket.tokens == 0.0 and bucket.at == 5.0


def test_any_number_of_client_ids_takes_the_memory_of_few_and_no_user_s_debt() -> None:
    buckets = Buckets(1.0, 1.0, most=100)
    buckets.of(("=u", ""), 1.0, 0.0).tokens = -1000.0
    for number in range(100_000):
        buckets.of(("=u", f"={number}"), 1.0, 0.0).tokens -= 50
    assert len(buckets) == 101
    assert buckets.of(("=u", ""), 1.0, 0.0).delay == 1000.0
    assert buckets.of(("=u", "=99999"), 1.0, 0.0).delay == 49.0


def test_idle_ones_are_forgotten_and_those_in_debt_are_not() -> None:
    buckets = Buckets(1.0, 1.0)
    for number in range(100):
        buckets.of(("", f"={number}"), 1.0, 0.0)
    buckets.of(("", "=deep"), 1.0, 0.0).tokens = -1e6
    now = IDLE_SECONDS * 2
    for number in range(60):
        buckets.of(("", f"=later{number}"), 1.0, now)
    assert len(buckets) == 61
    assert buckets.of(("", "=deep"), 1.0, now).tokens == -1e6 + now
