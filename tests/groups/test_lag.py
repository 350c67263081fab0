"""How far groups are behind: from memory, or as Pulsar says; what is not known is not told. Of a bounded number."""

import pytest

from bridge.groups.lag import LagTable
from bridge.groups.offsets import Committer
from bridge.groups.store.records import StoredOffset
from bridge.pulsar.types import Position
from bridge.runtime.futures import loop_time
from bridge.storage.topics.closed_logs import AskedEnd, Published
from bridge.storage.visibility import Outcome
from bridge.telemetry.metrics import GroupRow, Lag, Lags
from tests.groups.classic.bench import Bench as Members
from tests.groups.clock import settle
from tests.groups.fake_outcomes import transaction
from tests.groups.offsets_bench import Bench


@pytest.fixture
def bench() -> Bench:
    return Bench()


def end(offset: int, last: Published | None = None) -> AskedEnd:
    return AskedEnd(offset, Position(1, offset), last)


async def commit(bench: Bench, offset: int, topic: str = "t", partition: int = 0, group: str = "g") -> None:
    await (await bench.offsets.commit(group, Committer(), {(topic, partition): StoredOffset(offset)}))


async def test_lag_is_shown_as_far_as_it_is_known(bench: Bench) -> None:
    await bench.commit("g", ("t", 0), ("t", 1))
    await bench.lag.refresh()
    assert sorted(bench.metrics.lags) == [Lag("g", "t", 0, 7, 3, None, 10), Lag("g", "t", 1, 7, None, None)]
    for offset, records, seconds in ((4, 6, 4.0), (10, 0, 0.0)):
        await commit(bench, offset)
        await bench.lag.refresh()
        assert Lag("g", "t", 0, offset, records, seconds, 10) in bench.metrics.lags


async def test_what_a_transaction_commits_is_shown_from_its_commit_on(bench: Bench) -> None:
    await commit(bench, 4)
    await bench.commit_in(transaction(1), "g", ("t", 0), ("t", 1))
    await bench.lag.refresh()
    assert bench.metrics.lags == [Lag("g", "t", 0, 4, 6, 4.0, 10)]
    bench.store.outcomes.decide(transaction(1), Outcome.COMMITTED)
    await bench.lag.refresh()
    assert sorted(bench.metrics.lags) == [Lag("g", "t", 0, 9, 1, None, 10), Lag("g", "t", 1, 9, None, None)]


async def test_what_memory_does_not_know_is_asked_once_for_all_groups(bench: Bench) -> None:
    for group in ("g", "h"):
        await bench.commit(group, ("t", 0), ("t", 1))
    await bench.lag.refresh()
    assert bench.asked.end_polls.keys() == [("t", 1)]
    bench.asked.ends["t", 1] = end(27)
    await bench.asked.end_polls.answer()
    await bench.lag.refresh()
    assert {one for one in bench.metrics.lags if one.partition} == {Lag(g, "t", 1, 7, 20, None, 27) for g in "gh"}
    assert sorted(bench.asked.time_polls.keys()) == [("t", 0, 7), ("t", 1, 7)]
    bench.asked.times = {("t", 0, 7): None, ("t", 1, 7): Published(5, 9, 1_001_000)}
    await bench.asked.time_polls.answer()
    await bench.lag.refresh()
    assert {one for one in bench.metrics.lags if one.partition} == {Lag(g, "t", 1, 7, 20, 3.0, 27) for g in "gh"}
    assert {one.seconds for one in bench.metrics.lags if not one.partition} == {None}
    assert bench.asked.time_polls.keys() == []


async def test_a_lag_is_of_the_moment_when_the_end_was_asked(bench: Bench) -> None:
    """A group that reads as fast as is written is never behind by what was written since, nor ahead of the end."""
    bench.topics.follows = False
    await commit(bench, 7)
    await bench.lag.refresh()
    bench.asked.ends["t", 0] = end(10, Published(5, 10, 1_002_000))
    await bench.asked.end_polls.answer()
    for committed in (7, 9, 10, 500):
        await commit(bench, committed)
        await bench.lag.refresh()
        assert bench.metrics.lags == [Lag("g", "t", 0, committed, 3, 2.0, 10)]
    bench.asked.ends["t", 0] = end(502, Published(490, 502, 1_003_000))
    await bench.asked.end_polls.answer()
    await bench.lag.refresh()
    assert bench.metrics.lags == [Lag("g", "t", 0, 500, 2, 1.0, 502)]


