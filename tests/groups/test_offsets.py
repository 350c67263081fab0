"""Committed offsets: what is refused, what is seen, what expires. The store and the coordinator are stand-ins."""

import asyncio
import uuid
from typing import Any

import pytest

from bridge.errors import KafkaError
from bridge.groups.offsets import Committer
from bridge.groups.retention import OffsetRetention
from bridge.groups.store.records import StoredGroup, StoredOffset, encode_offset, offset_key
from bridge.kafka.error_codes import ErrorCode
from bridge.storage.topics.topic import NO_ID
from bridge.storage.visibility import Outcome
from bridge.telemetry.metrics import Pending
from tests.groups.fake_outcomes import transaction
from tests.groups.offsets_bench import MINUTE, NO_CLIENT, WEEK, Bench
from tests.support.waiting import until


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_a_commit_is_seen_with_its_time(bench: Bench) -> None:
    assert await bench.commit("g", ("t", 1), metadata="m", leader_epoch=3) == {("t", 1): ErrorCode.NONE}
    committed = StoredOffset(7, 3, "m", 1_000_000_000, topic_id=uuid.UUID(int=7).hex)
    assert await bench.offsets.fetch("g") == {("t", 1): committed}
    assert await bench.offsets.fetch("other") == {}


async def test_each_partition_has_its_own_error(bench: Bench) -> None:
    errors = await bench.commit("g", ("t", 0), ("t", 2), ("t", -1), ("nope", 0), ("/", 0), ("down", 0))
    assert errors == {
        ("t", 0): ErrorCode.NONE,
        ("t", 2): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("t", -1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("nope", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("/", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("down", 0): ErrorCode.COORDINATOR_NOT_AVAILABLE,
    }
    assert await bench.seen("g") == {("t", 0): 7}


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        ("x" * 4096, ErrorCode.NONE), ("x" * 4097, ErrorCode(12)), ("€" * 4096, ErrorCode.NONE),
        ("€" * 4097, ErrorCode(12)), ("\U0001f600" * 2048, ErrorCode.NONE), ("\U0001f600" * 2049, ErrorCode(12)),
    ],
)  # fmt: skip
async def test_the_note_is_bounded_in_characters_of_utf_16(bench: Bench, metadata: str, error: ErrorCode) -> None:
    assert await bench.commit("g", ("t", 0), metadata=metadata) == {("t", 0): error}


async def test_who_may_not_commit_stores_nothing(bench: Bench) -> None:
    bench.members.refusal = ErrorCode.ILLEGAL_GENERATION
    with pytest.raises(KafkaError):
        await bench.commit("g", ("t", 0))
    assert await bench.seen("g") == {}


async def test_a_commit_does_not_show_before_it_is_stored(bench: Bench) -> None:
    bench.store.gate = asyncio.get_running_loop().create_future()
    under_way = await bench.offsets.commit("g", Committer(), {("t", 0): StoredOffset(7)})
    assert await bench.seen("g") == {}
    bench.store.gate.set_result(None)
    assert await under_way == {("t", 0): ErrorCode.NONE}
    assert await bench.seen("g") == {("t", 0): 7}


async def test_what_the_store_refuses_is_told(bench: Bench) -> None:
    bench.store.gate = asyncio.get_running_loop().create_future()
    bench.store.gate.set_exception(KafkaError(ErrorCode.NOT_COORDINATOR))
    errors = await bench.commit("g", ("t", 0), ("nope", 0))
    assert errors == {("t", 0): ErrorCode.NOT_COORDINATOR, ("nope", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


async def test_nothing_happens_between_the_check_of_a_commit_and_its_place_in_the_order(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def others_run(elements: Any) -> Any:
        for element in elements:
            yield element
            await asyncio.sleep(0)

    async def check_commit(*_: Any) -> None:
        asyncio.get_running_loop().call_soon(outdated.set)

    outdated, submit = asyncio.Event(), bench.store.submit
    monkeypatch.setattr("bridge.groups.offsets.in_turns", others_run)
    monkeypatch.setattr(bench.members, "check_commit", check_commit)
    monkeypatch.setattr(bench.store, "submit", lambda *write: None if outdated.is_set() else submit(*write))
    assert await bench.commit("g", ("t", 0), ("t", 1)) == {("t", 0): ErrorCode.NONE, ("t", 1): ErrorCode.NONE}


# --- transactions -----------------------------------------------------------------------------------------------------

ONE, TWO = transaction(1), transaction(2)


async def test_an_offset_of_a_transaction_counts_from_its_commit_on(bench: Bench) -> None:
    await bench.commit("g", ("t", 0))
    assert await bench.commit_in(ONE, "g", ("t", 0), ("t", 2)) == {
        ("t", 0): ErrorCode.NONE, ("t", 2): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }  # fmt: skip
    assert (await bench.seen("g"), await bench.seen("g", stable=True)) == ({("t", 0): 7}, {("t", 0): None})
    bench.store.outcomes.decide(ONE, Outcome.COMMITTED)
    committed = StoredOffset(9, committed_at_ms=1_000_000_000, topic_id=uuid.UUID(int=7).hex)
    assert await bench.offsets.fetch("g", require_stable=True) == {("t", 0): committed}


async def test_an_offset_of_an_aborted_transaction_never_counts(bench: Bench) -> None:
    await bench.commit_in(ONE, "g", ("t", 0))
    assert await bench.seen("g", stable=True) == {("t", 0): None}
    bench.store.outcomes.decide(ONE, Outcome.ABORTED)
    assert (await bench.seen("g"), await bench.seen("g", stable=True)) == ({}, {})


@pytest.mark.parametrize("stable", [True, False])
async def test_what_was_decided_before_the_fetch_is_seen(bench: Bench, stable: bool) -> None:
    await bench.commit_in(ONE, "g", ("t", 0))
    bench.store.outcomes.recorded[ONE] = Outcome.COMMITTED
    assert await bench.seen("g", stable=stable) == {("t", 0): 9}
    assert await bench.seen("g", stable=stable) == {("t", 0): 9}
    assert bench.store.outcomes.confirms == 1


@pytest.mark.parametrize("stable", [True, False])
async def test_what_cannot_be_known_is_asked_again(bench: Bench, stable: bool) -> None:
    await bench.commit_in(ONE, "g", ("t", 0))
    bench.store.outcomes.away = True
    with pytest.raises(KafkaError) as raised:
        await bench.seen("g", stable=stable)
    assert raised.value.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_without_pending_offsets_nothing_is_asked(bench: Bench) -> None:
    await bench.commit("g", ("t", 0))
    bench.store.outcomes.away = True
    assert await bench.seen("g", stable=True) == {("t", 0): 7}
    assert bench.store.outcomes.confirms == 0


async def test_an_offset_that_is_pending_in_a_former_topic_keeps_nobody_waiting(bench: Bench) -> None:
    await bench.commit_in(ONE, "g", ("t", 0))
    bench.topics.ids["t"] = uuid.UUID(int=8)
    assert await bench.seen("g", stable=True) == {}


async def test_who_may_not_commit_in_a_transaction_stores_nothing(bench: Bench) -> None:
    for group, error in (("", ErrorCode.NONE), ("g", ErrorCode.INVALID_TXN_STATE)):
        with pytest.raises(KafkaError) as raised:
            await bench.commit_in(ONE, group, ("t", 0), error=error)
        assert raised.value.code == (error or ErrorCode.INVALID_GROUP_ID)
    bench.members.refusal_in_transaction = ErrorCode.ILLEGAL_GENERATION
    with pytest.raises(KafkaError) as raised:
        await bench.commit_in(ONE, "g", ("t", 0))
    assert raised.value.code == ErrorCode.ILLEGAL_GENERATION
    assert bench.store.writes == []


async def test_nothing_happens_between_the_checks_in_a_transaction_and_the_place_in_the_order(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check(*_: Any) -> None:
        asyncio.get_running_loop().call_soon(outdated.set)

    outdated, submit = asyncio.Event(), bench.store.submit
    monkeypatch.setattr(bench.members, "check_commit_in_transaction", check)
    monkeypatch.setattr(bench.store, "submit", lambda *write: None if outdated.is_set() else submit(*write))
    assert await bench.commit_in(ONE, "g", ("t", 0), ("t", 1)) == dict.fromkeys([("t", 0), ("t", 1)], ErrorCode.NONE)


async def test_what_is_pending_is_counted_with_the_age_of_the_oldest(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge.groups.settling._DELAY_SECONDS", 0)
    await bench.commit_in(ONE, "h", ("t", 0))
    assert not bench.metrics.pendings  # not counted: not known
    bench.now += 10
    await bench.offsets.start()
    await bench.commit("g", ("t", 0))
    await bench.offsets.count_pending()
    assert bench.metrics.pendings == {"": Pending(1, 10.0)}
    await bench.commit_in(ONE, "g", ("t", 0), ("t", 1))
    await bench.commit_in(TWO, "g", ("t", 0))
    bench.now += 5
    await bench.offsets.count_pending()
    assert bench.metrics.pendings == {"": Pending(4, 15.0)}
    bench.store.outcomes.decide(ONE, Outcome.COMMITTED)
    await until(lambda: sum(len(list(some)) for some in bench.store.known("g").pendings.values()) == 2)
    await bench.offsets.count_pending()  # what is committed counts until nothing of its partition is open
    assert bench.metrics.pendings == {"": Pending(2, 5.0)}
    bench.now -= 3600
    await bench.offsets.count_pending()
    assert bench.metrics.pendings == {"": Pending(2, 0.0)}
    bench.store.outcomes.decide(TWO, Outcome.ABORTED)
    await until(lambda: not bench.store.known("g").pendings)
    await bench.offsets.count_pending()
    assert bench.metrics.pendings == {"": Pending(0, 0.0)}
    await bench.offsets.close()


async def test_a_deletion_takes_what_is_decided_and_leaves_what_is_open(bench: Bench) -> None:
    await bench.commit("g", ("t", 0))
    await bench.commit_in(ONE, "g", ("t", 0), ("t", 1))
    await bench.commit_in(TWO, "g", ("t", 0), offset=12)
    bench.store.outcomes.recorded[ONE] = Outcome.COMMITTED  # which this node does not know yet
    assert set((await bench.offsets.delete("g", [("t", 0), ("t", 1)])).values()) == {ErrorCode.NONE}
    assert await bench.seen("g", stable=True) == {("t", 0): None}
    bench.store.outcomes.decide(TWO, Outcome.COMMITTED)
    assert await bench.seen("g") == {("t", 0): 12}


async def test_a_deleted_topic_takes_what_is_pending_along(bench: Bench) -> None:
    await bench.commit_in(ONE, "g", ("t", 0), ("u", 0))
    await bench.commit_in(TWO, "h", ("t", 0))
    bench.store.outcomes.decide(TWO, Outcome.COMMITTED)
    del bench.topics.ids["t"]
    await bench.offsets.forget_topic("t")
    assert {group: list(held.pendings) for group, held in bench.store.held.items()} == {"g": [("u", 0)]}


@pytest.mark.parametrize("outcome", [Outcome.OPEN, Outcome.COMMITTED, Outcome.ABORTED])
async def test_a_group_with_open_offsets_is_not_forgotten(bench: Bench, outcome: Outcome) -> None:
    await bench.commit("g", ("t", 0), ("t", 1))
    await bench.commit_in(ONE, "g", ("t", 0), ("u", 0))
    bench.store.outcomes.decided[ONE] = outcome
    bench.members.holds["g"] = EMPTY
    bench.now += WEEK + MINUTE
    await bench.offsets.expire()
    if outcome is Outcome.OPEN:
        assert list(bench.store.stored("g")) == [("t", 0)]
        assert list(bench.store.held["g"].pendings) == [("t", 0), ("u", 0)]
        assert bench.members.forgotten == []
    else:
        assert not bench.store.stored("g")
        assert bench.members.forgotten == (["g"] if outcome is Outcome.COMMITTED else [])


# --- deletion ---------------------------------------------------------------------------------------------------------


async def test_offsets_are_deleted_unless_subscribed(bench: Bench) -> None:
    await bench.commit("g", ("t", 0), ("u", 0))
    bench.members.holds["g"] = OffsetRetention(True, 1, True, frozenset({"t"}), 0)
    errors = await bench.offsets.delete("g", [("t", 0), ("u", 0), ("u", 1), ("nope", 0)])
    assert errors == {
        ("t", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ("u", 0): ErrorCode.NONE,
        ("u", 1): ErrorCode.NONE,
        ("nope", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert await bench.seen("g") == {("t", 0): 7}


@pytest.mark.parametrize(
    ("retention", "error"),
    [(NO_CLIENT, ErrorCode.GROUP_ID_NOT_FOUND), (OffsetRetention(True, 1, False, None, 0), ErrorCode.NON_EMPTY_GROUP)],
)
async def test_nothing_is_deleted_of(bench: Bench, retention: OffsetRetention, error: ErrorCode) -> None:
    bench.members.holds["g"] = retention
    with pytest.raises(KafkaError) as raised:
        await bench.offsets.delete("g", [("t", 0)])
    assert raised.value.code == error


async def test_a_deleted_topic_takes_its_offsets_along(bench: Bench) -> None:
    await bench.commit("g", ("t", 0), ("u", 0))
    await bench.commit("h", ("t", 1))
    del bench.topics.ids["t"]
    await bench.offsets.forget_topic("t")
    assert [await bench.seen(group) for group in "gh"] == [{("u", 0): 7}, {}]


async def test_a_deleted_topic_takes_states_of_share_groups_along(bench: Bench) -> None:
    await bench.commit("g", ("t", 0))
    bench.store.held["shared"] = StoredGroup(shares={("0" * 32, 0): b""})
    await bench.offsets.forget_topic("t")
    assert bench.members.looked_at == ["shared"]


async def test_a_topic_deleted_past_the_bridge_has_no_offsets_any_more(bench: Bench) -> None:
    await bench.commit("g", ("t", 0), ("u", 0))
    del bench.topics.ids["t"]
    assert await bench.seen("g") == {("u", 0): 7}
    bench.topics.ids["t"] = uuid.UUID(int=8)  # made again
    assert await bench.seen("g") == {("u", 0): 7}
    await bench.commit("g", ("t", 1))
    assert await bench.seen("g") == {("u", 0): 7, ("t", 1): 7}


async def test_what_is_committed_to_a_topic_made_again_outlives_its_predecessor_s_deletion(bench: Bench) -> None:
    for group in "gh":
        await bench.commit(group, ("t", 0))
    del bench.topics.ids["t"]
    held = bench.store.gate = asyncio.get_running_loop().create_future()
    forgetting = asyncio.ensure_future(bench.offsets.forget_topic("t"))
    await asyncio.sleep(0)  # it has looked at g, and not yet at h
    bench.topics.ids["t"], bench.store.gate = uuid.UUID(int=8), None
    await bench.commit("h", ("t", 0))
    held.set_result(None)
    await forgetting
    assert [await bench.seen(group) for group in "gh"] == [{}, {("t", 0): 7}]


async def test_a_commit_on_its_way_to_a_topic_made_again_is_not_overtaken(bench: Bench) -> None:
    await bench.commit("g", ("t", 0))
    bench.topics.ids["t"] = uuid.UUID(int=8)
    bench.store.gate = asyncio.get_running_loop().create_future()
    under_way = await bench.offsets.commit("g", Committer(), {("t", 0): StoredOffset(8)})
    forgetting = asyncio.ensure_future(bench.offsets.forget_topic("t"))
    await asyncio.sleep(0)
    bench.store.gate.set_result(None)
    await asyncio.gather(under_way, forgetting)
    assert await bench.seen("g") == {("t", 0): 8}


async def test_a_topic_committed_to_while_others_are_looked_for_is_fetched(bench: Bench) -> None:
    await bench.store.submit("g", {offset_key("g", "down", 0): encode_offset(StoredOffset(3, topic_id="0c"))})
    bench.topics.answers.clear()
    fetching = asyncio.ensure_future(bench.seen("g"))
    await asyncio.sleep(0)
    await bench.commit("g", ("t", 0))
    bench.topics.answers.set()
    assert await fetching == {("down", 0): 3, ("t", 0): 7}


async def test_offsets_of_a_member_that_comes_meanwhile_are_not_deleted(bench: Bench) -> None:
    await bench.commit("g", ("t", 0))
    bench.topics.answers.clear()
    deleting = asyncio.ensure_future(bench.offsets.delete("g", [("t", 0), ("down", 0)]))
    await asyncio.sleep(0)  # it asks Pulsar for a topic
    bench.members.holds["g"] = OffsetRetention(True, 1, True, frozenset({"t"}), 0)
    await bench.commit("g", ("t", 0))
    bench.topics.answers.set()
    assert (await deleting)["t", 0] is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert await bench.seen("g") == {("t", 0): 7}


async def test_where_no_client_can_say_what_became_of_a_topic_its_offsets_stay(bench: Bench) -> None:
    await bench.commit("g", ("u", 0), ("t", 0))
    bench.topics.ids["u"] = uuid.UUID(int=9)  # was committed to without an id
    bench.topics.ids["t"] = NO_ID
    assert set(await bench.seen("g")) == {("u", 0), ("t", 0)}
    await bench.store.submit("g", {offset_key("g", "down", 0): encode_offset(StoredOffset(3, topic_id="0c"))})
    assert ("down", 0) in await bench.seen("g")


async def test_offsets_of_topics_that_went_past_the_bridge_are_forgotten(bench: Bench) -> None:
    await bench.offsets.start()
    for group in "gh":
        await bench.commit(group, ("t", 0), ("u", 0))
    bench.topics.ids["t"] = uuid.UUID(int=8)
    forgotten = asyncio.Event()
    bench.store.on_stored.append(lambda key, offset: forgotten.set() if key[1] == "h" and offset is None else None)
    (removed,) = bench.topics.on_removed
    removed("t")
    removed("u")
    await asyncio.wait_for(forgotten.wait(), 10)
    assert [list(bench.store.stored(group)) for group in "gh"] == [[("u", 0)]] * 2
    await bench.offsets.close()


# --- expiry -----------------------------------------------------------------------------------------------------------

EMPTY = OffsetRetention(True, 0, True, None, 1_000_000_000 + 60_000)


@pytest.mark.parametrize(
    ("retention", "after", "kept"),
    [
        (NO_CLIENT, WEEK - 1, {"t", "u"}),
        (NO_CLIENT, WEEK, set()),
        (EMPTY, WEEK, {"t", "u"}),  # since its last member left
        (EMPTY, WEEK + MINUTE, set()),
        (OffsetRetention(True, 1, True, frozenset({"t"}), 0), 10 * WEEK, {"t"}),
        (OffsetRetention(True, 1, True, None, 0), 10 * WEEK, {"t", "u"}),  # no client can tell
        (OffsetRetention(True, 1, False, None, 0), 10 * WEEK, {"t", "u"}),  # of Connect: not ours to read
    ],
)
async def test_offsets_expire(bench: Bench, retention: OffsetRetention, after: float, kept: set[str]) -> None:
    await bench.commit("g", ("t", 0), ("u", 0))
    bench.members.holds["g"] = retention
    bench.now += after
    await bench.offsets.expire()
    assert {topic for topic, _ in await bench.seen("g")} == kept
    assert bench.metrics.expired_offsets.value == 2 - len(kept)
    assert bench.members.forgotten == (["g"] if retention.exists and not kept else [])


async def test_a_group_whose_offsets_cannot_be_deleted_keeps_those_of_no_other_from_expiring(bench: Bench) -> None:
    groups = [f"g-{number}" for number in range(9)]
    for group in groups:
        await bench.commit(group, ("t", 0))
    bench.now += WEEK
    bench.store.refused, bench.store.elsewhere, bench.store.hanging = {"g-0"}, {"g-1"}, {"g-2"}
    expiring = asyncio.ensure_future(bench.offsets.expire())
    await until(lambda: bench.metrics.expired_offsets.value == 6)
    assert list(bench.store.held) == ["g-0", "g-1", "g-2"]
    expiring.cancel()


async def test_what_could_not_expire_is_told_when_the_others_have(bench: Bench) -> None:
    for group in "gh":
        await bench.commit(group, ("t", 0))
    bench.now += WEEK
    bench.store.refused = {"g"}
    with pytest.raises(KafkaError):
        await bench.offsets.expire()
    assert list(bench.store.held) == ["g"]


async def test_a_group_that_keeps_offsets_of_a_deleted_topic_is_the_only_one(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    for group in "ghi":
        await bench.commit(group, ("t", 0))
    del bench.topics.ids["t"]
    bench.store.refused, bench.store.elsewhere = {"g"}, {"h"}
    await bench.offsets.forget_topic("t")
    assert list(bench.store.held) == ["g", "h"]
    assert [record.getMessage() for record in caplog.records] == ["! offsets of a deleted topic stay"]


async def test_old_clients_choose_when(bench: Bench) -> None:
    await bench.commit("g", ("t", 0), expires_at_ms=1_000_000_000 + 5000)
    bench.now += 4.9
    await bench.offsets.expire()
    assert await bench.seen("g")
    bench.now += 0.1
    await bench.offsets.expire()
    assert not await bench.seen("g")


async def test_expiry_does_not_overtake_a_commit(bench: Bench) -> None:
    await bench.commit("g", ("t", 0))
    bench.now += WEEK
    bench.store.gate = asyncio.get_running_loop().create_future()
    under_way = await bench.offsets.commit("g", Committer(), {("t", 0): StoredOffset(8)})
    await bench.offsets.expire()
    bench.store.gate.set_result(None)
    await under_way
    assert await bench.seen("g") == {("t", 0): 8}
