"""How far groups are behind: shown as far as it is known, for a bounded number of groups."""

import pytest

from bridge.groups.lag import LagTable
from bridge.groups.offsets import Committer
from bridge.groups.store.records import StoredOffset
from bridge.metrics import Lag, Lags
from tests.groups.offsets_bench import Bench


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_lag_is_shown_as_far_as_it_is_known(bench: Bench) -> None:
    await bench.commit("g", ("t", 0), ("t", 1))
    await bench.lag.refresh()
    assert sorted(bench.metrics.lags) == [Lag("g", "t", 0, 7, 3, None), Lag("g", "t", 1, 7, None, None)]
    for offset, records, seconds in ((4, 6, 4.0), (10, 0, 0.0), (12, 0, 0.0)):
        await (await bench.offsets.commit("g", Committer(), {("t", 0): StoredOffset(offset)}))
        await bench.lag.refresh()
        assert Lag("g", "t", 0, offset, records, seconds) in bench.metrics.lags


async def test_the_groups_that_committed_last_are_shown(bench: Bench) -> None:
    for group in ("a", "b", "a", "c"):
        await bench.commit(group, ("t", 0))
    await bench.lag.refresh()
    assert [lag.group for lag in bench.metrics.lags] == ["c", "a"]
    await bench.offsets.delete("a", [("t", 0)])
    await bench.lag.refresh()
    assert [lag.group for lag in bench.metrics.lags] == ["c"]


async def test_groups_of_another_node_that_is_gone_are_shown_though_they_commit_no_more(bench: Bench) -> None:
    for group in ("stuck", "stuck too"):
        await bench.commit(group, ("t", 0))
    topics = bench.lag._topics
    after = LagTable(bench.store, topics, bench.metrics, 2, wall=lambda: 1_004.0)
    bench.store.on_owned[-1](["stuck", "stuck too", "beyond the limit"])
    await after.refresh()
    assert sorted(lag.group for lag in bench.metrics.lags) == ["stuck", "stuck too"]
    await bench.commit("busy", ("t", 0))
    await after.refresh()
    assert len(bench.metrics.lags) == 2
    assert "busy" in {lag.group for lag in bench.metrics.lags}


async def test_groups_that_another_node_has_now_are_not_shown(bench: Bench) -> None:
    await bench.commit("g", ("t", 0))
    bench.store.coordinates = lambda group_id: False  # type: ignore[method-assign]
    await bench.lag.refresh()
    assert bench.metrics.lags == []


async def test_what_a_limit_leaves_out_is_counted(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.groups.lag.MAX_PARTITIONS", 3)
    for group in ("a", "b", "c"):
        await bench.commit(group, ("t", 0), ("t", 1))
    await bench.lag.refresh()
    assert [(lag.group, lag.partition) for lag in bench.metrics.lags] == [("c", 0), ("c", 1), ("b", 0)]
    assert bench.metrics.coordinated.value == 3
    assert (bench.metrics.groups_left_out, bench.metrics.partitions_left_out) == (1, 1)


async def test_the_groups_of_several_namespaces_are_shown_side_by_side(bench: Bench) -> None:
    await bench.commit("g", ("t", 0))
    topics = bench.lag._topics
    other = LagTable(bench.store, topics, bench.metrics, 2, wall=lambda: 1_004.0, namespace="acme/orders")
    await bench.commit("g", ("t", 0))
    await bench.lag.refresh()
    await other.refresh()
    assert [(lag.group, lag.topic) for lag in bench.metrics.lags] == [("g", "t"), ("g", "acme/orders/t")]
    await bench.lag.refresh()
    assert len(bench.metrics.lags) == 2
    bench.metrics.show_lags("acme/orders", Lags([Lag("g", "acme/orders/t", 0, 0, None, None)] * 5, 1, 0, 0), 3)
    assert len(bench.metrics.lags) == 3
    assert bench.metrics.partitions_left_out == 3
