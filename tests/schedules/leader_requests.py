"""One request of each API that the leader of a partition answers, about one partition."""

from typing import Any

from bridge.apis import (
    delete_records,
    describe_producers,
    fetch,
    list_offsets,
    offset_for_leader_epoch,
    produce,
    write_txn_markers,
)
from bridge.kafka import fetch_wire, produce_wire
from bridge.requests.api import Api
from tests.schedules.kafka import NOW_MS, batch


def requests(topic: str, partition: int, epoch: int = -1) -> list[tuple[Api, Any]]:
    """One of each; `epoch`: the leader epoch that the client goes by, of those that have it."""
    return [
        (produce.API, produce_request(topic, partition)),
        *with_epochs(topic, partition, epoch),
        (delete_records.API, _delete_request(topic, partition)),
        (describe_producers.API, _producers_request(topic, partition)),
        (write_txn_markers.API, _markers_request(topic, partition)),
    ]


def with_epochs(topic: str, partition: int, epoch: int) -> list[tuple[Api, Any]]:
    """One of each that has the leader epoch of the client."""
    return [
        (fetch.API, fetch_request(topic, partition, epoch)),
        (list_offsets.API, offsets_request(topic, partition, epoch)),
        (offset_for_leader_epoch.API, epochs_request(topic, partition, epoch)),
    ]


def produce_request(topic: str, partition: int) -> produce_wire.Request:
    """One record."""
    data = memoryview(batch([b"v"], [NOW_MS]))
    one = produce_wire.RequestTopic(
        name=topic, partition_data=[produce_wire.RequestPartition(index=partition, records=data)]
    )
    return produce_wire.Request(acks=-1, timeout_ms=30_000, topic_data=[one])


def fetch_request(topic: str, partition: int, epoch: int = -1, wait: float = 0.0) -> fetch_wire.Request:
    """From the beginning."""
    wanted = fetch_wire.RequestPartition(
        partition=partition, current_leader_epoch=epoch, fetch_offset=0, partition_max_bytes=1 << 20
    )
    topics = [fetch_wire.RequestTopic(topic=topic, partitions=[wanted])]
    return fetch_wire.Request(max_wait_ms=int(wait * 1000), min_bytes=1, topics=topics)


def offsets_request(topic: str, partition: int, epoch: int) -> list_offsets.Request:
    """The end."""
    wanted = list_offsets.RequestPartition(
        partition_index=partition, current_leader_epoch=epoch, timestamp=list_offsets.LATEST
    )
    return list_offsets.Request(replica_id=-1, topics=[list_offsets.RequestTopic(name=topic, partitions=[wanted])])


def epochs_request(topic: str, partition: int, epoch: int, asked: int = 0) -> offset_for_leader_epoch.Request:
    """The end of the epoch `asked`."""
    wanted = offset_for_leader_epoch.RequestPartition(
        partition=partition, current_leader_epoch=epoch, leader_epoch=asked
    )
    one = offset_for_leader_epoch.RequestTopic(topic=topic, partitions=[wanted])
    return offset_for_leader_epoch.Request(topics=[one])


def _delete_request(topic: str, partition: int) -> delete_records.Request:
    wanted = delete_records.RequestPartition(partition_index=partition, offset=0)
    return delete_records.Request(
        topics=[delete_records.RequestTopic(name=topic, partitions=[wanted])], timeout_ms=30_000
    )


def _producers_request(topic: str, partition: int) -> describe_producers.Request:
    return describe_producers.Request(
        topics=[describe_producers.RequestTopic(name=topic, partition_indexes=[partition])]
    )


def _markers_request(topic: str, partition: int) -> write_txn_markers.Request:
    marker = write_txn_markers.RequestMarker(
        producer_id=1,
        producer_epoch=0,
        transaction_result=True,
        coordinator_epoch=0,
        topics=[write_txn_markers.RequestTopic(name=topic, partition_indexes=[partition])],
    )
    return write_txn_markers.Request(markers=[marker])


def partition_in(answer: Any) -> Any:
    """An answer's only partition."""
    for name in ("responses", "topics", "markers", "partitions", "partition_responses"):
        inner = getattr(answer, name, None)
        if inner is not None:
            return partition_in(inner[0])
    return answer


def error_in(answer: Any) -> int:
    """The error of an answer's only partition."""
    return int(partition_in(answer).error_code)
