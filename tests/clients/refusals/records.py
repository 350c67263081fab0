"""Records: written, read, looked up, deleted."""

from __future__ import annotations

import gzip
from functools import partial
from typing import Any

from bridge.apis import delete_records, fetch, list_offsets, offset_for_leader_epoch, produce
from bridge.kafka import fetch_wire, produce_wire
from tests.clients.refusals import batches
from tests.clients.refusals.case import Case, World


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


FUTURE = 2**31 - 1
"""A leader epoch that no leader has yet: those of the bridge are seconds since 2020."""

PRODUCE, FETCH, FIND = produce.API, fetch.API, list_offsets.API
CUT, EPOCH = delete_records.API, offset_for_leader_epoch.API

WRONG_TIME = "INVALID_TIMESTAMP: One or more records have been rejected due to invalid timestamp"

CASES = [
    Case("well", PRODUCE, lambda w: write(w.topic, batches.plain()), "NONE"),
    Case("unknown topic", PRODUCE, lambda w: write(w.missing, batches.plain()), "UNKNOWN_TOPIC_OR_PARTITION"),
    Case("unknown topic, without texts", PRODUCE, lambda w: write(w.missing, batches.plain()),
         "UNKNOWN_TOPIC_OR_PARTITION", version=7),
    Case("unknown partition", PRODUCE, lambda w: write(w.topic, batches.plain(), 9), "UNKNOWN_TOPIC_OR_PARTITION"),
    Case("negative partition", PRODUCE, lambda w: write(w.topic, batches.plain(), -1), "UNKNOWN_TOPIC_OR_PARTITION"),
    Case("wrong topic name", PRODUCE, lambda w: write("a b", batches.plain()), "UNKNOWN_TOPIC_OR_PARTITION"),
    Case("acks 2", PRODUCE, lambda w: write(w.topic, batches.plain(), acks=2), "INVALID_REQUIRED_ACKS"),
    Case("acks -2", PRODUCE, lambda w: write(w.topic, batches.plain(), acks=-2), "INVALID_REQUIRED_ACKS"),
    Case("acks 2 to an unknown topic", PRODUCE, lambda w: write(w.missing, batches.plain(), acks=2),
         "UNKNOWN_TOPIC_OR_PARTITION", ours="INVALID_REQUIRED_ACKS", why="nothing of the request is looked at then"),
    Case("wrong checksum", PRODUCE, lambda w: write(w.topic, batches.wrong_checksum()), "CORRUPT_MESSAGE",
         ours="CORRUPT_MESSAGE: the batch's checksum does not match", why="Kafka says no more than the code"),
    Case("cut off", PRODUCE, lambda w: write(w.topic, batches.plain()[:-3]), "INVALID_RECORD",
         ours="INVALID_RECORD: 67 bytes are no whole batch", why="Kafka says no more than the code"),
    Case("length too large", PRODUCE, lambda w: write(w.topic, batches.plain(length=1000)), "INVALID_RECORD",
         ours="INVALID_RECORD: 70 bytes are no whole batch", why="Kafka says no more than the code"),
    Case("length too small", PRODUCE, lambda w: write(w.topic, batches.plain(length=5)),
         "CORRUPT_MESSAGE: Record size 5 is less than the minimum record overhead (14)",
         ours="CORRUPT_MESSAGE: a batch says 17 bytes, its header has 61", why="the text is more exact"),
    Case("no record", PRODUCE, lambda w: write(w.topic, batches.plain(count=0, body=b"")), "INVALID_RECORD",
         ours="INVALID_RECORD: last offset delta 0 with 0 records", why="Kafka says no more than the code"),
    Case("fewer records than said", PRODUCE, lambda w: write(w.topic, batches.plain(count=2)), "INVALID_RECORD",
         ours="INVALID_RECORD: last offset delta 0 with 2 records", why="Kafka says no more than the code"),
    Case("more records than said", PRODUCE, lambda w: write(w.topic, batches.plain(body=batches.record() * 2)),
         "INVALID_RECORD", ours="INVALID_RECORD: bytes follow the last record", why="Kafka says no more than the code"),
    Case("offset delta not as many", PRODUCE, lambda w: write(w.topic, batches.plain(last_delta=5)), "INVALID_RECORD",
         ours="INVALID_RECORD: last offset delta 5 with 1 records", why="Kafka says no more than the code"),
    Case("wrong delta in a record", PRODUCE, lambda w: write(w.topic, batches.plain(body=batches.record(delta=3))),
         "NONE", ours="INVALID_RECORD: record 0: its offset delta is not its place",
         why="Kafka stores what its consumers cannot read"),
    Case("record is no record", PRODUCE, lambda w: write(w.topic, batches.plain(body=b"\xff" * 20)),
         "UNKNOWN_SERVER_ERROR", ours="INVALID_RECORD: record 0: a varint has more bits than it may",
         why="Kafka fails on it"),
    Case("control batch", PRODUCE, lambda w: write(w.topic, batches.plain(attributes=0x20)), "INVALID_RECORD",
         ours="INVALID_RECORD: clients may not write control batches", why="Kafka says no more than the code"),
    Case("transactional batch without an id", PRODUCE, lambda w: write(w.topic, batches.plain(attributes=0x10)),
         "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
    Case("codec 5", PRODUCE, lambda w: write(w.topic, batches.plain(attributes=5)), "UNKNOWN_SERVER_ERROR",
         ours="INVALID_RECORD: compression codec 5 is unknown", why="Kafka fails on it"),
    Case("codec 7", PRODUCE, lambda w: write(w.topic, batches.plain(attributes=7)), "UNKNOWN_SERVER_ERROR",
         ours="INVALID_RECORD: compression codec 7 is unknown", why="Kafka fails on it"),
    Case("gzip that is none", PRODUCE, lambda w: write(w.topic, batches.plain(attributes=1, body=b"none")),
         "UNKNOWN_SERVER_ERROR", ours="INVALID_RECORD: the records are no gzip member", why="Kafka fails on it"),
    Case("40 gzip members", PRODUCE, lambda w: write(w.topic, batches.compressed(1, gzip.compress, 40)), "NONE"),
    Case("bytes after a gzip member", PRODUCE, lambda w: write(w.topic, batches.compressed(1, gzip.compress,
         after=b"more")), "NONE"),
    Case("half a gzip member after another", PRODUCE, lambda w: write(w.topic, batches.compressed(1, gzip.compress,
         after=gzip.compress(b"more")[:20])), "INVALID_RECORD",
         ours="INVALID_RECORD: GZIP data cannot be decompressed: the stream ends in the middle",
         why="Kafka says no more than the code"),
    Case("40 xerial streams", PRODUCE, lambda w: write(w.topic, batches.compressed(2, batches.xerial, 40)), "NONE"),
    Case("bytes after a xerial stream", PRODUCE, lambda w: write(w.topic, batches.compressed(2, batches.xerial,
         after=b"two")), "NONE"),
    Case("chunk of nothing after a xerial stream", PRODUCE, lambda w: write(w.topic, batches.compressed(2,
         batches.xerial, after=bytes(4))), "UNKNOWN_SERVER_ERROR",
         ours="INVALID_RECORD: a snappy chunk is empty or goes beyond its stream", why="Kafka fails on it"),
    Case("snappy in frames of its own", PRODUCE, lambda w: write(w.topic, batches.compressed(2,
         batches.snappy_framed)), "UNKNOWN_SERVER_ERROR",
         ours="INVALID_RECORD: the records are no snappy block, and not in snappy-java's frames",
         why="Kafka fails on it"),
    Case("lz4", PRODUCE, lambda w: write(w.topic, batches.compressed(3, batches.lz4)), "NONE"),
    Case("lz4 with checksums", PRODUCE, lambda w: write(w.topic, batches.compressed(3, partial(batches.lz4,
         block_checksum=True, content_checksum=True, store_size=True))), "NONE"),
    Case("lz4 with linked blocks", PRODUCE, lambda w: write(w.topic, batches.compressed(3, partial(batches.lz4,
         block_linked=True))), "UNKNOWN_SERVER_ERROR",
         ours="INVALID_RECORD: the LZ4 frame has linked blocks, which no Java client reads: write independent ones",
         why="Kafka fails on it"),
    Case("lz4, two frames", PRODUCE, lambda w: write(w.topic, batches.compressed(3, batches.lz4, 2)), "INVALID_RECORD",
         ours="INVALID_RECORD: there are several LZ4 frames, of which Java clients read the first",
         why="Kafka says no more than the code"),
    Case("bytes after an lz4 frame", PRODUCE, lambda w: write(w.topic, batches.compressed(3, batches.lz4,
         after=b"more")), "NONE"),
    Case("lz4 with a wrong checksum of all", PRODUCE, lambda w: write(w.topic, batches.compressed(3,
         lambda data: batches.lz4(data, content_checksum=True)[:-4] + bytes(4))), "NONE",
         ours="INVALID_RECORD: LZ4 data cannot be decompressed: LZ4F_decompress failed with code: "
         "ERROR_contentChecksum_invalid", why="Kafka does not look at it; the data is damaged"),
    Case("40 zstd frames", PRODUCE, lambda w: write(w.topic, batches.compressed(4, batches.zstd_frame, 40)), "NONE"),
    Case("zstd with a window of 128 MiB", PRODUCE, lambda w: write(w.topic, batches.compressed(4,
         partial(batches.zstd_frame, exponent=27))), "NONE"),
    Case("zstd with a window of 256 MiB", PRODUCE, lambda w: write(w.topic, batches.compressed(4,
         partial(batches.zstd_frame, exponent=28))), "UNKNOWN_SERVER_ERROR",
         ours="INVALID_RECORD: the zstd frame has a window above 128 MiB, which clients do not open",
         why="Kafka fails on it"),
    Case("zstd with a dictionary", PRODUCE, lambda w: write(w.topic, batches.compressed(4,
         partial(batches.zstd_frame, dictionary=b"\1"))), "UNKNOWN_SERVER_ERROR",
         ours="INVALID_RECORD: the zstd frame needs a dictionary, which clients do not have", why="Kafka fails on it"),
    Case("bytes after a zstd frame", PRODUCE, lambda w: write(w.topic, batches.compressed(4, batches.zstd_frame,
         after=b"more")), "UNKNOWN_SERVER_ERROR", ours="INVALID_RECORD: the records are no zstd frame",
         why="Kafka fails on it"),
    Case("log append times", PRODUCE, lambda w: write(w.topic, batches.plain(attributes=8)), "NONE",
         ours="INVALID_TIMESTAMP: only a broker may write log append times",
         why="Kafka stores what its own producers never send"),
    Case("zstd before v7", PRODUCE, lambda w: write(w.topic, batches.plain(attributes=4, body=b"any")),
         "UNSUPPORTED_COMPRESSION_TYPE", version=6),
    Case("magic 1", PRODUCE, lambda w: write(w.topic, batches.message_set(1)), "INVALID_RECORD",
         ours="INVALID_RECORD: Produce v12 takes record batches of magic 2 only",
         why="Kafka says no more than the code"),
    Case("magic 0", PRODUCE, lambda w: write(w.topic, batches.message_set(0)), "INVALID_RECORD",
         ours="INVALID_RECORD: Produce v12 takes record batches of magic 2 only",
         why="Kafka says no more than the code"),
    Case("magic 3", PRODUCE, lambda w: write(w.topic, batches.plain(magic=3)),
         "CORRUPT_MESSAGE: Invalid magic found in record: 3", ours="CORRUPT_MESSAGE: magic 3 is not record batch v2",
         why="the text is more exact"),
    Case("two batches", PRODUCE, lambda w: write(w.topic, batches.plain() * 2), "INVALID_RECORD",
         ours="INVALID_RECORD: Produce requests with version 12 are only allowed to contain exactly one record batch "
         "per partition", why="Kafka says no more than the code"),
    Case("empty", PRODUCE, lambda w: write(w.topic, b""), "INVALID_RECORD",
         ours="INVALID_RECORD: 0 bytes are no whole batch", why="Kafka says no more than the code"),
    Case("too short", PRODUCE, lambda w: write(w.topic, b"\0" * 10), "INVALID_RECORD",
         ours="INVALID_RECORD: 10 bytes are no whole batch", why="Kafka says no more than the code"),
    Case("base offset 7", PRODUCE, lambda w: write(w.topic, batches.plain(base=7)), "INVALID_RECORD", ours="NONE",
         why="it can be stored as it is meant"),
    Case("producer without an epoch", PRODUCE, lambda w: write(w.topic, batches.plain(producer=77, epoch=-1)),
         "INVALID_RECORD", ours="INVALID_RECORD: producer id 77 without an epoch or a sequence",
         why="Kafka says no more than the code"),
    Case("producer without a sequence", PRODUCE, lambda w: write(w.topic, batches.plain(producer=77, epoch=0,
         sequence=-1)), "INVALID_RECORD", ours="INVALID_RECORD: producer id 77 without an epoch or a sequence",
         why="Kafka says no more than the code"),
    Case("sequence 5 is missing", PRODUCE, lambda w: batches.after(w, write, sequence=6),
         "OUT_OF_ORDER_SEQUENCE_NUMBER", ours="OUT_OF_ORDER_SEQUENCE_NUMBER: sequence 6 where 5 is next",
         why="Kafka says no more than the code"),
    Case("epoch of the past", PRODUCE, lambda w: batches.after(w, write, epoch=0, first_epoch=1),
         "INVALID_PRODUCER_EPOCH", ours="INVALID_PRODUCER_EPOCH: epoch 0 is older than 1",
         why="Kafka says no more than the code"),
    Case("epoch of the future", PRODUCE, lambda w: batches.after(w, write, epoch=2, sequence=5),
         "OUT_OF_ORDER_SEQUENCE_NUMBER", ours="OUT_OF_ORDER_SEQUENCE_NUMBER: epoch 2 begins with sequence 5, not 0",
         why="Kafka says no more than the code"),
    Case("too large", PRODUCE, lambda w: batches.too_large(w, write), "MESSAGE_TOO_LARGE",
         ours="MESSAGE_TOO_LARGE: a batch of 190 bytes is above the topic's max.message.bytes of 100",
         why="Kafka says no more than the code"),
    Case("without a key, compacted", PRODUCE, lambda w: batches.keyless(w, write),
         "INVALID_RECORD: One or more records have been rejected due to 1 record errors in total, and only showing "
         "the first three errors at most: [RecordError(batchIndex=0, message='Compacted topic cannot accept "
         "message without key in topic partition {new}-0')]",
         ours="INVALID_RECORD: a record has no key, and the topic's cleanup.policy is to compact",
         why="the first such record is enough to refuse the batch"),
    Case("59 minutes ahead", PRODUCE, lambda w: batches.moved(w, write, 59), "NONE"),
    Case("2 hours ahead", PRODUCE, lambda w: batches.moved(w, write, 120), WRONG_TIME,
         ours="INVALID_TIMESTAMP: timestamp {time} is more than message.timestamp.after.max.ms=3600000 ahead",
         why="the text is more exact"),
    Case("2 hours ahead, as the topic allows", PRODUCE, lambda w: batches.moved(w, write, 120,
         message_timestamp_after_max_ms="7200000"), "NONE"),
    Case("2 hours old, which the topic forbids", PRODUCE, lambda w: batches.moved(w, write, -120,
         message_timestamp_before_max_ms="3600000"), WRONG_TIME,
         ours="INVALID_TIMESTAMP: timestamp {time} is more than message.timestamp.before.max.ms=3600000 ago",
         why="the text is more exact"),
    Case("no timestamp", PRODUCE, lambda w: batches.timed(w, write, -1, message_timestamp_before_max_ms="0"), "NONE"),
    Case("timestamp 0", PRODUCE, lambda w: batches.timed(w, write, 0), "NONE"),
    Case("timestamp -2", PRODUCE, lambda w: batches.timed(w, write, -2), "NONE",
         ours="INVALID_TIMESTAMP: timestamp -2 is negative, and not -1 for none",
         why="Kafka stores what its own producers may not send"),
    Case("timestamp -2, to be compressed", PRODUCE, lambda w: batches.timed(w, write, -2, compression_type="lz4"),
         "UNKNOWN_SERVER_ERROR", ours="INVALID_TIMESTAMP: timestamp -2 is negative, and not -1 for none",
         why="Kafka fails on it"),
    Case("the least timestamp", PRODUCE, lambda w: batches.timed(w, write, -(1 << 63)), WRONG_TIME,
         ours="INVALID_TIMESTAMP: timestamp -9223372036854775808 is negative, and not -1 for none",
         why="the text is more exact"),
    Case("the greatest timestamp", PRODUCE, lambda w: batches.timed(w, write, (1 << 63) - 1), WRONG_TIME,
         ours="INVALID_TIMESTAMP: timestamp 9223372036854775807 is more than message.timestamp.after.max.ms=3600000 "
         "ahead", why="the text is more exact"),
    Case("the greatest timestamp, as the topic allows", PRODUCE, lambda w: batches.timed(w, write, (1 << 63) - 1,
         message_timestamp_after_max_ms=str((1 << 63) - 1)), "NONE"),
    Case("internal topic", PRODUCE, lambda w: write("__consumer_offsets", batches.plain()), "INVALID_TOPIC_EXCEPTION"),
    Case("timeout 0", PRODUCE, lambda w: write(w.topic, batches.plain(), timeout_ms=0), "NONE"),
    #
    Case("unknown topic", FETCH, lambda w: read(w.missing), "UNKNOWN_TOPIC_OR_PARTITION"),
    Case("unknown partition", FETCH, lambda w: read(w.topic, partition=9), "UNKNOWN_TOPIC_OR_PARTITION"),
    Case("internal topic", FETCH, lambda w: read("__cluster_metadata"), "UNKNOWN_TOPIC_OR_PARTITION"),
    Case("wrong topic name", FETCH, lambda w: read("a b"), "UNKNOWN_TOPIC_OR_PARTITION"),
    Case("beyond the end", FETCH, lambda w: read(w.topic, 1000), "OFFSET_OUT_OF_RANGE"),
    Case("before the start", FETCH, lambda w: read(w.topic, -1), "OFFSET_OUT_OF_RANGE"),
    Case("epoch of the future", FETCH, lambda w: read(w.topic, current_leader_epoch=FUTURE), "UNKNOWN_LEADER_EPOCH"),
    Case("last epoch of the future", FETCH, lambda w: read(w.topic, last_fetched_epoch=99), "OFFSET_OUT_OF_RANGE",
         ours="NONE", why="there are no followers"),
    Case("unknown session", FETCH, lambda w: read(w.topic, session_id=99, session_epoch=1),
         "FETCH_SESSION_ID_NOT_FOUND"),
    Case("session ended", FETCH, lambda w: read(w.topic, session_id=99, session_epoch=-1), "NONE"),
    Case("epoch without a session", FETCH, lambda w: read(w.topic, session_id=0, session_epoch=5),
         "FETCH_SESSION_ID_NOT_FOUND"),
    Case("as a follower", FETCH, lambda w: read(w.topic, replica_id=77), "NOT_LEADER_OR_FOLLOWER", version=12,
         ours="NONE", why="there are no followers"),
    Case("isolation level 5", FETCH, lambda w: read(w.topic, isolation_level=5),
         "UNKNOWN_SERVER_ERROR | UNKNOWN_SERVER_ERROR", ours="NONE", why="Kafka fails on it"),
    Case("wait of the past", FETCH, lambda w: read(w.topic, max_wait_ms=-1), "NONE"),
    Case("max_bytes 0", FETCH, lambda w: read(w.topic, max_bytes=0), "NONE"),
    #
    Case("unknown topic", FIND, lambda w: find(w.missing), "UNKNOWN_TOPIC_OR_PARTITION"),
    Case("unknown partition", FIND, lambda w: find(w.topic, partition=9), "UNKNOWN_TOPIC_OR_PARTITION"),
    Case("negative partition", FIND, lambda w: find(w.topic, partition=-1), "UNKNOWN_TOPIC_OR_PARTITION"),
    Case("internal topic", FIND, lambda w: find("__cluster_metadata"), "UNKNOWN_TOPIC_OR_PARTITION"),
    Case("wrong topic name", FIND, lambda w: find("a b"), "UNKNOWN_TOPIC_OR_PARTITION"),
    Case("epoch of the future", FIND, lambda w: find(w.topic, epoch=FUTURE), "UNKNOWN_LEADER_EPOCH"),
    Case("timestamp -3 before v7", FIND, lambda w: find(w.topic, -3), "UNSUPPORTED_VERSION", version=6),
    Case("timestamp -4 before v8", FIND, lambda w: find(w.topic, -4), "UNSUPPORTED_VERSION", version=7),
    Case("timestamp -5 before v9", FIND, lambda w: find(w.topic, -5), "UNSUPPORTED_VERSION", version=8),
    Case("timestamp -4", FIND, lambda w: find(w.topic, -4), "NONE"),
    Case("timestamp -5", FIND, lambda w: find(w.topic, -5), "NONE"),
    Case("timestamp -6", FIND, lambda w: find(w.topic, -6), "UNSUPPORTED_VERSION"),
    Case("timestamp -99", FIND, lambda w: find(w.topic, -99), "UNSUPPORTED_VERSION"),
    Case("timestamp of the far future", FIND, lambda w: find(w.topic, 1 << 60), "NONE"),
    Case("partition named twice", FIND, lambda w: list_offsets.Request(replica_id=-1,
         topics=find(w.topic).topics + find(w.topic, -2).topics), "INVALID_REQUEST",
         ours="INVALID_REQUEST | INVALID_REQUEST", why="each is told"),
    Case("as a follower", FIND, lambda w: find(w.topic, replica=77), "NONE"),
    #
    Case("unknown topic", CUT, lambda w: cut(w.missing, 0), "UNKNOWN_TOPIC_OR_PARTITION"),
    Case("unknown partition", CUT, lambda w: cut(w.topic, 0, 9), "UNKNOWN_TOPIC_OR_PARTITION"),
    Case("wrong topic name", CUT, lambda w: cut("a b", 0), "UNKNOWN_TOPIC_OR_PARTITION"),
    Case("beyond the end", CUT, lambda w: cut(w.topic, 1000), "OFFSET_OUT_OF_RANGE"),
    Case("offset -2", CUT, lambda w: cut(w.topic, -2), "OFFSET_OUT_OF_RANGE"),
    Case("nothing", CUT, lambda w: cut(w.topic, 0), "NONE"),
    Case("timeout 0", CUT, lambda w: cut(w.topic, 0, timeout_ms=0), "NONE"),
    Case("compacted", CUT, lambda w: cut(batches.compacted(w, write), 0), "POLICY_VIOLATION"),
    #
    Case("unknown topic", EPOCH, lambda w: epoch(w.missing, 0), "UNKNOWN_TOPIC_OR_PARTITION"),
    Case("unknown partition", EPOCH, lambda w: epoch(w.topic, 0, 9), "UNKNOWN_TOPIC_OR_PARTITION"),
    Case("epoch of the future", EPOCH, lambda w: epoch(w.topic, 0, current=FUTURE), "UNKNOWN_LEADER_EPOCH"),
    Case("unknown epoch", EPOCH, lambda w: epoch(w.topic, 99), "NONE"),
]  # fmt: skip
