"""Transactions and the ids of producers."""

from __future__ import annotations

from typing import Any

from bridge.apis import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_transactions,
    end_txn,
    init_producer_id,
    list_transactions,
    txn_offset_commit,
    write_txn_markers,
)
from tests.authorization.asked.row import Row
from tests.authorization.world import GROUPS, MISSING, TOPICS
from tests.clients.refusals import transactions

ALL = (*TOPICS, *MISSING)
ID, PRODUCER = "mine-txn", 77
BEGIN, ADD, END = init_producer_id.API, add_partitions_to_txn.API, end_txn.API


def _add() -> Any:
    return add_partitions_to_txn.Request(
        v3_and_below_transactional_id=ID, v3_and_below_producer_id=PRODUCER, v3_and_below_producer_epoch=0,
        v3_and_below_topics=[add_partitions_to_txn.RequestTopic(name=name, partitions=[0]) for name in ALL],
    )  # fmt: skip


def _add_as_broker() -> Any:
    topics = [add_partitions_to_txn.RequestTopic(name=name, partitions=[0]) for name in ALL]
    wanted = add_partitions_to_txn.RequestTransaction(
        transactional_id=ID, producer_id=PRODUCER, producer_epoch=0, verify_only=False, topics=topics
    )
    return add_partitions_to_txn.Request(transactions=[wanted])


def _commit() -> Any:
    one = txn_offset_commit.RequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    return txn_offset_commit.Request(
        transactional_id=ID, group_id=GROUPS[0], producer_id=PRODUCER, producer_epoch=0,
        topics=[txn_offset_commit.RequestTopic(name=name, partitions=[one]) for name in ALL],
    )  # fmt: skip


def _end() -> Any:
    return end_txn.Request(transactional_id=ID, producer_id=PRODUCER, producer_epoch=0, committed=True)


def _offsets() -> Any:
    return add_offsets_to_txn.Request(transactional_id=ID, producer_id=PRODUCER, producer_epoch=0, group_id=GROUPS[0])


def _describe(*names: str) -> Any:
    return describe_transactions.Request(transactional_ids=list(names))


ROWS = [
    Row(BEGIN, "idempotent", lambda w: transactions.begin(None), since=0),
    Row(BEGIN, "transactional", lambda w: transactions.begin(ID), since=0),
    Row(BEGIN, "another's", lambda w: transactions.begin("other-txn")),
    Row(ADD, "unknown producer", lambda w: _add(), version=3, since=0),
    Row(ADD, "unknown producer, as a broker", lambda w: _add_as_broker(), since=4),
    Row(add_offsets_to_txn.API, "unknown producer", lambda w: _offsets(), since=0),
    Row(END, "unknown producer", lambda w: _end(), version=4, since=0),
    Row(txn_offset_commit.API, "unknown producer", lambda w: _commit(), since=0),
    Row(write_txn_markers.API, "topics that are not there", lambda w: transactions.mark("mine-none")),
    Row(describe_transactions.API, "by id", lambda w: _describe("mine-txn", "other-txn", "mine-no-txn")),
    Row(list_transactions.API, "all", lambda w: transactions.transactions(), since=0),
]
