"""Group commit: what shares an entry, when it is sent, and who has which offset."""

import asyncio
from itertools import pairwise

import pytest

from bridge.codec import NO_PRODUCER
from bridge.codec.compression import PulsarCodec
from bridge.outcome import Outcome
from bridge.pulsar.producer import Producer
from bridge.pulsar.types import EARLIEST, ClientClosed
from bridge.storage.append import group_commit
from bridge.storage.append.group_commit import GroupCommit
from bridge.storage.append.pending_append import PendingAppend
from bridge.storage.append.preparation import METADATA_BYTES, PreparedEntry
from bridge.storage.append.sequences import SequencePosition, SequenceRange
from tests.support.waiting import until

PID = 4711


@pytest.fixture(autouse=True)
def time_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "loop_time", lambda: 1000.0)


class ScriptedProducer(Producer):
    """One with as many sends on their way as a scenario says."""

    def __init__(self) -> None:
        """It has no Pulsar."""
        self.sends = 0
        self.name = "scripted"
        self.max_message_size: int | None = 5 << 20

    @property
    def pending_count(self) -> int:
        """What the scenario says."""
        return self.sends

    @property
    def closing(self) -> bool:
        """It stays open."""
        return False


class Scenario:
    """One partition's groups, and the entries that were sent."""

    def __init__(self, max_bytes: int = 1000, linger_seconds: float = 0) -> None:
        self.sent: list[PendingAppend] = []
        self.producer = ScriptedProducer()
        self.busy = True
        self.sequence = 0
        self.groups = GroupCommit(self._send, max_bytes, linger_seconds, lambda: self.busy)

    def _send(self, pending: PendingAppend, producer: Producer) -> None:
        self.groups.sent(pending, producer)
        self.sent.append(pending)

    def add(self, entry: PreparedEntry, batch: SequenceRange | None = None) -> PendingAppend:
        offset: Outcome[int] = Outcome()
        pending = PendingAppend(entry, "scripted", EARLIEST, offset, offset, None, batch)
        self.groups.add(pending, self.producer)
        return pending

    def outcome(self, *appends: PendingAppend, stored: bool = True) -> None:
        """Entries have their outcomes, in one turn of the event loop."""
        for append in appends:
            self.groups.outcome_known(append, self.producer, stored=stored)

    def burst(self, size: int) -> list[PendingAppend]:
        """An idempotent client's next batches, one after another."""
        self.sequence += size
        return [self.add(*sequenced(at)) for at in range(self.sequence - size, self.sequence)]

    def new(self) -> list[PendingAppend]:
        """The entries since the last look."""
        sent, self.sent[:] = list(self.sent), []
        return sent

    def entries(self) -> list[bytes]:
        return [one.entry.data for one in self.sent]


def plain(data: bytes, count: int = 1, timestamp: int = 7) -> PreparedEntry:
    return PreparedEntry(data, count, NO_PRODUCER, timestamp, uncompressed_size=len(data))


def sequenced(first: int, count: int = 1, epoch: int = 0, wraps: int = 0) -> tuple[PreparedEntry, SequenceRange]:
    begin = SequencePosition(epoch, wraps, first)
    entry = PreparedEntry(b"%d " % first, count, (PID, epoch, first), 7, uncompressed_size=2)
    return entry, SequenceRange(begin, begin.after(count - 1), is_duplicate=False)


async def test_batches_of_one_turn_share_an_entry_and_each_has_its_offset() -> None:
    scenario = Scenario()
    appends = [scenario.add(plain(b"ab", 2, 5)), scenario.add(plain(b"c", 1, 9)), scenario.add(plain(b"d", 1, 6))]
    assert scenario.sent == []
    await asyncio.sleep(0)
    (together,) = scenario.sent
    assert together.entry == PreparedEntry(b"abcd", 4, NO_PRODUCER, 9, uncompressed_size=4)
    together.succeed(40)
    assert [one.offset.result() for one in appends] == [40, 42, 43]


async def test_one_alone_is_sent_as_it_is() -> None:
    scenario = Scenario()
    append = scenario.add(plain(b"a"))
    await asyncio.sleep(0)
    assert scenario.sent == [append]


async def test_while_the_loop_has_time_nothing_waits_for_an_outcome() -> None:
    scenario = Scenario()
    scenario.busy = False
    scenario.producer.sends = 5
    scenario.add(plain(b"a"))
    await asyncio.sleep(0)
    assert scenario.entries() == [b"a"]


async def test_behind_an_entry_on_its_way_a_group_waits_for_the_outcome() -> None:
    scenario = Scenario()
    scenario.producer.sends = 1
    scenario.add(plain(b"a"))
    await asyncio.sleep(0)
    scenario.add(plain(b"b"))
    await asyncio.sleep(0)
    assert scenario.sent == []
    scenario.producer.sends = 0
    scenario.outcome(PendingAppend(plain(b"x"), "scripted", EARLIEST, Outcome(), Outcome(), None))
    assert scenario.sent == []  # the producer may be about to fail others
    await asyncio.sleep(0)
    assert scenario.entries() == [b"ab"]


