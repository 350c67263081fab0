"""Transactions, and idempotent producers."""

from __future__ import annotations

from typing import Any

from bridge.apis import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_producers,
    describe_transactions,
    end_txn,
    init_producer_id,
    list_transactions,
    txn_offset_commit,
    write_txn_markers,
)
from tests.clients.refusals.case import Case, World


def begin(transactional_id: str | None, timeout_ms: int = 60_000, producer: int = -1, epoch: int = -1) -> Any:
    """An InitProducerId."""
    return init_producer_id.Request(
        transactional_id=transactional_id, transaction_timeout_ms=timeout_ms, producer_id=producer, producer_epoch=epoch
    )


def add(world: World) -> Any:
    """An AddPartitionsToTxn."""
    return add_partitions_to_txn.Request(
        v3_and_below_transactional_id="t", v3_and_below_producer_id=77, v3_and_below_producer_epoch=0,
        v3_and_below_topics=[add_partitions_to_txn.RequestTopic(name=world.topic, partitions=[0])],
    )  # fmt: skip


def commit(world: World) -> Any:
    """A TxnOffsetCommit."""
    one = txn_offset_commit.RequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    return txn_offset_commit.Request(
        transactional_id="t", group_id="g", producer_id=77, producer_epoch=0,
        topics=[txn_offset_commit.RequestTopic(name=world.topic, partitions=[one])],
    )  # fmt: skip


def end(committed: bool) -> Any:
    """An EndTxn."""
    return end_txn.Request(transactional_id="t", producer_id=77, producer_epoch=0, committed=committed)


def offsets() -> Any:
    """An AddOffsetsToTxn."""
    return add_offsets_to_txn.Request(transactional_id="t", producer_id=77, producer_epoch=0, group_id="g")


def producers(topic: str, partition: int = 0) -> Any:
    """A DescribeProducers of one partition."""
    topics = [describe_producers.RequestTopic(name=topic, partition_indexes=[partition])]
    return describe_producers.Request(topics=topics)


def transactions(**fields: Any) -> Any:
    """A ListTransactions."""
    return list_transactions.Request(**{"state_filters": [], "producer_id_filters": [], **fields})


def mark(topic: str, partition: int = 0) -> Any:
    """A WriteTxnMarkers for one partition."""
    topics = [write_txn_markers.RequestTopic(name=topic, partition_indexes=[partition])]
    return write_txn_markers.Request(markers=[
        write_txn_markers.RequestMarker(
            producer_id=77, producer_epoch=0, transaction_result=False, topics=topics, coordinator_epoch=0
        )
    ])  # fmt: skip


BEGIN, PRODUCERS, LIST = init_producer_id.API, describe_producers.API, list_transactions.API

CASES = [
    Case("transactional id", BEGIN, lambda w: begin("t"), "NONE"),
    Case("transactional id, v0", BEGIN, lambda w: begin("t"), "NONE", version=0),
    Case("empty transactional id", BEGIN, lambda w: begin(""), "INVALID_REQUEST"),
    Case("timeout -1", BEGIN, lambda w: begin("t", -1), "INVALID_TRANSACTION_TIMEOUT"),
    Case("idempotent", BEGIN, lambda w: begin(None), "NONE"),
    Case("idempotent, with an id", BEGIN, lambda w: begin(None, producer=77, epoch=3), "NONE"),
    Case("id without an epoch", BEGIN, lambda w: begin(None, producer=77), "INVALID_REQUEST"),
    Case("epoch without an id", BEGIN, lambda w: begin(None, epoch=3), "INVALID_REQUEST"),
    #
    Case("unknown transactional id", add_partitions_to_txn.API, add, "INVALID_PRODUCER_ID_MAPPING", version=3),
    Case("unknown transactional id", add_offsets_to_txn.API, lambda w: offsets(), "INVALID_PRODUCER_ID_MAPPING"),
    Case("committed", end_txn.API, lambda w: end(True), "INVALID_PRODUCER_ID_MAPPING", version=4),
    Case("aborted", end_txn.API, lambda w: end(False), "INVALID_PRODUCER_ID_MAPPING", version=4),
    Case("unknown transactional id", txn_offset_commit.API, commit, "INVALID_PRODUCER_ID_MAPPING", version=4),
    #
    Case("unknown topic", PRODUCERS, lambda w: producers(w.missing),
         "UNKNOWN_TOPIC_OR_PARTITION: This server does not host this topic-partition."),
    Case("unknown partition", PRODUCERS, lambda w: producers(w.topic, 9), "UNKNOWN_TOPIC_OR_PARTITION"),
    Case("wrong topic name", PRODUCERS, lambda w: producers("a b"),
         "INVALID_TOPIC_EXCEPTION: Topic name is invalid: 'a b' contains one or more characters other than ASCII "
         "alphanumerics, '.', '_' and '-'"),
    Case("well", PRODUCERS, lambda w: producers(w.topic), "NONE"),
    Case("unknown", describe_transactions.API, lambda w: describe_transactions.Request(transactional_ids=["t-none"]),
         "TRANSACTIONAL_ID_NOT_FOUND"),
    Case("empty", describe_transactions.API, lambda w: describe_transactions.Request(transactional_ids=[""]),
         "INVALID_REQUEST"),
    Case("unknown state", LIST, lambda w: transactions(state_filters=["Sleeping"]), "NONE"),
    Case("bad pattern", LIST, lambda w: transactions(transactional_id_pattern="("), "INVALID_REGULAR_EXPRESSION"),
    Case("unknown producer", LIST, lambda w: transactions(producer_id_filters=[77]), "NONE"),
    Case("unknown topic", write_txn_markers.API, lambda w: mark(w.missing), "UNKNOWN_TOPIC_OR_PARTITION"),
]  # fmt: skip