async def test_records_and_seconds_change_together(bench: Bench) -> None:
    """While the time of the new one's record is asked the last lag is shown: no fresh age beside an old lag."""
    bench.topics.follows = False
    await commit(bench, 3)
    await bench.lag.refresh()
    bench.asked.ends["t", 0] = end(100)
    bench.asked.times["t", 0, 3] = Published(3, 5, 1_000_000)
    for _ in range(2):
        await bench.asked.end_polls.answer()
        await bench.lag.refresh()
        await bench.asked.time_polls.answer()
    await commit(bench, 90)
    await bench.lag.refresh()
    assert bench.metrics.lags == [Lag("g", "t", 0, 90, 97, 4.0, 100)]
    await bench.asked.end_polls.answer()
    await bench.lag.refresh()
    assert bench.metrics.lags == [Lag("g", "t", 0, 90, 97, 4.0, 100)]
    assert bench.asked.time_polls.keys() == [("t", 0, 90)]
    bench.asked.times["t", 0, 90] = Published(90, 91, 1_003_500)
    await bench.asked.time_polls.answer()
    await bench.lag.refresh()
    assert bench.metrics.lags == [Lag("g", "t", 0, 90, 10, 0.5, 100)]


async def test_an_age_is_never_0_beside_records(bench: Bench) -> None:
    """Pulsar's clock may be ahead of this one."""
    bench.topics.follows = False
    await commit(bench, 3)
    await bench.lag.refresh()
    bench.asked.ends["t", 0] = end(5, Published(0, 5, 1_009_000))
    await bench.asked.end_polls.answer()
    await bench.lag.refresh()
    assert bench.metrics.lags == [Lag("g", "t", 0, 3, 2, 0.001, 5)]


async def test_more_is_committed_than_there_is(bench: Bench) -> None:
    """The reader at the tail may be a moment late, so Pulsar is asked; what it says is told as Kafka's tool does."""
    await commit(bench, 12)
    await bench.lag.refresh()
    assert bench.metrics.lags == [Lag("g", "t", 0, 12, None, None)]
    assert bench.asked.end_polls.keys() == [("t", 0)]
    bench.asked.ends["t", 0] = end(10)
    await bench.asked.end_polls.answer()
    await bench.lag.refresh()
    assert bench.metrics.lags == [Lag("g", "t", 0, 12, -2, 0.0, 10)]


async def test_a_partition_that_is_gone_has_no_lag(bench: Bench) -> None:
    bench.topics.follows = False
    await bench.commit("g", ("t", 0), ("t", 1))
    await bench.lag.refresh()
    bench.asked.ends = {("t", 0): None, ("t", 1): end(7)}
    await bench.asked.end_polls.answer()
    await bench.lag.refresh()
    assert bench.metrics.lags == [Lag("g", "t", 1, 7, 0, 0.0, 7)]
    assert bench.lag.lag("g", ("t", 0), 7) is None


