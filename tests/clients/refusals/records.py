"""Records: written, read, looked up, deleted."""

from __future__ import annotations

from typing import Any

from bridge.apis import delete_records, fetch, list_offsets, offset_for_leader_epoch, produce
from bridge.kafka import fetch_wire, produce_wire
from tests.clients.refusals import batches
from tests.clients.refusals.case import Case, World

PIN: list[str] = []


def write(topic: str, records: bytes | None, partition: int = 0, **fields: Any) -> Any:
    """A Produce of these bytes to one partition."""
    data = produce_wire.RequestPartition(index=partition, records=records)
    topics = [produce_wire.RequestTopic(name=topic, partition_data=[data])]
    return produce_wire.Request(topic_data=topics, **{"acks": -1, "timeout_ms": 30_000, **fields})


def read(topic: str, offset: int = 0, partition: int = 0, **fields: Any) -> Any:
    """A Fetch from one partition."""
    own = {name: fields.pop(name) for name in ("current_leader_epoch", "last_fetched_epoch") if name in fields}
    wanted = fetch_wire.RequestPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20, **own)
    topics = [fetch_wire.RequestTopic(topic=topic, partitions=[wanted])]
    return fetch_wire.Request(topics=topics, **{"max_wait_ms": 0, "min_bytes": 1, **fields})


def find(topic: str, timestamp: int = -1, partition: int = 0, epoch: int = -1, replica: int = -1) -> Any:
    """A ListOffsets of one partition."""
    wanted = list_offsets.RequestPartition(partition_index=partition, timestamp=timestamp, current_leader_epoch=epoch)
    topics = [list_offsets.RequestTopic(name=topic, partitions=[wanted])]
    return list_offsets.Request(replica_id=replica, topics=topics, timeout_ms=1000)


def cut(topic: str, offset: int, partition: int = 0, timeout_ms: int = 30_000) -> Any:
    """A DeleteRecords of one partition."""
    wanted = [delete_records.RequestPartition(partition_index=partition, offset=offset)]
    topics = [delete_records.RequestTopic(name=topic, partitions=wanted)]
    return delete_records.Request(topics=topics, timeout_ms=timeout_ms)


def epoch(topic: str, leader_epoch: int, partition: int = 0, current: int = -1) -> Any:
    """An OffsetForLeaderEpoch of one partition."""
    wanted = offset_for_leader_epoch.RequestPartition(
        partition=partition, leader_epoch=leader_epoch, current_leader_epoch=current
    )
    return offset_for_leader_epoch.Request(
        replica_id=-1, topics=[offset_for_leader_epoch.RequestTopic(topic=topic, partitions=[wanted])]
    )


def twice(world: World) -> Any:
    """A Produce that names a partition twice."""
    one = write(world.topic, batches.plain())
    one.topic_data[0].partition_data *= 2
    return one


PRODUCE, FETCH, FIND = produce.API, fetch.API, list_offsets.API
CUT, EPOCH = delete_records.API, offset_for_leader_epoch.API

