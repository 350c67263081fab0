"""A follower of a slot: what it does where an entry may be missing, by a slot in memory."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace

import pytest
import pytest_asyncio

from bridge.owned_log import Record, SlotUnavailable, follower
from bridge.owned_log.succession import marker
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import Position, PulsarError
from tests.owned_log.following import Following
from tests.owned_log.scripted import ScriptedSlot, follow
from tests.support.waiting import until


@pytest.fixture
def slot(monkeypatch: pytest.MonkeyPatch) -> ScriptedSlot:
    monkeypatch.setattr(follower, "Backoff", lambda: SimpleNamespace(next=lambda: 0.001))
    monkeypatch.setattr(follower, "_ASK_AGAIN_AFTER", 0.02)
    found = ScriptedSlot()
    found.write(marker("one"))
    return found


@pytest_asyncio.fixture
async def following(slot: ScriptedSlot) -> AsyncIterator[Following]:
    """Of a slot with one value, loaded."""
    slot.put("k", b"1")
    found = follow(slot)
    assert await found.confirmed() == {"k": b"1"}
    assert found.follower.is_loaded
    assert found.follower.is_current
    yield found
    await found.follower.close()
    assert slot.open == 0


async def test_what_follows_is_applied_and_told(slot: ScriptedSlot, following: Following) -> None:
    slot.write(Record("k", b"2"), Record("l", b"3"))
    slot.put("l", None)
    assert await following.confirmed() == {"k": b"2"}
    assert following.applied == [Record("k", b"2"), Record("l", b"3"), Record("l", None)]
    assert len(following.copies) == slot.loads == 1


async def test_nothing_behind_a_gap_is_applied_and_a_fresh_copy_takes_its_place(
    slot: ScriptedSlot, following: Following
) -> None:
    """As an abort that is missed, and what was committed behind it."""
    slot.skipped.add(slot.put("aborted", b"1"))
    slot.put("next", b"2")
    assert await following.confirmed() == {"k": b"1", "aborted": b"1", "next": b"2"}
    assert following.applied == []
    assert following.copies[0].values == {"k": b"1"}  # what was known stays as it was
    assert slot.loads == 2


async def test_while_a_fresh_copy_is_read_what_was_known_stays(slot: ScriptedSlot, following: Following) -> None:
    told = []
    slot.before_read.append(lambda: told.append((following.follower.is_current, following.follower.is_loaded)))
    slot.skipped.add(slot.put("k", b"2"))
    slot.put("k", b"3")
    await following.follower.confirm()
    assert told == [(False, True)]
    assert following.follower.is_current
    assert [copy.values["k"] for copy in following.copies] == [b"1", b"3"]


@pytest.mark.parametrize("messages", [1, -1], ids=["messages that no reader gets", "an index that goes back"])
async def test_an_index_that_does_not_follow_is_a_gap(slot: ScriptedSlot, following: Following, messages: int) -> None:
    slot.write(Record("k", b"2"), messages=messages)
    assert await following.confirmed() == {"k": b"2"}
    assert len(following.copies) == 2


async def test_an_unreadable_entry_is_a_gap(slot: ScriptedSlot, following: Following) -> None:
    slot.corrupt.add(slot.put("k", b"2"))
    assert await following.confirmed() == {"k": b"2"}
    assert len(following.copies) == 2
    slot.put("k", b"3")  # the one before it has no index
    assert await following.confirmed() == {"k": b"3"}
    slot.put("k", b"4")
    assert await following.confirmed() == {"k": b"4"}
    assert len(following.copies) == 3


async def test_entries_of_a_former_holder_are_left_out_and_are_no_gap(slot: ScriptedSlot, following: Following) -> None:
    slot.write(marker("two"), producer="q")
    slot.put("k", b"fenced")
    slot.write(Record("k", b"2"), producer="q")
    assert await following.confirmed() == {"k": b"2"}
    assert following.applied == [Record("k", b"2")]
    slot.put("k", b"fenced")
    assert (await following.confirmed())["k"] == b"2"
    assert len(following.copies) == 1
    other = follow(slot)
    assert await other.confirmed() == {"k": b"2"}
    await other.follower.close()


async def test_an_empty_slot_is_followed_from_its_first_entry_on() -> None:
    slot = ScriptedSlot()
    following = follow(slot)
    assert await following.confirmed() == {}
    slot.put("k", b"1")
    slot.put("k", b"2")
    assert await following.confirmed() == {"k": b"2"}
    assert slot.loads == 1
    await following.follower.close()


# --- compaction and trimming ------------------------------------------------------------------------------------------


async def test_a_compaction_while_a_copy_is_read_brings_no_deleted_key_back(slot: ScriptedSlot) -> None:
    for number in range(5):
        slot.put(f"k{number}", b"1")
    slot.put("k0", None)
    slot.put("last", b"1")

    nothing: Callable[[], None] = lambda: None  # noqa: E731 - one for each entry
    slot.before_read += [nothing, nothing, nothing, slot.compact]  # k0 is read by now, and its deletion is not
    following = follow(slot)
    assert "k0" not in await following.confirmed()
    assert len(following.copies) == 1
    assert slot.loads == 2
    await following.follower.close()


async def test_a_slot_that_is_compacted_to_its_end_is_loaded(slot: ScriptedSlot) -> None:
    """The last entry is a deletion, which no compacted read gives."""
    slot.put("k", b"1")
    slot.put("l", b"1")
    slot.put("l", None)
    slot.compact()
    following = follow(slot)
    assert await following.confirmed() == {"k": b"1"}
    slot.put("k", b"2")
    assert await following.confirmed() == {"k": b"2"}
    assert slot.loads == 1
    await following.follower.close()


async def test_compaction_is_no_gap_for_who_follows(slot: ScriptedSlot, following: Following) -> None:
    slot.put("k", None)
    slot.compact()
    slot.put("l", b"1")
    assert await following.confirmed() == {"l": b"1"}
    assert len(following.copies) == 1


async def test_what_is_trimmed_under_a_follower_is_read_anew(slot: ScriptedSlot, following: Following) -> None:
    """Its reader was away meanwhile, and goes on behind it."""
    slot.roll_over()
    slot.skipped |= {slot.put("k", None), slot.put("l", b"1")}
    slot.roll_over()
    slot.compact()
    slot.trim()
    slot.put("m", b"1")
    assert await following.confirmed() == {"l": b"1", "m": b"1"}


async def test_a_confirmation_misses_nothing_where_all_is_trimmed(slot: ScriptedSlot, following: Following) -> None:
    """No entry tells the follower of a gap."""
    for number in range(3):
        slot.skipped |= {slot.put("k", None), slot.put(f"l{number}", b"1")}
        slot.compact()
        slot.roll_over()
        slot.trim()
        assert not slot.entries
        assert "k" not in await following.confirmed()
        assert f"l{number}" in following.values
        loads = slot.loads
        await following.follower.confirm()
        assert slot.loads == loads  # nothing was written meanwhile


# --- how old the copy may be ------------------------------------------------------------------------------------------


async def test_a_copy_that_is_kept_up_is_not_old(slot: ScriptedSlot, following: Following) -> None:
    assert following.follower.behind_since is None
    slot.put("k", b"2")
    await following.confirmed()
    assert following.follower.behind_since is None
    assert not following.follower.is_unanswered


async def test_it_is_old_from_the_start_until_it_is_loaded(slot: ScriptedSlot) -> None:
    before = asyncio.get_running_loop().time()
    found = follow(slot)
    since = found.follower.behind_since
    assert since is not None
    assert since >= before
    told: list[float | None] = []
    slot.before_read.append(lambda: told.append(found.follower.behind_since))
    await found.confirmed()
    assert told == [since]
    assert found.follower.behind_since is None
    await found.follower.close()


async def test_it_is_old_since_an_entry_was_missed(slot: ScriptedSlot, following: Following) -> None:
    told: list[float | None] = []
    slot.before_read.append(lambda: told.append(following.follower.behind_since))
    slot.skipped.add(slot.put("k", b"2"))
    slot.put("k", b"3")
    await following.confirmed()
    assert told[0] is not None
    assert following.follower.behind_since is None


async def test_it_is_old_since_the_first_question_without_an_answer(slot: ScriptedSlot, following: Following) -> None:
    tail = following.follower._tail
    assert tail is not None

    async def fail() -> Position:
        raise PulsarError(pb.ServiceNotReady, "no answer")

    tail.slot.checked_last_position = fail  # type: ignore[method-assign]
    with pytest.raises(SlotUnavailable):
        await following.follower.confirm()
    since = following.follower.behind_since
    assert since is not None
    assert following.follower.is_unanswered
    with pytest.raises(SlotUnavailable):
        await following.follower.confirm()
    assert following.follower.behind_since == since
    del tail.slot.checked_last_position
    await following.follower.confirm()
    assert following.follower.behind_since is None


async def test_a_fresh_copy_can_be_asked_for_and_is_read_beside_the_old_one(
    slot: ScriptedSlot, following: Following
) -> None:
    following.copies[0].values["k"] = b"wrong"
    assert following.follower.reload()
    assert not following.follower.reload()  # one is being read
    assert following.values == {"k": b"wrong"}
    assert await following.confirmed() == {"k": b"1"}
    assert following.follower.copies == len(following.copies) == slot.loads == 2
    slot.put("k", b"2")
    assert await following.confirmed() == {"k": b"2"}
    assert len(following.copies) == 2


# --- confirming -------------------------------------------------------------------------------------------------------


async def test_confirmations_share_a_question(slot: ScriptedSlot, following: Following) -> None:
    slot.put("k", b"2")
    asked = 0
    tail = following.follower._tail
    assert tail is not None
    ask = tail.slot.checked_last_position

    async def counted() -> Position:
        nonlocal asked
        asked += 1
        return await ask()

    tail.slot.checked_last_position = counted  # type: ignore[method-assign]
    await asyncio.gather(*(following.confirmed() for _ in range(20)))
    assert asked == 1
    assert following.values == {"k": b"2"}


async def test_who_asks_while_nothing_can_be_read_gets_an_error(
    slot: ScriptedSlot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "_CONFIRM_TIMEOUT", 0.05)
    missing = PulsarError(pb.TopicNotFound, "no such topic")

    async def fail(topic: str) -> Position:
        raise missing

    monkeypatch.setattr(slot, "last_position", fail)
    following = follow(slot)
    with pytest.raises(SlotUnavailable):
        await following.follower.confirm()
    assert not following.follower.is_loaded
    monkeypatch.undo()
    await until(lambda: following.follower.is_loaded)
    await following.follower.confirm()
    await following.follower.close()


async def test_a_bug_in_the_copy_makes_another_copy(slot: ScriptedSlot, following: Following) -> None:
    def fail(key: str, value: bytes | None) -> None:
        raise ValueError(key)

    following.copies[0].apply = fail  # type: ignore[method-assign]
    slot.put("k", b"2")
    assert await following.confirmed() == {"k": b"2"}
    assert len(following.copies) == 2


async def test_no_copy_is_older_than_the_one_before(slot: ScriptedSlot, following: Following) -> None:
    told = iter([slot.entries[0].position, slot.entries[0].position])
    last = slot.last_position

    async def old(topic: str = "") -> Position:
        return next(told, None) or await last()

    slot.skipped.add(slot.put("k", b"2"))
    slot.last_position = old  # type: ignore[method-assign]
    slot.put("k", b"3")
    await until(lambda: len(following.copies) == 2)
    assert following.values == {"k": b"3"}


@pytest.mark.parametrize("turns", range(40))
async def test_it_is_closed_in_every_state(slot: ScriptedSlot, turns: int) -> None:
    for number in range(3):
        slot.put(f"k{number}", b"1")
    following = follow(slot)
    asking = asyncio.ensure_future(following.follower.confirm())
    for turn in range(turns):
        await asyncio.sleep(0)
        if turn == 25:
            slot.skipped.add(slot.put("k", b"2"))
            slot.put("k", b"3")
    await following.follower.close()
    assert slot.open == 0
    if not asking.done():
        with pytest.raises(SlotUnavailable):
            await asking
    with pytest.raises(SlotUnavailable):
        await following.follower.confirm()
    await following.follower.close()
    following.follower.start()
    assert not following.follower.is_current
    assert {task.get_name() for task in asyncio.all_tasks()} == {asyncio.current_task().get_name()}  # type: ignore[union-attr]


class History:
    """Random steps of a slot's holders, and what the slot holds by them."""

    def __init__(self, slot: ScriptedSlot, seed: int) -> None:
        self.chance = random.Random(seed)
        self.truth: dict[str, bytes] = {}
        self._slot = slot
        self._holder = "p"

    def step(self) -> None:
        self.chance.choice([self._slot.compact, self._trim, self._take, self._skip, *[self._put] * 8])()

    def _trim(self) -> None:
        self._slot.roll_over()
        self._slot.trim()

    def _take(self) -> None:
        self._holder = f"p{self.chance.random()}"
        self._slot.write(marker(self._holder), producer=self._holder)

    def _skip(self) -> None:
        """The follower's reader misses one, and gets the next."""
        self._put()
        self._slot.skipped.add(self._slot.last)
        self._put()

    def _put(self) -> None:
        key = f"k{self.chance.randrange(8)}"
        value = b"%d" % self.chance.randrange(100) if self.chance.random() < 0.6 else None
        self._slot.write(Record(key, value), producer=self._holder)
        self.truth.pop(key, None)
        if value is not None:
            self.truth[key] = value


@pytest.mark.parametrize("seed", range(20))
async def test_a_confirmed_copy_is_the_slot(slot: ScriptedSlot, seed: int) -> None:
    """However it is written, compacted, trimmed and read badly, also while a copy is read."""
    history = History(slot, seed)
    slot.write(marker("p"), producer="p")
    following = follow(slot)
    for _ in range(60):
        for _ in range(history.chance.randrange(6)):
            history.step()
            for _ in range(history.chance.randrange(4)):
                await asyncio.sleep(0)
        slot.before_read[:] = [history.step] * history.chance.choice((0, 0, 0, 1, 5))
        await following.follower.confirm()
        slot.before_read.clear()
        assert await following.confirmed() == history.truth
    await following.follower.close()
    assert slot.open == 0
