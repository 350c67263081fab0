"""Attacks of more than one request: what is cheap to send and may be dear to serve."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from bridge.apis import (
    alter_client_quotas,
    create_partitions,
    create_topics,
    describe_configs,
    describe_log_dirs,
    fetch,
    find_coordinator,
    init_producer_id,
    join_group,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    produce,
)
from bridge.apis.describe_client_quotas import Entity
from bridge.codec import Rebuild, Record, build_batch
from bridge.codec.compression import KafkaCodec
from bridge.codec.packing import pack
from bridge.kafka import fetch_wire
from bridge.kafka.message import with_defaults
from bridge.kafka.produce_wire import Request as Produced
from bridge.kafka.produce_wire import RequestPartition, RequestTopic
from tests.hostile.clients import Load, frame

CONNECTIONS = 20
REQUESTS, MEMBERS = (256 + 64) << 20, (128 + 64) << 20
"""The budgets of requests (kafka.memory_budget_bytes) and of members (groups.max_metadata_bytes), with some room."""


class Attack(NamedTuple):
    """A load by its name."""

    name: str
    load: Callable[[str], Load]
    """Of a topic that exists."""
    growth: int = 128 << 20
    """By how much the bridge's memory may grow: what its settings give to this."""
    answered: bool = True
    """Whether every request gets its answer; else there are so many that their sender gives up, or is hung up on."""


def _pipelined(each: bytes, count: int, connections: int = CONNECTIONS) -> Load:
    return Load([[each] * count] * connections, count)


def _hung_up(each: bytes, count: int) -> Load:
    return Load([[each] * count] * CONNECTIONS, 0)


def _metadata(name: str | None) -> bytes:
    topics = None if name is None else [with_defaults(metadata.RequestTopic, name=name)]
    return frame(metadata.API, 8, with_defaults(metadata.Request, topics=topics, allow_auto_topic_creation=False))


def _offsets(topic: str, timestamp: int) -> bytes:
    partition = with_defaults(list_offsets.RequestPartition, partition_index=0, timestamp=timestamp)
    wanted = with_defaults(list_offsets.RequestTopic, name=topic, partitions=[partition])
    return frame(list_offsets.API, 5, with_defaults(list_offsets.Request, replica_id=-1, topics=[wanted]))


def _join(group: str, metadata_bytes: int = 30) -> bytes:
    protocols = [with_defaults(join_group.Protocol, name="range", metadata=bytes(metadata_bytes))]
    request = with_defaults(join_group.Request,
        group_id=group, session_timeout_ms=10_000, rebalance_timeout_ms=60_000, member_id="",
        protocol_type="consumer", protocols=protocols,
    )  # fmt: skip
    return frame(join_group.API, 3, request)


def _produce(topic: str, size: int, acks: int) -> bytes:
    records = bytes(build_batch([Record(0, 1_700_000_000_000, b"k", bytes(size), [])], Rebuild(0, 1, 0, own=True)))
    partition = with_defaults(RequestPartition, index=0, records=records)
    return frame(
        produce.API,
        3,
        with_defaults(
            Produced,
            acks=acks,
            timeout_ms=5000,
            topic_data=[with_defaults(RequestTopic, name=topic, partition_data=[partition])],
        ),
    )


def _bomb(topic: str, codec: KafkaCodec) -> bytes:
    """A sound record of zeros, which pack well; a few such records to a batch, each within Pulsar's limit."""
    records = [Record(number, -1, b"k", bytes(4 << 20), []) for number in range(4)]
    batch = bytes(pack(bytes(build_batch(records, Rebuild(0, 4, 0, own=True))), codec))
    partition = with_defaults(RequestPartition, index=0, records=batch)
    topics = [with_defaults(RequestTopic, name=topic, partition_data=[partition])]
    return frame(produce.API, 7, with_defaults(Produced, acks=1, timeout_ms=30_000, topic_data=topics))


def _fetch(topic: str, offset: int, wait_ms: int) -> bytes:
    one = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    partition = with_defaults(fetch_wire.RequestPartition, **one)
    request = with_defaults(fetch_wire.Request,
        replica_id=-1, max_wait_ms=wait_ms, min_bytes=1, max_bytes=50 << 20,
        topics=[with_defaults(fetch_wire.RequestTopic, topic=topic, partitions=[partition])],
    )  # fmt: skip
    return frame(fetch.API, 4, request)


def _create(partitions: int, count: int = 1) -> bytes:
    topics = [
        with_defaults(create_topics.RequestTopic, name=f"huge-{n}", num_partitions=partitions, replication_factor=1)
        for n in range(count)
    ]
    return frame(create_topics.API, 4, with_defaults(create_topics.Request, topics=topics, timeout_ms=30_000))


def _grow(topic: str, partitions: int) -> bytes:
    request = with_defaults(
        create_partitions.Request,
        topics=[with_defaults(create_partitions.RequestTopic, name=topic, count=partitions)],
        timeout_ms=30_000,
        validate_only=False,
    )
    return frame(create_partitions.API, 1, request)


def _configs(kind: int, name: str) -> bytes:
    resource = with_defaults(describe_configs.RequestResource, resource_type=kind, resource_name=name)
    return frame(describe_configs.API, 1, with_defaults(describe_configs.Request, resources=[resource]))


