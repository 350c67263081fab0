"""What is decided does not stay pending, and nothing that is seen changes by it."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from bridge.errors import KafkaError
from bridge.groups.offsets import Committer
from bridge.groups.settling import Settling
from bridge.groups.store.records import StoredOffset, encode_offset, encode_pending, offset_key, pending_key
from bridge.kafka.error_codes import ErrorCode
from bridge.storage.visibility import Outcome
from tests.groups.clock import settle
from tests.groups.conftest import MakeNode
from tests.groups.fake_outcomes import FakeOutcomes, transaction
from tests.groups.offsets_bench import Bench
from tests.support.group_slots import until_owned
from tests.support.pulsar import PulsarAddress
from tests.support.waiting import compact, until

ONE, TWO, THREE = map(transaction, (1, 2, 3))
COMMITTED, ABORTED = Outcome.COMMITTED, Outcome.ABORTED


@pytest_asyncio.fixture
async def bench(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    monkeypatch.setattr("bridge.groups.settling._DELAY_SECONDS", 0)
    bench = Bench()
    await bench.offsets.start()
    yield bench
    await bench.offsets.close()
    assert (bench.store.on_pending, bench.store.on_owned) == ([], [])


def _is_settled(bench: Bench, *groups: str) -> bool:
    return not any(bench.store.known(group).pendings for group in groups or ("g",))


async def test_what_a_transaction_committed_becomes_the_plain_offset(bench: Bench) -> None:
    await bench.commit("g", ("t", 0), ("t", 1))
    await bench.commit_in(ONE, "g", ("t", 0))
    await bench.commit_in(TWO, "g", ("t", 1))
    await settle()
    assert len(bench.store.writes) == 3
    bench.store.outcomes.decide(ONE, COMMITTED)
    bench.store.outcomes.decide(TWO, ABORTED)
    await until(lambda: _is_settled(bench))
    assert {where: stored.offset for where, stored in bench.store.held["g"].offsets.items()} == {
        ("t", 0): 9,
        ("t", 1): 7,
    }
    assert bench.store.writes[3:] == [
        [
            offset_key("g", "t", 0),
            pending_key("g", "t", 0, ONE.identity),
            pending_key("g", "t", 1, TWO.identity),
        ]
    ]


async def test_transactions_that_follow_each_other_are_settled_together(bench: Bench) -> None:
    for one in (ONE, TWO, THREE):
        await bench.commit_in(one, "g", ("t", 0), offset=one.identity.producer_id)
        await bench.commit_in(one, "h", ("t", 0))
    for one in (ONE, TWO, THREE):
        bench.store.outcomes.decide(one, COMMITTED)
    await until(lambda: _is_settled(bench, "g", "h"))
    assert [len(keys) for keys in bench.store.writes[6:]] == [4, 4]
    assert await bench.seen("g", stable=True) == {("t", 0): 3}


async def test_a_commit_on_its_way_is_not_overtaken(bench: Bench) -> None:
    await bench.commit_in(ONE, "g", ("t", 0))
    bench.store.gate = asyncio.get_running_loop().create_future()
    under_way = await bench.offsets.commit("g", Committer(), {("t", 0): StoredOffset(8)})
    bench.store.outcomes.decide(ONE, COMMITTED)
    await until(lambda: not bench.offsets._settling._due)
    bench.store.gate.set_result(None)
    await under_way
    await until(lambda: _is_settled(bench))
    assert await bench.seen("g", stable=True) == {("t", 0): 8}
    assert bench.store.writes[2:] == [[pending_key("g", "t", 0, ONE.identity)]]


async def test_a_transaction_is_watched_once_for_all_its_offsets(bench: Bench) -> None:
    for group in ("g", "h"):
        await bench.commit_in(ONE, group, ("t", 0), ("t", 1))
        await bench.commit_in(ONE, group, ("t", 0))
    assert {one: len(watchers) for one, watchers in bench.store.outcomes.watchers.items()} == {ONE: 1}


async def test_what_a_node_finds_in_its_slots_is_settled() -> None:
    bench = Bench()
    await bench.commit_in(ONE, "g", ("t", 0))
    bench.store.outcomes.decided[ONE] = ABORTED
    await bench.offsets.start()
    await until(lambda: _is_settled(bench))
    await bench.store.submit("h", {pending_key("h", "t", 0, TWO.identity): encode_pending(StoredOffset(5), TWO.slot)})
    bench.store.on_owned[0](["h"])
    await until(lambda: TWO in bench.store.outcomes.watchers)
    bench.store.outcomes.decide(TWO, COMMITTED)
    await until(lambda: _is_settled(bench, "h"))
    await bench.offsets.close()


async def test_what_could_not_be_settled_is_seen_all_the_same_and_settled_later(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("bridge.groups.settling._AGAIN_SECONDS", 0)
    monkeypatch.setattr("bridge.groups.store.under_way._DOUBT_SECONDS", 0)
    await bench.commit_in(ONE, "g", ("t", 0))
    await bench.commit_in(ONE, "h", ("t", 0))
    bench.store.refused = {"g"}
    bench.store.outcomes.decide(ONE, COMMITTED)
    await until(lambda: _is_settled(bench, "h") and bool(caplog.records))
    assert {record.getMessage() for record in caplog.records} == {"! offsets not settled"}
    assert await bench.seen("g", stable=True) == {("t", 0): 9}
    bench.store.refused = set()
    await until(lambda: _is_settled(bench))
    assert await bench.commit("g", ("t", 0)) == {("t", 0): ErrorCode.NONE}


async def test_what_waited_for_a_commit_that_failed_is_settled_when_that_is_in_doubt_no_more(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge.groups.settling._AGAIN_SECONDS", 0)
    monkeypatch.setattr("bridge.groups.store.under_way._DOUBT_SECONDS", 0)
    await bench.commit_in(ONE, "g", ("t", 0))
    bench.store.gate = asyncio.get_running_loop().create_future()
    under_way = await bench.offsets.commit("g", Committer(), {("t", 0): StoredOffset(8)})
    bench.store.outcomes.decide(ONE, COMMITTED)
    await until(lambda: bool(bench.offsets._settling._left))
    assert await bench.seen("g", stable=True) == {("t", 0): 9}
    bench.store.gate.set_exception(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    bench.store.gate = None
    assert await under_way == {("t", 0): ErrorCode.COORDINATOR_NOT_AVAILABLE}
    await until(lambda: _is_settled(bench))
    assert bench.store.known("g").offsets[("t", 0)].offset == 9


async def test_another_process_reads_what_is_settled_and_what_is_open_from_a_compacted_log(
    pulsar: PulsarAddress, namespace: str, node: MakeNode
) -> None:
    first = await node(pulsar, namespace)
    outcomes = first.store.outcomes = FakeOutcomes()
    settling = Settling(first.store)
    await until_owned(first.store)
    settling.start([])
    for one, offset in ((ONE, 5), (TWO, 6)):
        value = encode_pending(StoredOffset(offset), one.slot)
        await first.store.write("g", {pending_key("g", "t", 0, one.identity): value})
    outcomes.decide(ONE, COMMITTED)
    outcomes.decide(TWO, COMMITTED)
    await until(lambda: not first.store.known("g").pendings)
    await first.store.write("g", {pending_key("g", "t", 0, THREE.identity): encode_pending(StoredOffset(7), 3)})
    await compact(first.admin, first.store._log.slots[0].topic)
    await settling.close()
    await first.leave()

    second = await node(pulsar, namespace)
    second.store.outcomes = FakeOutcomes()
    await until_owned(second.store)
    assert second.store.stored("g") == {("t", 0): StoredOffset(6)}
    second.store.outcomes.decide(THREE, COMMITTED)
    assert second.store.stored("g") == {("t", 0): StoredOffset(7)}
    await second.store.write("g", {offset_key("g", "t", 0): encode_offset(StoredOffset(8))})
    assert second.store.stored("g") == {("t", 0): StoredOffset(8)}
