"""What KoP's transactions aborted, by the entries of a partition and by what KoP has kept."""

from __future__ import annotations

import random

import pytest

from bridge.cli.kop.outcomes import Outcome, PartitionOutcomes, Settled, Snapshots, States, decode_snapshot
from bridge.cli.kop.records import NotKops
from bridge.codec import Record
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import Entry, Position
from bridge.security.left_out import Run
from tests.cli.kop.kop_log import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    DEAD,
    EMPTY,
    FENCING,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    Sent,
    java_partition,
    snapshot,
    state,
)
from tests.clients.kop_entries import Left, batch_v2, control, marker, message_set, messages, some, verbatim

TOPIC = "persistent://public/default/orders"
PARTITION = f"{TOPIC}-partition-3"


class Log:
    """The entries of a partition, as a reader and the admin interface tell of them."""

    def __init__(self) -> None:
        self.found = PartitionOutcomes()
        self.end = 0

    def add(self, left: Left, producer_name: str = "") -> Run:
        """The next entry; where it is."""
        metadata = pb.MessageMetadata()
        metadata.CopyFrom(left.metadata)
        metadata.producer_name = producer_name
        first, self.end = self.end, self.end + metadata.num_messages_in_batch
        if metadata.HasField("marker_type"):
            if metadata.HasField("txnid_most_bits"):
                committed = metadata.marker_type == pb.TXN_COMMIT
                self.found.end(metadata.txnid_most_bits, metadata.txnid_least_bits, committed=committed)
        else:
            self.found.fold(Entry(Position(0, first), self.end - 1, None, metadata, memoryview(left.payload), 0))
        return Run(first, self.end)

    def settled(self, *, known: Outcome = Outcome.UNKNOWN) -> Settled:
        return self.found.settle(lambda producer_id, offset: known)


def written(kind: str, producer: int | None, count: int = 2) -> Left:
    """An entry of a transaction, or a plain one."""
    records = some(0, count, headers=False)
    if kind == "pulsar":
        return messages(*records, producer=producer)
    if producer is None:
        return verbatim(batch_v2(records), *records)
    return verbatim(batch_v2(records, transactional=True, producer=producer), *records)


def ended(kind: str, producer: int, *, committed: bool) -> Left:
    if kind == "pulsar":
        return marker(producer, committed=committed)
    return verbatim(control(producer, committed=committed), count=1)


@pytest.mark.parametrize("kind", ["kafka", "pulsar", "both"])
@pytest.mark.parametrize("seed", range(20))
def test_any_history_of_transactions(kind: str, seed: int) -> None:
    """Beside one another, in whatever format each entry is; of control batches those that abort are left out, too."""
    chance, log = random.Random(seed), Log()
    opened: dict[int, list[Run]] = {}
    left_out: set[int] = set()
    aborted = records = transactions = 0
    for _ in range(300):
        form = chance.choice(("kafka", "pulsar")) if kind == "both" else kind
        producer = chance.randrange(6)
        what = chance.random()
        if what < 0.2:
            log.add(written(form, None, chance.randint(1, 4)))
        elif what < 0.75:
            opened.setdefault(producer, []).append(log.add(written(form, producer, chance.randint(1, 4))))
        else:
            committed = chance.random() < 0.5
            its_end, its = log.add(ended(form, producer, committed=committed)), opened.pop(producer, [])
            transactions += bool(its)
            if its and not committed:
                aborted += 1
                records += sum(run.next - run.first for run in its)
                left_out |= {
                    offset for run in [*its, *([its_end] if form == "kafka" else [])] for offset in range(*run)
                }
    found = log.settled()
    assert {offset for run in found.runs for offset in range(*run)} == left_out
    assert (found.aborted, found.records, found.unknown) == (aborted, records, len(opened))
    assert found.transactions == transactions + len(opened)