def _commit(topic: str, group: str) -> bytes:
    partition = with_defaults(offset_commit.RequestPartition, partition_index=0, committed_offset=0)
    wanted = with_defaults(offset_commit.RequestTopic, name=topic, partitions=[partition])
    return frame(offset_commit.API, 2, with_defaults(offset_commit.Request, group_id=group, topics=[wanted]))


def _quotas(count: int) -> bytes:
    limit = alter_client_quotas.Operation(key="producer_byte_rate", value=1e9, remove=False)
    entries = [
        alter_client_quotas.RequestEntry(entity=[Entity(entity_type="user", entity_name=f"user-{n}")], ops=[limit])
        for n in range(count)
    ]
    return frame(alter_client_quotas.API, 1, alter_client_quotas.Request(entries=entries, validate_only=False))


def every() -> Iterator[Attack]:
    """All of them."""
    yield Attack("a topic of 2^31-1 partitions", lambda topic: _pipelined(_create(2**31 - 1), 1, 1))
    yield Attack("a topic of 100,000 partitions", lambda topic: _pipelined(_create(100_000), 1, 1))
    yield Attack("1,000 topics of 2,000 partitions", lambda topic: _pipelined(_create(2000, 1000), 1, 1))
    yield Attack("growing to 2^31-1 partitions", lambda topic: _pipelined(_grow(topic, 2**31 - 1), 1, 1))
    yield Attack("10,080 members of one group", lambda topic: _hung_up(_join("one"), 504))
    yield Attack(
        "a member in each of 5,000 groups",
        lambda topic: Load([[_join(f"of-{n}-{m}") for m in range(250)] for n in range(CONNECTIONS)], 0),
    )
    yield Attack("members with 10 MB each", lambda topic: _hung_up(_join("large", 10 << 20), 2), REQUESTS)
    yield Attack("members with 1 MB each", lambda topic: _hung_up(_join("large", 1_000_000), 20), REQUESTS + MEMBERS)
    yield Attack(
        "pipelined ListGroups",
        lambda topic: _pipelined(frame(list_groups.API, 2, with_defaults(list_groups.Request)), 500),
        answered=False,
    )
    yield Attack("pipelined Metadata, a topic", lambda topic: _pipelined(_metadata(topic), 500))
    yield Attack("pipelined Metadata, no such topic", lambda topic: _pipelined(_metadata("none"), 500))
    yield Attack("pipelined Metadata, all topics", lambda topic: _pipelined(_metadata(None), 100))
    yield Attack("Metadata of all topics, disconnected", lambda topic: _hung_up(_metadata(None), 10_000))
    yield Attack("Metadata of no topic, disconnected", lambda topic: _hung_up(_metadata("none"), 10_000))
    yield Attack(
        "pipelined FindCoordinator",
        lambda topic: _pipelined(
            frame(find_coordinator.API, 2, with_defaults(find_coordinator.Request, key="g", key_type=0)), 500
        ),
    )
    yield Attack("pipelined ListOffsets by time", lambda topic: _pipelined(_offsets(topic, 1_600_000_000_000), 300))
    yield Attack("pipelined ListOffsets, newest", lambda topic: _pipelined(_offsets(topic, -1), 500))
    yield Attack("pipelined DescribeConfigs, topic", lambda topic: _pipelined(_configs(2, topic), 50))
    yield Attack("pipelined DescribeConfigs, broker", lambda topic: _pipelined(_configs(4, "0"), 50))
    yield Attack(
        "pipelined DescribeLogDirs, all",
        lambda topic: _pipelined(
            frame(describe_log_dirs.API, 1, with_defaults(describe_log_dirs.Request, topics=None)), 50
        ),
    )
    yield Attack(
        "pipelined InitProducerId",
        lambda topic: _pipelined(
            frame(
                init_producer_id.API,
                1,
                with_defaults(init_producer_id.Request, transactional_id=None, transaction_timeout_ms=1000),
            ),
            100,
        ),
    )
    yield Attack("40,000 quotas of other users", lambda topic: _pipelined(_quotas(40_000), 1, 1))
    yield Attack("pipelined OffsetCommit", lambda topic: _pipelined(_commit(topic, "g"), 200))
    for codec in (KafkaCodec.GZIP, KafkaCodec.ZSTD):
        yield Attack(
            f"50 batches that decompress to 16 MiB, {codec.name.lower()}",
            lambda topic, codec=codec: Load([[_bomb(topic, codec)] * 50], 50),  # type: ignore[misc]
        )
    yield Attack("Produce of 900 KB, acks=0", lambda topic: _hung_up(_produce(topic, 900_000, 0), 20), 2 * REQUESTS)
    yield Attack("Produce of 100 B, acks=0", lambda topic: _hung_up(_produce(topic, 100, 0), 500))
    yield Attack("Produce of 100 B, acks=1", lambda topic: _pipelined(_produce(topic, 100, 1), 200))
    yield Attack("pipelined Fetch of old records", lambda topic: _pipelined(_fetch(topic, 0, 0), 50), REQUESTS)
    yield Attack("Fetch that is not read", lambda topic: _hung_up(_fetch(topic, 0, 0), 50))
    yield Attack("1,000 long polls, disconnected", lambda topic: Load([[_fetch(topic, 1 << 40, 30_000)]] * 1000, 0))
    yield Attack("2,000 connections, nothing asked", lambda topic: Load([[]] * 2000, 0))
