"""The messages of Fetch, which `fetch_wire` reads and writes."""

from dataclasses import field
from typing import Annotated

from bridge.kafka.leader_hints import LeaderIdAndEpoch, NodeEndpoint
from bridge.kafka.message import (
    ZERO_UUID,
    Int8,
    Int16,
    Int32,
    Int64,
    RecordBuffers,
    Uuid,
    message,
    since,
    tag,
    until,
)

READ_COMMITTED = 1
"""The isolation level of who wants records of committed transactions only, and of none."""
RACKS = 11
"""The first version in which clients say in which rack they are, and can be told of a follower there (KIP-392)."""
BY_ID = 13
"""The first version that names topics by their ids."""


@message
class RequestPartition:
    """Where to read in one partition."""

    partition: Int32
    current_leader_epoch: Annotated[Int32, since(9)] = -1
    fetch_offset: Int64
    last_fetched_epoch: Annotated[Int32, since(12)] = -1
    log_start_offset: Annotated[Int64, since(5)] = -1
    partition_max_bytes: Int32
    replica_directory_id: Annotated[Uuid, tag(0, since=17)] = ZERO_UUID


@message
class RequestTopic:
    """Where to read in one topic; `topic_id` from v13 on, `topic` before."""

    topic: Annotated[str, until(12)] = ""
    topic_id: Annotated[Uuid, since(BY_ID)] = ZERO_UUID
    partitions: list[RequestPartition]


@message
class ForgottenTopic:
    """Partitions that leave the fetch session (KIP-227)."""

    topic: Annotated[str, until(12)] = ""
    topic_id: Annotated[Uuid, since(BY_ID)] = ZERO_UUID
    partitions: list[Int32]


@message
class ReplicaState:
    """The follower that asks; consumers are none."""

    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


@message
class Request:
    """Record batches asked for."""

    cluster_id: Annotated[str | None, tag(0, since=12)] = None
    replica_state: Annotated[ReplicaState | None, tag(1, since=15)] = None
    replica_id: Annotated[Int32, until(14)] = -1
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Annotated[Int32, since(3)] = 0x7FFFFFFF
    isolation_level: Annotated[Int8, since(4)] = 0
    session_id: Annotated[Int32, since(7)] = 0
    session_epoch: Annotated[Int32, since(7)] = -1
    topics: list[RequestTopic]
    forgotten_topics_data: Annotated[list[ForgottenTopic], since(7)] = field(default_factory=list)
    rack_id: Annotated[str, since(11)] = ""


@message
class EpochEndOffset:
    """Where the log diverges from the follower's."""

    epoch: Int32 = -1
    end_offset: Int64 = -1


@message
class SnapshotId:
    """A snapshot to fetch instead (KRaft only)."""

    end_offset: Int64 = -1
    epoch: Int32 = -1


@message
class AbortedTransaction:
    """A transaction whose records read_committed consumers skip."""

    producer_id: Int64
    first_offset: Int64


@message
class ResponsePartition:
    """What one partition holds there."""

    partition_index: Int32
    error_code: Int16
    high_watermark: Int64
    last_stable_offset: Annotated[Int64, since(4)] = -1
    log_start_offset: Annotated[Int64, since(5)] = -1
    diverging_epoch: Annotated[EpochEndOffset | None, tag(0, since=12)] = None
    current_leader: Annotated[LeaderIdAndEpoch | None, tag(1, since=12)] = None
    snapshot_id: Annotated[SnapshotId | None, tag(2, since=12)] = None
    aborted_transactions: Annotated[list[AbortedTransaction] | None, since(4)] = None
    preferred_read_replica: Annotated[Int32, since(11)] = -1
    records: RecordBuffers | None = field(default=(), repr=False)


@message
class ResponseTopic:
    """What one topic holds there; `topic_id` from v13 on, `topic` before."""

    topic: Annotated[str, until(12)] = ""
    topic_id: Annotated[Uuid, since(BY_ID)] = ZERO_UUID
    partitions: list[ResponsePartition]


@message
class Response:
    """Record batches of each partition asked for."""

    throttle_time_ms: Annotated[Int32, since(1)] = 0
    error_code: Annotated[Int16, since(7)] = 0
    session_id: Annotated[Int32, since(7)] = 0
    responses: list[ResponseTopic]
    node_endpoints: Annotated[list[NodeEndpoint], tag(0, since=16)] = field(default_factory=list)