@pytest.mark.parametrize(
    ("outcome", "aborted", "never_ended", "unknown"),
    [
        (Outcome.COMMITTED, 0, 0, 0),
        (Outcome.ABORTED, 1, 0, 0),
        (Outcome.NEVER_ENDED, 1, 1, 0),
        (Outcome.UNKNOWN, 0, 0, 1),
    ],
)
def test_what_has_no_end_is_settled_by_what_is_known(
    outcome: Outcome, aborted: int, never_ended: int, unknown: int
) -> None:
    log = Log()
    run = log.add(written("kafka", 5, 3))
    found = log.settled(known=outcome)
    assert found.runs == ([run] if aborted else [])
    assert (found.transactions, found.aborted, found.records) == (1, aborted, 3 * aborted)
    assert (found.never_ended, found.unknown) == (never_ended, unknown)


def test_a_producer_s_next_transaction_is_another_one() -> None:
    log = Log()
    first, first_end = log.add(written("kafka", 5)), log.add(ended("kafka", 5, committed=False))
    log.add(written("kafka", 5))
    log.add(ended("kafka", 5, committed=True))
    assert log.settled().runs == [Run(first.first, first_end.next)]


def test_who_fences_a_producer_ends_its_transaction_by_another_epoch() -> None:
    log = Log()
    run = log.add(written("pulsar", 5))
    assert log.found.end(5, 1, committed=False)
    assert log.settled().runs == [run]


def test_transactions_of_pulsar_s_own_clients_end_by_their_whole_id() -> None:
    log = Log()
    log.add(written("pulsar", 0), "a producer")
    assert not log.found.end(0, 7, committed=False)
    log.found.end(0, 0, committed=True)
    assert log.settled() == Settled([], 1, 0, 0, 0, 0)


def test_an_end_without_records_says_nothing() -> None:
    log = Log()
    log.add(ended("kafka", 5, committed=False))
    log.add(ended("pulsar", 6, committed=False))
    assert log.settled() == Settled([], 0, 0, 0, 0, 0)


def test_the_bridge_s_own_transactions_are_not_kop_s() -> None:
    log, records = Log(), some(0, 2)
    own = verbatim(batch_v2(records, transactional=True, producer=5), *records)
    own.metadata.properties.add(key="kafka.batch", value='{"v":1,"t":1,"b":0,"p":[5,0,0],"x":[0,1]}')
    log.add(own)
    copied = written("kafka", 5)
    copied.metadata.replicated_from = "elsewhere"
    log.add(copied)
    log.add(ended("kafka", 5, committed=False))
    assert log.settled().runs == []


def test_what_cannot_be_told_is_passed_over_and_counted() -> None:
    log, records = Log(), some(0, 2)
    transactional = batch_v2(records, transactional=True, producer=5)
    log.add(verbatim(transactional[:-1] + bytes((transactional[-1] ^ 1,)), *records))
    log.add(verbatim(transactional + batch_v2(records), *records, *records))
    log.add(verbatim(message_set(1, records), *records))
    log.add(verbatim(b"x", *records))
    unindexed = pb.MessageMetadata()
    unindexed.CopyFrom(written("kafka", 5).metadata)
    log.found.fold(Entry(Position(0, 9), None, None, unindexed, memoryview(transactional), 0))
    log.add(ended("kafka", 5, committed=False))
    assert log.settled().runs == []
    assert log.found.counts == {"unreadable": 2, "mixed": 1, "unindexed": 1}


# ---- snapshots -------------------------------------------------------------------------------------------------------


def snapshots(*sent: Sent) -> Snapshots:
    found = Snapshots()
    for key, value in sent:
        found.fold(0, Record(0, 0, key, value, ()))
    return found


@pytest.mark.parametrize("topic_id", ["", "75441ec7-c477-4a93-8117-78341e80ffce", None])
def test_a_snapshot_settles_what_lies_before_its_end(topic_id: str | None) -> None:
    sent = snapshot(PARTITION, 100, [(7, 80, 90)], [(5, 10, 20), (7, 30, 40), (5, 50, 50)], topic_id)
    found = snapshots(sent).of(PARTITION, topic_id)
    assert found is not None
    told = {where: found.settles(*where) for where in [(5, 9), (5, 10), (5, 20), (5, 21), (5, 50), (5, 51), (6, 15)]}
    aborted = {(5, 10), (5, 20), (5, 50)}
    assert told == {where: Outcome.ABORTED if where in aborted else Outcome.COMMITTED for where in told}
    assert found.settles(7, 79) is Outcome.COMMITTED
    assert found.settles(7, 80) is Outcome.UNKNOWN
    assert found.settles(5, 100) is Outcome.UNKNOWN


