"""A transactional producer of two nodes by raw requests, and what nodes know of its transactions."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from bridge.apis import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_transactions,
    end_txn,
    find_coordinator,
    init_producer_id,
    offset_fetch,
    txn_offset_commit,
)
from bridge.kafka.error_codes import ErrorCode
from bridge.storage.visibility import Transaction
from bridge.transactions.transactions import Transactions
from tests.apis.wire import ask, unique
from tests.support.bridges import BridgeThread

Nodes = tuple[BridgeThread, BridgeThread]
_WAIT = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)


class Producer:
    """A transactional producer by raw requests."""

    def __init__(self, nodes: Nodes, name: str = "") -> None:
        self.name = name or unique("tx")
        self._nodes = nodes
        self.here, self.elsewhere = self._found()
        answer = self.init()
        assert answer.error_code == ErrorCode.NONE
        self.id, self.epoch = answer.producer_id, answer.producer_epoch

    def _found(self) -> Nodes:
        asked = find_coordinator.Request(key=self.name, key_type=find_coordinator.TRANSACTION)
        answers = [until_served(partial(ask, node, find_coordinator.API, asked, 3)) for node in self._nodes]
        assert answers[0].node_id == answers[1].node_id
        one, other = self._nodes
        return (one, other) if one.node_id == answers[0].node_id else (other, one)

    def init(self, version: int = 5, **fields: Any) -> Any:
        request = init_producer_id.Request(transactional_id=self.name, transaction_timeout_ms=60_000, **fields)
        return until_served(lambda: ask(self.here, init_producer_id.API, request, version))

    def add(self, *topics: tuple[str, list[int]], version: int = 3, **fields: Any) -> dict[tuple[str, int], int]:
        request = self._adding(topics, **fields)
        answer = ask(self.here, add_partitions_to_txn.API, request, version)
        return {
            (topic.name, one.partition_index): one.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for one in topic.results_by_partition
        }

    def _adding(self, topics: Any, **fields: Any) -> add_partitions_to_txn.Request:
        named = {
            "v3_and_below_transactional_id": self.name,
            "v3_and_below_producer_id": self.id,
            "v3_and_below_producer_epoch": self.epoch,
        }
        wanted = [add_partitions_to_txn.RequestTopic(name=name, partitions=indexes) for name, indexes in topics]
        return add_partitions_to_txn.Request(v3_and_below_topics=wanted, **{**named, **fields})

    def ending(self, *, committed: bool = True, **fields: Any) -> end_txn.Request:
        named = {"transactional_id": self.name, "producer_id": self.id, "producer_epoch": self.epoch}
        return end_txn.Request(committed=committed, **{**named, **fields})

    def end(self, version: int = 4, **fields: Any) -> int:
        return int(ask(self.here, end_txn.API, self.ending(**fields), version).error_code)

    def add_group(self, group: str, version: int = 4) -> int:
        request = add_offsets_to_txn.Request(
            transactional_id=self.name, producer_id=self.id, producer_epoch=self.epoch, group_id=group
        )
        return int(ask(self.here, add_offsets_to_txn.API, request, version).error_code)

    def commit_offset(self, group: str, offset: int, version: int = 4, **fields: Any) -> int:
        """At the group's coordinator."""
        node = self._coordinator_of(group)
        partition = txn_offset_commit.RequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=""
        )
        request = txn_offset_commit.Request(
            **{
                "transactional_id": self.name,
                "group_id": group,
                "producer_id": self.id,
                "producer_epoch": self.epoch,
                "topics": [txn_offset_commit.RequestTopic(name="t", partitions=[partition])],
                **fields,
            }
        )
        return int(ask(node, txn_offset_commit.API, request, version).topics[0].partitions[0].error_code)

    def offset_of(self, group: str, *, stable: bool = False) -> tuple[int, int]:
        """Its error and offset."""
        topics = [offset_fetch.Topic(name="t", partition_indexes=[0])]
        request = offset_fetch.Request(group_id=group, topics=topics, require_stable=stable)
        found = ask(self._coordinator_of(group), offset_fetch.API, request, 7).topics[0].partitions[0]
        return found.error_code, found.committed_offset

    def _coordinator_of(self, group: str) -> BridgeThread:
        asked = find_coordinator.Request(key=group)
        found = until_served(lambda: ask(self.here, find_coordinator.API, asked, 3))
        return next(one for one in self._nodes if one.node_id == found.node_id)

    def described(self) -> Any:
        request = describe_transactions.Request(transactional_ids=[self.name])
        return ask(self.here, describe_transactions.API, request).transaction_states[0]


def until_served(asked: Callable[[], Any]) -> Any:
    """As clients do."""
    for _ in range(100):
        answer = asked()
        if answer.error_code not in _WAIT:
            return answer
        time.sleep(0.1)
    raise AssertionError(answer)


def transactions_of(node: BridgeThread) -> Transactions:
    return node.server._own.transactions


def stamp_of(node: BridgeThread, producer: Producer, index: int) -> Transaction:
    async def stamp() -> Transaction:
        topic = await node.server.topics.get("t")
        assert topic is not None
        return await transactions_of(node).stamp(producer.name, producer.id, producer.epoch, [(topic.id.hex, index)])

    return node.call(stamp())
