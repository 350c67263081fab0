"""Group commit: what shares an entry, when it is sent, and who has which offset."""

import asyncio
from collections.abc import Sequence

import pytest

from bridge.codec import NO_PRODUCER
from bridge.codec.compression import PulsarCodec
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.producer import Producer
from bridge.pulsar.types import EARLIEST, ClientClosed, PulsarError
from bridge.runtime.futures import Outcome
from bridge.storage.append import group_commit
from bridge.storage.append.group_commit import GroupCommit, together
from bridge.storage.append.pace import Pace
from bridge.storage.append.pending_append import Member, PendingAppend
from bridge.storage.append.preparation import METADATA_BYTES, PreparedEntry
from bridge.storage.append.sequences import SequencePosition, SequenceRange
from bridge.storage.error_mapping import translate
from bridge.storage.visibility import Identity, Transaction

PID = 4711


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
        self.groups = GroupCommit(self.send, max_bytes, linger_seconds, lambda: self.busy)

    def send(self, members: Sequence[Member], _: Producer) -> None:
        """As the appender does."""
        if len(members) == 1 and isinstance(members[0], PendingAppend):
            self.sent.append(members[0])
        else:
            self.sent.append(together(members, "scripted", EARLIEST))

    def add(self, entry: PreparedEntry, batch: SequenceRange | None = None, pace: Pace | None = None) -> PendingAppend:
        offset: Outcome[int] = Outcome()
        pending = PendingAppend(entry, "scripted", EARLIEST, offset, offset, None, batch)
        self.groups.add(pending, self.producer, pace)
        return pending

    def entries(self) -> list[bytes]:
        return [bytes(one.entry.data) for one in self.sent]


def plain(data: bytes, count: int = 1, timestamp: int = 7) -> PreparedEntry:
    return PreparedEntry(data, count, NO_PRODUCER, timestamp, uncompressed_size=len(data))


def sequenced(
    first: int, count: int = 1, epoch: int = 0, wraps: int = 0, whose: Transaction | None = None
) -> tuple[PreparedEntry, SequenceRange]:
    begin = SequencePosition(epoch, wraps, first)
    entry = PreparedEntry(b"%d " % first, count, (PID, epoch, first), 7, uncompressed_size=2, transaction=whose)
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
    scenario.groups.outcome_known(scenario.producer)
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
    one = Transaction(0, Identity(PID, 0, 1))
    for first, count in ((3, 2), (5, 1), (6, 4)):
        scenario.add(*sequenced(first, count, whose=one))
    await asyncio.sleep(0)
    (together,) = scenario.sent
    assert together.entry.producer == (PID, 0, 3)
    assert together.entry.record_count == 7
    assert together.entry.transaction == one
    assert together.batch is not None
    assert (together.batch.first.sequence, together.batch.last.sequence) == (3, 9)


@pytest.mark.parametrize(
    "next_batch",
    [
        sequenced(5),
        sequenced(4, epoch=1),
        sequenced(4, wraps=1),
        sequenced(4, whose=Transaction(0, Identity(PID, 0, 2))),
    ],
    ids=["gap", "epoch", "wrap", "transaction"],
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


class ScriptedPace(Pace):
    """One that says whether its client's batches wait."""

    def __init__(self, *, holds: bool) -> None:
        super().__init__()
        self.holds = holds

    def release(self) -> None:
        """They wait no more."""
        self._go()


@pytest.fixture
def of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "_LEAST_HELD_BYTES", 1)


async def test_small_batches_of_a_client_do_not_wait() -> None:
    scenario = Scenario(max_bytes=50_000)
    scenario.busy = False
    pace = ScriptedPace(holds=True)
    large = bytes(8192)
    for data in (b"a", large, large, b"b", b"c"):
        scenario.add(plain(data), pace=pace)
    assert scenario.entries() == [b"a", large + large + b"b", b"c"]


@pytest.mark.usefixtures("of_any_size")
async def test_a_client_s_batches_wait_for_those_to_come() -> None:
    scenario = Scenario()
    scenario.busy = False
    pace = ScriptedPace(holds=True)
    for data in (b"a", b"b", b"c"):
        scenario.add(plain(data), pace=pace)
    scenario.groups.outcome_known(scenario.producer)  # it is not this that they wait for
    await asyncio.sleep(0.01)
    assert scenario.sent == []
    pace.release()
    assert scenario.entries() == [b"abc"]


@pytest.mark.usefixtures("of_any_size")
async def test_a_transaction_s_batches_wait_for_nothing() -> None:
    whose = Transaction(0, Identity(PID, 0, 1))
    scenario = Scenario()
    scenario.busy = False
    pace = ScriptedPace(holds=True)
    for first in range(2):
        scenario.add(*sequenced(first, whose=whose), pace=pace)
    assert scenario.entries() == [b"0 ", b"1 "]


@pytest.mark.usefixtures("of_any_size")
async def test_who_waits_for_nothing_takes_those_along_that_wait() -> None:
    scenario = Scenario()
    scenario.busy = False
    waits, waits_too, other = ScriptedPace(holds=True), ScriptedPace(holds=True), ScriptedPace(holds=False)
    scenario.add(plain(b"a"), pace=waits)
    scenario.add(plain(b"b"), pace=waits_too)
    scenario.add(plain(b"c"), pace=other)
    assert scenario.entries() == [b"abc"]
    scenario.add(plain(b"d"), pace=waits_too)
    waits.release()
    assert scenario.entries() == [b"abc"]
    waits_too.release()
    assert scenario.entries() == [b"abc", b"d"]


@pytest.mark.usefixtures("of_any_size")
@pytest.mark.parametrize("taken", [False, True])
async def test_what_was_sent_or_taken_before_is_released_for_nothing(taken: bool) -> None:
    scenario = Scenario()
    scenario.busy = False
    pace = ScriptedPace(holds=True)
    scenario.add(plain(b"a"), pace=pace)
    if taken:
        assert len(scenario.groups.take(scenario.producer)) == 1
    else:
        scenario.groups.flush_all()
    pace.release()
    assert len(scenario.sent) == (not taken)


async def test_a_group_above_the_topic_s_own_limit_comes_again_in_smaller_ones() -> None:
    """Its members say nothing wrong: they are not told that they are too large."""
    refusal = PulsarError(pb.NotAllowedError, "Exceed maximum message size")
    scenario = Scenario(max_bytes=100)
    for _ in range(2):
        scenario.add(plain(bytes(20)))
    await asyncio.sleep(0)
    (group,) = scenario.sent
    told = scenario.groups.error_of(group, refusal)
    assert isinstance(told, KafkaError)
    assert told.code == ErrorCode.KAFKA_STORAGE_ERROR
    for _ in range(2):
        scenario.add(plain(bytes(20)))
    await asyncio.sleep(0)
    assert [len(data) for data in scenario.entries()[1:]] == [20, 20]


async def test_an_entry_above_the_topic_s_own_limit_is_too_large_as_a_batch_or_as_a_record() -> None:
    refusal = PulsarError(pb.NotAllowedError, "Exceed maximum message size")
    scenario = Scenario()
    one, several = scenario.add(plain(b"a")), scenario.add(plain(b"b", 2))
    told = [translate(scenario.groups.error_of(append, refusal)).code for append in (one, several)]
    assert told == [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE]
    other = PulsarError(pb.NotAllowedError, "for what is in it")
    assert scenario.groups.error_of(several, other) is other