async def test_a_full_group_goes_at_once() -> None:
    scenario = Scenario(max_bytes=10)
    scenario.producer.sends = 2
    for data in (b"12345", b"1234", b"12"):
        scenario.add(plain(data))
    assert scenario.entries() == [b"123451234"]


@pytest.mark.parametrize(
    "alone",
    [
        plain(b"123456"),  # above half of what an entry may have
        plain(b"a")._replace(compression=PulsarCodec.LZ4),
        plain(b"a")._replace(verbatim=True),
    ],
)
async def test_what_cannot_share_an_entry_keeps_its_place(alone: PreparedEntry) -> None:
    scenario = Scenario(max_bytes=10)
    scenario.add(plain(b"x"))
    scenario.add(alone)
    scenario.add(plain(b"y"))
    await asyncio.sleep(0)
    assert scenario.entries() == [b"x", alone.data, b"y"]


async def test_with_no_bytes_each_batch_is_an_entry() -> None:
    scenario = Scenario(max_bytes=0)
    for data in (b"a", b"b"):
        scenario.add(plain(data))
    assert scenario.entries() == [b"a", b"b"]


async def test_no_group_is_larger_than_what_pulsar_takes() -> None:
    scenario = Scenario()
    for known in (None, METADATA_BYTES + 4):
        scenario.producer.max_message_size = known
        for data in (b"12", b"34", b"56"):
            scenario.add(plain(data))
        await asyncio.sleep(0)
    assert scenario.entries() == [b"12", b"34", b"56", b"1234", b"56"]


async def test_an_idempotent_producers_consecutive_batches_are_one_range_of_sequences() -> None:
    scenario = Scenario()
    for first, count in ((3, 2), (5, 1), (6, 4)):
        scenario.add(*sequenced(first, count))
    await asyncio.sleep(0)
    (together,) = scenario.sent
    assert together.entry.producer == (PID, 0, 3)
    assert together.entry.record_count == 7
    assert together.batch is not None
    assert (together.batch.first.sequence, together.batch.last.sequence) == (3, 9)


@pytest.mark.parametrize(
    "next_batch",
    [sequenced(5), sequenced(4, epoch=1), sequenced(4, wraps=1)],
    ids=["gap", "epoch", "wrap"],
)
async def test_another_run_of_sequences_is_another_entry(next_batch: tuple[PreparedEntry, SequenceRange]) -> None:
    scenario = Scenario()
    scenario.add(*sequenced(3))
    scenario.add(*next_batch)
    await asyncio.sleep(0)
    assert len(scenario.sent) == 2


async def test_what_no_client_waits_for_is_not_sent_unless_its_sequence_is_needed() -> None:
    scenario = Scenario()
    given_up, wanted = scenario.add(plain(b"a")), scenario.add(plain(b"b"))
    given_up.offset.cancel()
    await asyncio.sleep(0)
    assert scenario.sent == [wanted]
    batch = scenario.add(*sequenced(0))
    batch.client_future.cancel()
    await asyncio.sleep(0)
    assert scenario.sent == [wanted, batch]


async def test_a_group_that_fails_fails_for_all() -> None:
    scenario = Scenario()
    appends = [scenario.add(plain(b"a")), scenario.add(plain(b"b"))]
    await asyncio.sleep(0)
    scenario.sent[0].fail(ClientClosed("the producer"))
    assert all(one.offset.exception() is not None for one in appends)


async def test_what_is_taken_is_never_sent() -> None:
    scenario = Scenario()
    appends = [scenario.add(plain(b"a")), scenario.add(plain(b"b"))]
    assert scenario.groups.take_all() == appends
    await asyncio.sleep(0)
    assert scenario.sent == []


async def test_a_linger_lets_others_come() -> None:
    scenario = Scenario(linger_seconds=0.001)
    scenario.add(plain(b"a"))
    await asyncio.sleep(0)
    scenario.add(plain(b"b"))
    assert scenario.sent == []
    await asyncio.sleep(0.002)
    assert scenario.entries() == [b"ab"]


# ---- what follows acknowledgements -----------------------------------------------------------------------------------


def idle(max_bytes: int = 10_000) -> Scenario:
    """One whose event loop has time."""
    scenario = Scenario(max_bytes)
    scenario.busy = False
    return scenario


def batches(entry: PendingAppend) -> int:
    return len(entry.members) or 1


