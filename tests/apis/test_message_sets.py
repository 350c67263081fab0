"""What clients from before record batches are answered: Produce v0 to v2, Fetch v0 to v3, ListOffsets v0."""

import gzip
import struct
from functools import partial
from typing import Any

import pytest

from bridge import codec
from bridge.apis import create_topics, fetch, list_offsets, produce
from bridge.codec import Rebuild, Record
from bridge.kafka import fetch_wire, produce_wire
from bridge.kafka.error_codes import ErrorCode
from tests.apis.wire import ask, unique
from tests.codec.old_messages import GZIP, WHOLE, message
from tests.codec.samples import NOW, with_checksum
from tests.support.bridges import BridgeThread

gzip_encode = partial(gzip.compress, mtime=0)  # the time would be part of the tests' names


def new_topic(bridge: BridgeThread, **configs: str) -> str:
    name = unique("sets")
    wanted = [create_topics.RequestConfig(name=key.replace("_", "."), value=text) for key, text in configs.items()]
    topic = create_topics.RequestTopic(
        name=name, num_partitions=1, replication_factor=1, assignments=[], configs=wanted
    )
    answer = ask(bridge, create_topics.API, create_topics.Request(topics=[topic], timeout_ms=10_000), 7)
    assert [one.error_code for one in answer.topics] == [0]
    return name


def send(bridge: BridgeThread, topic: str, records: bytes, version: int = 2) -> tuple[int, int]:
    """The error and the base offset."""
    partition = produce_wire.RequestPartition(index=0, records=records)
    data = [produce_wire.RequestTopic(name=topic, partition_data=[partition])]
    answer = ask(bridge, produce.API, produce_wire.Request(acks=-1, timeout_ms=10_000, topic_data=data), version)
    (one,) = answer.responses[0].partition_responses
    return one.error_code, one.base_offset


def get(bridge: BridgeThread, topic: str, version: int, offset: int = 0, limit: int = 1 << 20) -> bytes:
    wanted = fetch_wire.RequestPartition(partition=0, fetch_offset=offset, partition_max_bytes=limit)
    topics = [fetch_wire.RequestTopic(topic=topic, partitions=[wanted])]
    answer = ask(bridge, fetch.API, fetch_wire.Request(max_wait_ms=5000, min_bytes=1, topics=topics), version)
    (one,) = answer.responses[0].partitions
    assert one.error_code == 0
    assert one.high_watermark == 4
    return b"".join(one.records)


def offsets(bridge: BridgeThread, topic: str, timestamp: int, most: int = 10) -> Any:
    wanted = list_offsets.RequestPartition(partition_index=0, timestamp=timestamp, max_num_offsets=most)
    request = list_offsets.Request(replica_id=-1, topics=[list_offsets.RequestTopic(name=topic, partitions=[wanted])])
    (one,) = ask(bridge, list_offsets.API, request, 0).topics[0].partitions
    return one.error_code or one.old_style_offsets


@pytest.fixture(scope="module")
def written(bridge: BridgeThread) -> str:
    """A topic with two entries of two records each, a second apart."""
    topic = new_topic(bridge)
    for at in (0, 2):
        pair = b"".join(message(b"value-%d" % n, key=b"key", timestamp=NOW + 1000 * n) for n in (at, at + 1))
        assert send(bridge, topic, pair) == (0, at)
    return topic


def set_of(magic: int, *numbers: int) -> bytes:
    """The records of `written` as Kafka would send them."""
    out = b""
    for number in numbers:
        one = message(b"value-%d" % number, magic, key=b"key", timestamp=NOW + 1000 * number)
        out += struct.pack(">q", number) + one[8:]
    return out


@pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1), (3, 1)])
def test_fetch_answers_in_messages(bridge: BridgeThread, written: str, version: int, magic: int) -> None:
    everything = set_of(magic, 0, 1, 2, 3)
    assert get(bridge, written, version) == everything
    assert get(bridge, written, version, 1) == set_of(magic, 1, 2, 3)  # not what lies before in the same entry
    assert get(bridge, written, version, 3) == set_of(magic, 3)
    cut = len(set_of(magic, 0)) + 20
    assert get(bridge, written, version, limit=cut) == everything[:cut]
    whole_first = set_of(magic, 0) if version >= 3 else everything[:20]
    assert get(bridge, written, version, limit=20) == whole_first