async def test_what_was_asked_long_ago_is_not_known(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.topics.follows = False
    await commit(bench, 7)
    await bench.lag.refresh()
    bench.asked.ends["t", 0] = end(10)
    await bench.asked.end_polls.answer()
    now = loop_time()
    for later, records in ((149, 3), (151, None)):
        monkeypatch.setattr("bridge.groups.lag.loop_time", lambda later=later: now + later)
        await bench.lag.refresh()
        assert [one.records for one in bench.metrics.lags] == [records]


async def test_it_stays_known_where_the_reader_at_the_tail_is_closed(bench: Bench) -> None:
    await commit(bench, 7)
    await bench.lag.refresh()
    bench.topics.follows = False
    await bench.lag.refresh()
    assert bench.metrics.lags == [Lag("g", "t", 0, 7, 3, None, 10)]
    assert bench.asked.end_polls.keys() == [("t", 0)]


async def test_the_groups_that_committed_last_are_shown(bench: Bench) -> None:
    for group in ("a", "b", "a", "c"):
        await bench.commit(group, ("t", 0))
    await bench.lag.refresh()
    assert [lag.group for lag in bench.metrics.lags] == ["c", "a"]
    await bench.offsets.delete("a", [("t", 0)])
    await bench.lag.refresh()
    assert [lag.group for lag in bench.metrics.lags] == ["c"]
    await bench.lag.refresh()
    assert [lag.group for lag in bench.metrics.lags] == ["c", "b"]


async def test_groups_of_another_node_that_is_gone_are_shown_though_they_commit_no_more(bench: Bench) -> None:
    for group in ("stuck", "stuck too", "beyond the limit"):
        await bench.commit(group, ("t", 0))
    after = bench.table()
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


async def test_nothing_is_asked_for_no_group_and_after_the_end(bench: Bench) -> None:
    topics = bench.lag._topics
    none = LagTable(bench.store, topics, bench.asked, bench.metrics, 0)
    await bench.commit("g", ("t", 1))
    await none.refresh()
    assert (bench.metrics.lags, bench.asked.end_polls.keys()) == ([], [])
    await bench.lag.refresh()
    assert bench.asked.end_polls.keys() == [("t", 1)]
    await bench.lag.close()
    assert bench.asked.end_polls.keys() == []


async def test_the_groups_of_several_namespaces_are_shown_side_by_side(bench: Bench) -> None:
    await bench.commit("g", ("t", 0))
    other = bench.table("acme/orders")
    await bench.commit("g", ("t", 0))
    await bench.lag.refresh()
    await other.refresh()
    assert [(lag.group, lag.topic) for lag in bench.metrics.lags] == [("g", "t"), ("g", "acme/orders/t")]
    await bench.lag.refresh()
    assert len(bench.metrics.lags) == 2
    bench.metrics.show_lags("acme/orders", Lags([Lag("g", "acme/orders/t", 0, 0, None, None)] * 5, 1, 0, 0), 3)
    assert len(bench.metrics.lags) == 3
    assert bench.metrics.partitions_left_out == 3


async def test_the_members_and_the_state_of_the_groups_are_shown(bench: Bench) -> None:
    members = Members()
    await members.formed()
    await bench.lag.start(members.groups.in_memory)
    for group in ("g", "gone"):
        await bench.commit(group, ("t", 0))
    await bench.lag.refresh()
    assert sorted(bench.metrics.rows) == [
        GroupRow("g", "classic", "Stable", 1),
        GroupRow("gone", "offsets", "Empty", 0),
    ]
    assert (bench.metrics.members.value, bench.metrics.states) == (1, {("classic", "Stable"): 1})
    await bench.lag.close()


async def test_groups_without_offsets_are_shown_where_there_is_room_and_counted_where_not(bench: Bench) -> None:
    members = Members()
    for group in ("a", "b", "c"):
        await members.join(group_id=group)
        await members.clock.advance(0.1)
    await bench.lag.start(members.groups.in_memory)
    await bench.commit("g", ("t", 0))
    await bench.lag.refresh()
    assert [(row.group, row.members) for row in bench.metrics.rows] == [("g", 0), ("a", 1)]
    assert (bench.metrics.members.value, bench.metrics.states) == (3, {("classic", "CompletingRebalance"): 3})
    for group in ("a", "b"):
        (joined,) = members.groups.in_memory.members(group)
        await members.sync(joined.id, group_id=group)
        await settle()
    await bench.lag.refresh()
    assert bench.metrics.states == {("classic", "CompletingRebalance"): 1, ("classic", "Stable"): 2}
    await bench.lag.close()


async def test_a_state_that_no_group_is_in_any_more_stays_at_0(bench: Bench) -> None:
    bench.metrics.show_lags("", Lags([], 1, 0, 0, states={("classic", "Stable"): 1}), 10)
    bench.metrics.show_lags("", Lags([], 1, 0, 0, states={("classic", "Empty"): 1}), 10)
    assert bench.metrics.states == {("classic", "Stable"): 0, ("classic", "Empty"): 1}


async def test_groups_of_the_same_name_in_other_namespaces_have_series_of_their_own(bench: Bench) -> None:
    other = bench.table("acme/orders")
    await bench.commit("g", ("t", 0))
    for table in (bench.lag, other):
        await table.refresh()
    shown = {family.name: family for family in bench.metrics.families()}
    for name in ("bridge_group_members", "bridge_group_committed_offset"):
        labels = [dict(zip(shown[name].labels, values, strict=False)) for values, _ in shown[name].samples]
        assert [one.get("tenant_namespace") for one in labels] == [None, "acme/orders"]
    bench.metrics.show_lags("", Lags([], 9, 0, 0, [GroupRow("g", "offsets", "Empty", 0)] * 3), 2)
    assert (len(bench.metrics.rows), bench.metrics.groups_left_out) == (2, 2)
