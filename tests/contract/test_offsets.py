"""Offsets are dense, true and only grow; the ends of the log and look-ups by time tell the truth."""

from __future__ import annotations

import threading

import pytest
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.contract.log import Log, OutOfRange

BATCHES = (1, 2, 7, 1, 300, 3)
RECORDS = sum(BATCHES)


def test_every_record_takes_one_offset_from_0_on(log: Log) -> None:
    assert log.write_batches(BATCHES) == list(range(RECORDS))
    assert [message.offset() for message in log.read(0)] == list(range(RECORDS))


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_take_one_offset_for_each_record(log: Log, codec: str) -> None:
    log.write([b"before"])
    assert log.write([b"the same again and again"] * 50, codec=codec) == list(range(1, 51))
    assert log.write([b"after"]) == [51]
    assert [message.offset() for message in log.read(0)] == list(range(52))


def test_a_new_partition_is_empty_at_0(log: Log) -> None:
    assert log.ends() == (0, 0)
    assert log.first(0) is None


def test_latest_is_one_behind_the_last_record_as_soon_as_it_is_acknowledged(log: Log) -> None:
    for written in range(1, 21):
        (told,) = log.write([b"one"])
        assert log.ends() == (0, told + 1) == (0, written)


def test_the_ends_never_go_back_while_records_are_written(log: Log) -> None:
    done = threading.Event()
    acknowledged = [0]

    def write() -> None:
        for _ in range(150):
            acknowledged[0] = log.write([b"a", b"b", b"c"])[-1] + 1
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen = [log.ends()]
    while not done.is_set():
        before = acknowledged[0]
        seen.append(log.ends())
        assert seen[-1][1] >= before
    writer.join()
    assert seen == sorted(seen)
    assert log.ends() == (0, 450)


def test_a_fetch_at_any_offset_in_range_gives_that_record(log: Log) -> None:
    log.write_batches((1, 7, 12, 1, 9))
    for offset in range(30):
        first = log.first(offset)
        assert first is not None and first.offset() == offset


def test_a_fetch_at_the_end_waits_for_the_next_record(log: Log) -> None:
    log.write_batches((5,))
    reading = log.reading(5)
    assert next(reading) is None
    log.write([b"next"])
    message = next(each for each in reading if each is not None)
    assert (message.offset(), message.value()) == (5, b"next")
    reading.close()


def test_a_fetch_outside_the_log_is_out_of_range(log: Log) -> None:
    log.write_batches((5,))
    with pytest.raises(OutOfRange):
        log.first(6)
    with pytest.raises(OutOfRange):
        log.first(1_000_000)


def test_the_start_only_moves_up_and_what_is_before_it_is_out_of_range(admin: AdminClient, log: Log) -> None:
    log.write_batches((4, 4, 4))
    starts = [log.ends()[0]]
    for before in (3, 8, 8, 12):
        deleted = admin.delete_records([TopicPartition(log.topic, 0, before)])
        assert next(iter(deleted.values())).result(30).low_watermark == before
        starts.append(log.ends()[0])
        with pytest.raises(OutOfRange):
            log.first(before - 1)
        following = log.first(before)
        assert (following.offset() if following else 12) == before
    assert starts == [0, 3, 8, 8, 12]
    assert log.ends() == (12, 12)
    assert log.write([b"after"]) == [12]


def test_a_look_up_by_time_gives_the_first_record_not_older(log: Log) -> None:
    base = 1_700_000_000_000
    for at in range(20):
        log.write([b"%d" % at], timestamp=base + 1000 * at)
    for at in range(20):
        assert log.at_time(base + 1000 * at) == at
        assert log.at_time(base + 1000 * at - 1) == at
    assert log.at_time(1) == 0
    assert log.at_time(base + 19_001) == -1


def test_committed_readers_come_to_the_same_end(admin: AdminClient, log: Log) -> None:
    """Spark asks for the last stable offset and waits until it has read up to it."""
    log.write_batches((10,))
    where = TopicPartition(log.topic, 0)
    for isolation in IsolationLevel:
        answer = admin.list_offsets({where: OffsetSpec.latest()}, isolation_level=isolation)[where].result(30)
        assert answer.offset == 10
    assert [message.offset() for message in log.read(4, isolation="read_committed")] == list(range(4, 10))


def test_an_unknown_topic_is_named_so(admin: AdminClient) -> None:
    with pytest.raises(KafkaException) as refusal:
        next(iter(admin.describe_topics(TopicCollection(["no-such-topic"])).values())).result(30)
    assert refusal.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