async def test_a_client_answers_acknowledgements_and_its_batches_come_together() -> None:
    scenario = idle()
    scenario.burst(5)
    first = scenario.new()
    assert [batches(one) for one in first] == [1] * 5, "nothing was acknowledged yet, so none waits"
    for _ in range(3):
        scenario.outcome(*first)
        scenario.burst(4)
        assert scenario.new() == []
        scenario.burst(1)
        first = scenario.new()
        assert [batches(one) for one in first] == [5], "sent with the last one, and not later"


async def test_a_client_that_waits_for_each_answer_never_waits_here() -> None:
    scenario = idle()
    for _ in range(50):
        scenario.burst(1)
        (sent,) = scenario.new()
        scenario.outcome(sent)


async def test_who_waits_in_vain_is_sent_soon_and_waits_less_often() -> None:
    scenario = idle()
    waits: list[int] = []
    for number in range(200):
        scenario.burst(1)
        if not scenario.sent:
            waits.append(number)
            await until(lambda: bool(scenario.sent))
        (sent,) = scenario.new()
        scenario.outcome(sent, other(scenario))  # two are acknowledged, and one comes
    distances = [after - before for before, after in pairwise(waits)]
    assert len(waits) < 8
    assert distances == sorted(distances)


def other(scenario: Scenario) -> PendingAppend:
    """One that was sent without the others, and is on its way."""
    append = PendingAppend(plain(b""), "scripted", EARLIEST, Outcome(), Outcome(), None)
    scenario.groups.sent(append, scenario.producer)
    return append


async def test_acknowledgements_of_long_ago_announce_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = idle()
    scenario.burst(3)
    scenario.outcome(*scenario.new())
    monkeypatch.setattr(group_commit, "loop_time", lambda: 1001.0)
    scenario.burst(2)
    assert [batches(one) for one in scenario.new()] == [1, 1]


async def test_what_failed_announces_nothing() -> None:
    scenario = idle()
    scenario.burst(3)
    scenario.outcome(*scenario.new(), stored=False)
    scenario.burst(2)
    assert [batches(one) for one in scenario.new()] == [1, 1]


async def test_a_steady_client_s_batches_are_brought_together_once() -> None:
    """Those of one turn and those of another stay apart, as their acknowledgements do, until the fewer wait once."""
    scenario = idle()
    scenario.burst(5)
    sent = scenario.new()
    small, large = sent[:1], sent[1:]
    rounds = 0
    while True:
        scenario.outcome(*small)
        scenario.burst(1)
        small = scenario.new()
        if not small:
            break
        scenario.outcome(*large)
        scenario.burst(4)
        large = scenario.new()
        rounds += 1
    assert rounds == group_commit._STEADY
    scenario.outcome(*large)
    for _ in range(3):
        scenario.burst(4)
        (together,) = scenario.new()
        assert batches(together) == 5
        scenario.outcome(together)
        scenario.burst(1)
        assert scenario.new() == []


async def test_none_waits_for_what_would_not_fit_with_it() -> None:
    scenario = idle(max_bytes=len(sequenced(100)[0].data) * 4)
    scenario.sequence = 100  # of batches that are all of one size
    scenario.burst(5)
    sent = scenario.new()
    for _ in range(2 * group_commit._STEADY):
        scenario.outcome(*sent[:1])
        scenario.burst(1)
        (small,) = scenario.new()
        scenario.outcome(*sent[1:])
        scenario.burst(4)
        sent = [small, *scenario.new()]


async def test_batches_of_other_producers_do_not_wait_for_each_other_s_outcomes() -> None:
    scenario = idle()
    for _ in range(4):
        scenario.add(plain(b"x"))
    large = scenario.new()
    small: list[PendingAppend] = []
    for _ in range(2 * group_commit._STEADY):
        scenario.outcome(*small)
        scenario.add(plain(b"y"))
        small = scenario.new()
        assert len(small) == 1
        scenario.outcome(*large)
        for _ in range(4):
            scenario.add(plain(b"x"))
        large = scenario.new()


@pytest.mark.parametrize("taken", [False, True])
async def test_a_group_that_is_sent_or_taken_before_its_time_is_over_is_not_sent_again(taken: bool) -> None:
    scenario = idle()
    scenario.burst(3)
    scenario.outcome(*scenario.new())
    scenario.burst(1)
    assert len(scenario.groups.take(scenario.producer) if taken else scenario.new()) == taken
    scenario.groups.flush_all()
    assert len(scenario.new()) == (not taken)
    await asyncio.sleep(5 * group_commit._HOLD_SECONDS)
    assert scenario.sent == []


async def test_a_busy_loop_sends_what_waits_for_more() -> None:
    scenario = idle()
    scenario.burst(3)
    scenario.outcome(*scenario.new())
    scenario.burst(1)
    scenario.busy = True
    scenario.burst(1)
    await until(lambda: bool(scenario.sent))
    assert [batches(one) for one in scenario.sent] == [2]