def test_the_last_snapshot_of_a_partition_counts() -> None:
    found = snapshots(snapshot(PARTITION, 100), snapshot(PARTITION, 50), snapshot(f"{TOPIC}-partition-4", 7))
    last = found.of(PARTITION, None)
    assert last is not None
    assert last.next == 50
    assert found.of("another", None) is None


def test_the_snapshot_of_a_topic_that_was_deleted_says_nothing() -> None:
    found = snapshots(snapshot(PARTITION, 100, topic_id="former"))
    assert found.of(PARTITION, "former") is not None
    assert found.of(PARTITION, "now") is None
    assert found.of(PARTITION, None) is None


def test_a_snapshot_under_another_key_does_not_count() -> None:
    found = snapshots((b"another", snapshot(PARTITION, 100)[1]), (PARTITION.encode(), b""))
    assert found.of(PARTITION, None) is None
    assert found.counts == {"misplaced": 1}


@pytest.mark.parametrize("topic_id", ["", "id", None])
def test_no_part_of_a_snapshot_is_one(topic_id: str | None) -> None:
    _, whole = snapshot(PARTITION, 100, [(7, 80, 90)], [(5, 10, 20)], topic_id)
    for end in range(len(whole)):
        with pytest.raises(NotKops):
            decode_snapshot(whole[:end])
    with pytest.raises(NotKops):
        decode_snapshot(whole + b"\0")
    with pytest.raises(NotKops):
        decode_snapshot(whole.replace((5).to_bytes(8, "big"), b"\xff" * 8) + b"\0")


# ---- states ----------------------------------------------------------------------------------------------------------


def states(*sent: Sent, at: str = "t") -> States:
    found = States(50)
    for key, value in sent:
        found.fold(java_partition(at), Record(0, 0, key, value, ()))
    return found


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (EMPTY, Outcome.UNKNOWN),
        (ONGOING, Outcome.NEVER_ENDED),
        (PREPARE_COMMIT, Outcome.COMMITTED),
        (PREPARE_ABORT, Outcome.ABORTED),
        (FENCING, Outcome.ABORTED),
        (COMPLETE_COMMIT, Outcome.UNKNOWN),
        (COMPLETE_ABORT, Outcome.UNKNOWN),
        (DEAD, Outcome.UNKNOWN),
    ],
)
def test_a_state_settles_the_partitions_that_it_names(status: int, outcome: Outcome) -> None:
    found = states(state("t", 5, status, (TOPIC, 1), (TOPIC, 3)))
    assert found.settles(5, PARTITION) is outcome
    assert found.settles(5, f"{TOPIC}-partition-2") is Outcome.UNKNOWN
    assert found.settles(6, PARTITION) is Outcome.UNKNOWN


def test_the_last_state_of_a_transactional_id_counts() -> None:
    first, last = state("t", 5, ONGOING, (TOPIC, 3)), state("t", 5, PREPARE_COMMIT, (TOPIC, 3))
    assert states(first, last).settles(5, PARTITION) is Outcome.COMMITTED
    assert states(last, first).settles(5, PARTITION) is Outcome.NEVER_ENDED
    assert states(first, (first[0], b"")).settles(5, PARTITION) is Outcome.UNKNOWN


def test_what_is_no_state_is_passed_over_and_counted() -> None:
    good = state("t", 5, ONGOING, (TOPIC, 3))
    bad: list[Sent] = [
        (None, good[1]), (b"", good[1]), (b"\0\1" + (good[0] or b"")[2:], good[1]), (good[0], good[1][:-1]),
        (good[0], good[1] + b"\0"), (good[0], b"\0\1" + good[1][2:]), (good[0], b"x"), state("t", 5, 8, (TOPIC, 3)),
    ]  # fmt: skip
    found = states(good, *bad)
    assert found.settles(5, PARTITION) is Outcome.NEVER_ENDED
    assert found.counts == {"unreadable": len(bad)}
    elsewhere = states(good, at="another")
    assert elsewhere.settles(5, PARTITION) is Outcome.UNKNOWN
    assert elsewhere.counts == {"misplaced": 1}