def test_list_offsets_v0(bridge: BridgeThread, written: str) -> None:
    assert offsets(bridge, written, list_offsets.LATEST) == [4, 0]
    assert offsets(bridge, written, list_offsets.LATEST, 1) == [4]
    assert offsets(bridge, written, list_offsets.LATEST, 0) == []
    assert offsets(bridge, written, list_offsets.EARLIEST) == [0]
    assert offsets(bridge, written, NOW) == []  # nothing is older
    assert offsets(bridge, written, NOW + 2000) == [2, 0]
    assert offsets(bridge, written, NOW + 2000, 1) == [2]
    assert offsets(bridge, written, NOW + 9000) == [4, 0]
    assert offsets(bridge, unique("none"), list_offsets.LATEST) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_list_offsets_v0_of_an_empty_topic(bridge: BridgeThread) -> None:
    topic = new_topic(bridge)
    assert offsets(bridge, topic, list_offsets.LATEST) == [0]
    assert offsets(bridge, topic, list_offsets.EARLIEST) == [0]


BATCH = codec.build_batch([Record(0, NOW, b"k", b"v", [])], Rebuild(0, 1, 0))
ZSTD_BATCH = with_checksum(BATCH[:22] + b"\4" + BATCH[23:])


@pytest.mark.parametrize(
    ("version", "records", "error"),
    [
        (0, message(b"v", 0), ErrorCode.NONE),
        (1, message(gzip_encode(message(b"v", 0)), 0, GZIP), ErrorCode.NONE),
        (2, message(b"v", 0) + message(b"v", 1), ErrorCode.NONE),
        (2, BATCH, ErrorCode.NONE),  # as Kafka takes it
        (2, WHOLE[:-1], ErrorCode.CORRUPT_MESSAGE),
        (2, WHOLE[:12] + b"\0\0\0\0" + WHOLE[16:], ErrorCode.CORRUPT_MESSAGE),
        (2, WHOLE[:10], ErrorCode.CORRUPT_MESSAGE),
        (2, WHOLE + BATCH, ErrorCode.CORRUPT_MESSAGE),
        (2, message(None, 1, GZIP), ErrorCode.INVALID_RECORD),
        (2, message(gzip_encode(message(gzip_encode(WHOLE), 1, GZIP)), 1, GZIP), ErrorCode.INVALID_RECORD),
        (2, message(b"v", 1, 8), ErrorCode.INVALID_TIMESTAMP),
        (2, message(b"v", timestamp=-1), ErrorCode.NONE),
        (2, message(b"v", timestamp=-2), ErrorCode.INVALID_TIMESTAMP),
        (2, message(b"v", timestamp=NOW) + message(b"v", timestamp=(1 << 63) - 1), ErrorCode.INVALID_TIMESTAMP),
        (2, message(gzip_encode(message(b"v", timestamp=-(1 << 63))), 1, GZIP), ErrorCode.INVALID_TIMESTAMP),
        (2, message(gzip_encode(message(bytes(42 << 20))), 1, GZIP), ErrorCode.MESSAGE_TOO_LARGE),
        (3, WHOLE, ErrorCode.INVALID_RECORD),
        (9, message(b"v", 0), ErrorCode.INVALID_RECORD),
        (6, ZSTD_BATCH, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (7, ZSTD_BATCH, ErrorCode.INVALID_RECORD),  # which is no zstd
    ],
)
def test_produce_answers_as_kafka(bridge: BridgeThread, version: int, records: bytes, error: ErrorCode) -> None:
    assert send(bridge, new_topic(bridge), records, version) == (error, -1 if error else 0)


def test_a_message_above_what_fits_into_an_entry_stands_at_its_last_chunk(bridge: BridgeThread) -> None:
    topic = new_topic(bridge)
    assert send(bridge, topic, message(bytes(6 << 20))) == (0, 1)
    assert send(bridge, topic, WHOLE) == (0, 2)


def test_a_set_above_what_fits_into_an_entry_takes_several(bridge: BridgeThread) -> None:
    topic = new_topic(bridge)
    inner = b"".join(message(bytes([at]) * 1_000_000) for at in range(8))
    assert send(bridge, topic, message(gzip_encode(inner), 1, GZIP)) == (0, 0)
    assert send(bridge, topic, inner) == (0, 8)
    assert send(bridge, topic, WHOLE) == (0, 16)


def test_a_compacted_topic_takes_no_message_without_a_key(bridge: BridgeThread) -> None:
    topic = new_topic(bridge, cleanup_policy="compact")
    assert send(bridge, topic, WHOLE) == (0, 0)
    assert send(bridge, topic, WHOLE + message(b"v")) == (ErrorCode.INVALID_RECORD, -1)


def test_messages_are_held_to_the_topics_limit(bridge: BridgeThread) -> None:
    topic = new_topic(bridge, max_message_bytes="2000")
    assert send(bridge, topic, message(b"v" * 500) * 10) == (0, 0)  # each within it
    assert send(bridge, topic, message(b"v" * 2500)) == (ErrorCode.MESSAGE_TOO_LARGE, -1)