CASES = [
    Case("well", PRODUCE, lambda w: write(w.topic, batches.plain()), PIN),
    Case("unknown topic", PRODUCE, lambda w: write(w.missing, batches.plain()), PIN),
    Case("unknown topic, without texts", PRODUCE, lambda w: write(w.missing, batches.plain()), PIN, version=7),
    Case("unknown partition", PRODUCE, lambda w: write(w.topic, batches.plain(), 9), PIN),
    Case("negative partition", PRODUCE, lambda w: write(w.topic, batches.plain(), -1), PIN),
    Case("wrong topic name", PRODUCE, lambda w: write("a b", batches.plain()), PIN),
    Case("acks 2", PRODUCE, lambda w: write(w.topic, batches.plain(), acks=2), PIN),
    Case("acks -2", PRODUCE, lambda w: write(w.topic, batches.plain(), acks=-2), PIN),
    Case("acks 2 to an unknown topic", PRODUCE, lambda w: write(w.missing, batches.plain(), acks=2), PIN),
    Case("wrong checksum", PRODUCE, lambda w: write(w.topic, batches.wrong_checksum()), PIN),
    Case("cut off", PRODUCE, lambda w: write(w.topic, batches.plain()[:-3]), PIN),
    Case("length too large", PRODUCE, lambda w: write(w.topic, batches.plain(length=1000)), PIN),
    Case("length too small", PRODUCE, lambda w: write(w.topic, batches.plain(length=5)), PIN),
    Case("no record", PRODUCE, lambda w: write(w.topic, batches.plain(count=0, body=b"")), PIN),
    Case("fewer records than said", PRODUCE, lambda w: write(w.topic, batches.plain(count=2)), PIN),
    Case("more records than said", PRODUCE, lambda w: write(w.topic, batches.plain(body=batches.record() * 2)), PIN),
    Case("offset delta not as many", PRODUCE, lambda w: write(w.topic, batches.plain(last_delta=5)), PIN),
    Case("wrong delta in a record", PRODUCE, lambda w: write(w.topic, batches.plain(body=batches.record(delta=3))), PIN),
    Case("record is no record", PRODUCE, lambda w: write(w.topic, batches.plain(body=b"\xff" * 20)), PIN),
    Case("control batch", PRODUCE, lambda w: write(w.topic, batches.plain(attributes=0x20)), PIN),
    Case("transactional batch without an id", PRODUCE, lambda w: write(w.topic, batches.plain(attributes=0x10)), PIN),
    Case("codec 5", PRODUCE, lambda w: write(w.topic, batches.plain(attributes=5)), PIN),
    Case("codec 7", PRODUCE, lambda w: write(w.topic, batches.plain(attributes=7)), PIN),
    Case("gzip that is none", PRODUCE, lambda w: write(w.topic, batches.plain(attributes=1, body=b"none")), PIN),
    Case("zstd before v7", PRODUCE, lambda w: write(w.topic, batches.plain(attributes=4, body=b"any")), PIN, version=6),
    Case("magic 1", PRODUCE, lambda w: write(w.topic, batches.message_set(1)), PIN),
    Case("magic 0", PRODUCE, lambda w: write(w.topic, batches.message_set(0)), PIN),
    Case("magic 3", PRODUCE, lambda w: write(w.topic, batches.plain(magic=3)), PIN),
    Case("two batches", PRODUCE, lambda w: write(w.topic, batches.plain() * 2), PIN),
    Case("empty", PRODUCE, lambda w: write(w.topic, b""), PIN),
    Case("too short", PRODUCE, lambda w: write(w.topic, b"\0" * 10), PIN),
    Case("base offset 7", PRODUCE, lambda w: write(w.topic, batches.plain(base=7)), PIN),
    Case("producer without an epoch", PRODUCE, lambda w: write(w.topic, batches.plain(producer=77, epoch=-1)), PIN),
    Case("producer without a sequence", PRODUCE,
         lambda w: write(w.topic, batches.plain(producer=77, epoch=0, sequence=-1)), PIN),
    Case("sequence 5 is missing", PRODUCE, lambda w: batches.after(w, write, sequence=6), PIN),
    Case("epoch of the past", PRODUCE, lambda w: batches.after(w, write, epoch=0, first_epoch=1), PIN),
    Case("epoch of the future", PRODUCE, lambda w: batches.after(w, write, epoch=2, sequence=5), PIN),
    Case("too large", PRODUCE, lambda w: batches.too_large(w, write), PIN),
    Case("without a key, compacted", PRODUCE, lambda w: batches.keyless(w, write), PIN),
    Case("internal topic", PRODUCE, lambda w: write("__consumer_offsets", batches.plain()), PIN),
    Case("timeout 0", PRODUCE, lambda w: write(w.topic, batches.plain(), timeout_ms=0), PIN),
    #
    Case("unknown topic", FETCH, lambda w: read(w.missing), PIN),
    Case("unknown partition", FETCH, lambda w: read(w.topic, partition=9), PIN),
    Case("internal topic", FETCH, lambda w: read("__cluster_metadata"), PIN),
    Case("wrong topic name", FETCH, lambda w: read("a b"), PIN),
    Case("beyond the end", FETCH, lambda w: read(w.topic, 1000), PIN),
    Case("before the start", FETCH, lambda w: read(w.topic, -1), PIN),
    Case("epoch of the future", FETCH, lambda w: read(w.topic, current_leader_epoch=99), PIN),
    Case("last epoch of the future", FETCH, lambda w: read(w.topic, last_fetched_epoch=99), PIN),
    Case("unknown session", FETCH, lambda w: read(w.topic, session_id=99, session_epoch=1), PIN),
    Case("session ended", FETCH, lambda w: read(w.topic, session_id=99, session_epoch=-1), PIN),
    Case("epoch without a session", FETCH, lambda w: read(w.topic, session_id=0, session_epoch=5), PIN),
    Case("as a follower", FETCH, lambda w: read(w.topic, replica_id=77), PIN, version=12),
    Case("isolation level 5", FETCH, lambda w: read(w.topic, isolation_level=5), PIN),
    Case("wait of the past", FETCH, lambda w: read(w.topic, max_wait_ms=-1), PIN),
    Case("max_bytes 0", FETCH, lambda w: read(w.topic, max_bytes=0), PIN),
    #
    Case("unknown topic", FIND, lambda w: find(w.missing), PIN),
    Case("unknown partition", FIND, lambda w: find(w.topic, partition=9), PIN),
    Case("negative partition", FIND, lambda w: find(w.topic, partition=-1), PIN),
    Case("internal topic", FIND, lambda w: find("__cluster_metadata"), PIN),
    Case("wrong topic name", FIND, lambda w: find("a b"), PIN),
    Case("epoch of the future", FIND, lambda w: find(w.topic, epoch=99), PIN),
    Case("timestamp -3 before v7", FIND, lambda w: find(w.topic, -3), PIN, version=6),
    Case("timestamp -4 before v8", FIND, lambda w: find(w.topic, -4), PIN, version=7),
    Case("timestamp -5 before v9", FIND, lambda w: find(w.topic, -5), PIN, version=8),
    Case("timestamp -4", FIND, lambda w: find(w.topic, -4), PIN),
    Case("timestamp -5", FIND, lambda w: find(w.topic, -5), PIN),
    Case("timestamp -6", FIND, lambda w: find(w.topic, -6), PIN),
    Case("timestamp -99", FIND, lambda w: find(w.topic, -99), PIN),
    Case("timestamp of the far future", FIND, lambda w: find(w.topic, 1 << 60), PIN),
    Case("partition named twice", FIND, lambda w: list_offsets.Request(
        replica_id=-1, topics=find(w.topic).topics + find(w.topic, -2).topics), PIN),
    Case("as a follower", FIND, lambda w: find(w.topic, replica=77), PIN),
    #
    Case("unknown topic", CUT, lambda w: cut(w.missing, 0), PIN),
    Case("unknown partition", CUT, lambda w: cut(w.topic, 0, 9), PIN),
    Case("wrong topic name", CUT, lambda w: cut("a b", 0), PIN),
    Case("beyond the end", CUT, lambda w: cut(w.topic, 1000), PIN),
    Case("offset -2", CUT, lambda w: cut(w.topic, -2), PIN),
    Case("nothing", CUT, lambda w: cut(w.topic, 0), PIN),
    Case("timeout 0", CUT, lambda w: cut(w.topic, 0, timeout_ms=0), PIN),
    Case("compacted", CUT, lambda w: cut(batches.compacted(w), 0), PIN),
    #
    Case("unknown topic", EPOCH, lambda w: epoch(w.missing, 0), PIN),
    Case("unknown partition", EPOCH, lambda w: epoch(w.topic, 0, 9), PIN),
    Case("epoch of the future", EPOCH, lambda w: epoch(w.topic, 0, current=99), PIN),
    Case("unknown epoch", EPOCH, lambda w: epoch(w.topic, 99), PIN),
]  # fmt: skip
