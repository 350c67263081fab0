"""A transactional producer request by request, in any version and with any epoch: what no client would send."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from types import TracebackType
from typing import Any, Final, Self

from bridge.apis import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_producers,
    describe_transactions,
    end_txn,
    find_coordinator,
    init_producer_id,
    list_offsets,
    list_transactions,
    metadata,
    offset_commit,
    offset_fetch,
    produce,
    txn_offset_commit,
    write_txn_markers,
)
from bridge.kafka.error_codes import ErrorCode
from bridge.requests.api import Api
from tests.apis.wire import Connection, ask_at, unique
from tests.clients.model import attempts
from tests.clients.refusals import batches, records

TRANSACTIONAL: Final = 1 << 4
"""The bit of a batch's attributes."""
GROUP, TRANSACTION = 0, 1
_LEADER: Final = -1
"""Of partition 0; those of the others are below it."""
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
NOBODY: Final = 1 << 40
"""A producer id that no server has given to anybody."""
STRANGER: Final = 1_000_000
"""So much is added to a producer id to have another's."""


class RawProducer:
    """A transactional id with what its producer was told, a topic, and a group of its own.

    Requests go to the node that they are for. `epoch` and `stranger` make them another's: they are added to what the
    producer was told. Each gives the name of the error that it was answered with.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        *,
        transactional_id: str | None = None,
        timeout_ms: int = 60_000,
        through: str = "",
    ) -> None:
        """`through`: the node that all requests go to, where one address is told of all."""
        self.topic = topic
        self.group = unique("transactional")
        self.transactional_id = unique("raw") if transactional_id is None else transactional_id
        self.timeout_ms = timeout_ms
        self.producer_id = NOBODY
        self.epoch = 1
        """Until it is told another one: those of someone who was never told."""
        self._bootstrap = bootstrap
        self._through = through
        self._connections: dict[str, Connection] = {}
        self._places: dict[tuple[int, str], str] = {}
        self._sequences: Counter[tuple[int, int, int]] = Counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        for connection in self._connections.values():
            connection.close()

    def init(self, version: int = 5, *, named: bool = False, epoch: int = 0, stranger: bool = False) -> str:
        """InitProducerId; takes what it is told. `named`: with the producer id and epoch (KIP-360)."""
        request = init_producer_id.Request(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
            producer_id=self._id(stranger) if named else -1,
            producer_epoch=self.epoch + epoch if named else -1,
        )
        return self._take(self._coordinator(init_producer_id.API, request, version))

    def add(self, partition: int = 0, version: int = 3, *, epoch: int = 0, stranger: bool = False) -> str:
        """AddPartitionsToTxn."""
        request = add_partitions_to_txn.Request(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self._id(stranger),
            v3_and_below_producer_epoch=self.epoch + epoch,
            v3_and_below_topics=[add_partitions_to_txn.RequestTopic(name=self.topic, partitions=[partition])],
        )
        (topic,) = self._coordinator(add_partitions_to_txn.API, request, version).results_by_topic_v3_and_below
        return ErrorCode(topic.results_by_partition[0].partition_error_code).name

    def add_all(self, wanted: Sequence[tuple[str, int]], version: int = 3) -> str:
        """AddPartitionsToTxn for partitions of several topics: what each was told."""
        request = add_partitions_to_txn.Request(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[
                add_partitions_to_txn.RequestTopic(name=topic, partitions=[partition]) for topic, partition in wanted
            ],
        )
        answer = self._coordinator(add_partitions_to_txn.API, request, version)
        told = {
            (topic.name, one.partition_index): ErrorCode(one.partition_error_code).name
            for topic in answer.results_by_topic_v3_and_below
            for one in topic.results_by_partition
        }
        return ", ".join(told[one] for one in wanted)

    def add_group(self, version: int = 4, *, epoch: int = 0, stranger: bool = False) -> str:
        """AddOffsetsToTxn."""
        request = add_offsets_to_txn.Request(
            transactional_id=self.transactional_id,
            producer_id=self._id(stranger),
            producer_epoch=self.epoch + epoch,
            group_id=self.group,
        )
        return ErrorCode(self._coordinator(add_offsets_to_txn.API, request, version).error_code).name

    def end(self, committed: bool, version: int = 4, *, epoch: int = 0, stranger: bool = False) -> str:
        """EndTxn; from version 5 on takes what it is told."""
        request = end_txn.Request(
            transactional_id=self.transactional_id,
            producer_id=self._id(stranger),
            producer_epoch=self.epoch + epoch,
            committed=committed,
        )
        answer = self._coordinator(end_txn.API, request, version)
        return self._take(answer) if version >= 5 else ErrorCode(answer.error_code).name

    def write(
        self,
        partition: int = 0,
        version: int = 11,
        *,
        epoch: int = 0,
        stranger: bool = False,
        transactional: bool = True,
        named: bool | None = None,
        after: int = 0,
    ) -> str:
        """Produce one record.

        Not `transactional`: without the bit. `named`: the request tells the transactional id, as it does by default
        where there is the bit. `after`: so many sequences behind the one that is due.
        """
        producer_id, of_epoch = self._id(stranger), self.epoch + epoch
        key = (producer_id, of_epoch, partition)
        batch = batches.plain(
            attributes=TRANSACTIONAL if transactional else 0,
            producer=producer_id,
            epoch=of_epoch,
            sequence=self._sequences[key] + after,
        )
        told = transactional if named is None else named
        request = records.write(self.topic, batch, partition, transactional_id=self.transactional_id if told else None)
        answer = self._leader(produce.API, request, version, partition)
        (one,) = answer.responses[0].partition_responses
        self._sequences[key] += one.error_code == ErrorCode.NONE and not after
        if one.error_code != ErrorCode.NONE:
            print(f"{self.topic}-{partition}: {ErrorCode(one.error_code).name}: {one.error_message}")
        return ErrorCode(one.error_code).name

    def write_of_two_epochs(self, version: int) -> str:
        """Produce a record of this epoch to partition 0 and one of the epoch before to partition 1, in one request."""
        batch = partial(batches.plain, attributes=TRANSACTIONAL, producer=self.producer_id)
        request = records.write(self.topic, batch(epoch=self.epoch), transactional_id=self.transactional_id)
        older = records.write(self.topic, batch(epoch=self.epoch - 1), 1)
        request.topic_data[0].partition_data += older.topic_data[0].partition_data
        (topic,) = self._leader(produce.API, request, version, 0).responses
        return ", ".join(ErrorCode(one.error_code).name for one in topic.partition_responses)

    def commit_offset(
        self,
        offset: int = 5,
        version: int = 4,
        *,
        epoch: int = 0,
        stranger: bool = False,
        generation: int = -1,
        member: str = "",
    ) -> str:
        """TxnOffsetCommit for partition 0."""
        one = txn_offset_commit.RequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        request = txn_offset_commit.Request(
            transactional_id=self.transactional_id,
            group_id=self.group,
            producer_id=self._id(stranger),
            producer_epoch=self.epoch + epoch,
            generation_id=generation,
            member_id=member,
            topics=[txn_offset_commit.RequestTopic(name=self.topic, partitions=[one])],
        )
        (topic,) = self._group(txn_offset_commit.API, request, version).topics
        return ErrorCode(topic.partitions[0].error_code).name

    def mark(self, partition: int = 0, *, committed: bool = False, epoch: int = 0, stranger: bool = False) -> str:
        """WriteTxnMarkers, as `kafka-transactions abort` sends it."""
        marker = write_txn_markers.RequestMarker(
            producer_id=self._id(stranger),
            producer_epoch=self.epoch + epoch,
            transaction_result=committed,
            topics=[write_txn_markers.RequestTopic(name=self.topic, partition_indexes=[partition])],
            coordinator_epoch=0,
        )
        answer = self._leader(write_txn_markers.API, write_txn_markers.Request(markers=[marker]), 1, partition)
        return ErrorCode(answer.markers[0].topics[0].partitions[0].error_code).name

    def commit_plainly(self, offset: int) -> str:
        """OffsetCommit for partition 0, of no transaction."""
        one = offset_commit.RequestPartition(partition_index=0, committed_offset=offset)
        request = offset_commit.Request(
            group_id=self.group, topics=[offset_commit.RequestTopic(name=self.topic, partitions=[one])]
        )
        (topic,) = self._group(offset_commit.API, request, 8).topics
        return ErrorCode(topic.partitions[0].error_code).name

    def committed(self, *, stable: bool, version: int = 8) -> str:
        """OffsetFetch for partition 0: the offset, or the error."""
        topic = offset_fetch.Topic(name=self.topic, partition_indexes=[0])
        group = offset_fetch.RequestGroup(group_id=self.group, topics=[topic])
        asked = {"groups": [group]} if version >= 8 else {"group_id": self.group, "topics": [topic]}
        answer = self._group(offset_fetch.API, offset_fetch.Request(require_stable=stable, **asked), version)
        one = (answer.groups[0] if version >= 8 else answer).topics[0].partitions[0]
        return ErrorCode(one.error_code).name if one.error_code else str(one.committed_offset)

    def offset(self, level: int, timestamp: int = list_offsets.LATEST, partition: int = 0, version: int = 10) -> int:
        """ListOffsets of a partition."""
        request = records.find(self.topic, timestamp, partition)
        request.isolation_level = level
        (one,) = self._leader(list_offsets.API, request, version, partition).topics[0].partitions
        assert one.error_code == ErrorCode.NONE, ErrorCode(one.error_code)
        return int(one.offset)

    def await_leaders(self, partitions: int) -> None:
        """Kafka has created a topic before its brokers lead it."""
        for partition in range(partitions):
            for _ in attempts("a leader"):
                answer = self._leader(list_offsets.API, records.find(self.topic, partition=partition), 10, partition)
                if not ErrorCode(answer.topics[0].partitions[0].error_code).retriable:
                    break

    def held(self, partition: int = 0, version: int = 10) -> int:
        """How many offsets at the end read_committed consumers do not get yet."""
        ends = [
            self.offset(level, partition=partition, version=version) for level in (READ_UNCOMMITTED, READ_COMMITTED)
        ]
        return ends[0] - ends[1]

    def first_open(self, partition: int = 0) -> int:
        """DescribeProducers: where the producer's open transaction begins in a partition; -1: nowhere."""
        topic = describe_producers.RequestTopic(name=self.topic, partition_indexes=[partition])
        answer = self._leader(describe_producers.API, describe_producers.Request(topics=[topic]), 0, partition)
        found = answer.topics[0].partitions[0].active_producers
        return next((one.current_txn_start_offset for one in found if one.producer_id == self.producer_id), -1)

    def described(self) -> Any:
        """DescribeTransactions."""
        request = describe_transactions.Request(transactional_ids=[self.transactional_id])
        return self._coordinator(describe_transactions.API, request, 0).transaction_states[0]

    def settled(self) -> Any:
        """What DescribeTransactions says once nothing is under way: Kafka writes markers after it has answered."""
        for _ in attempts("the transaction to be at rest"):
            state = self.described()
            if not state.transaction_state.startswith("Prepare"):
                return state
        raise AssertionError

    def listed(self, version: int = 2, **filters: Any) -> str:
        """ListTransactions: the state of this id, or "not listed"."""
        request = list_transactions.Request(**{"state_filters": [], "producer_id_filters": [], **filters})
        answer = self._coordinator(list_transactions.API, request, version)
        found = [one for one in answer.transaction_states if one.transactional_id == self.transactional_id]
        return found[0].transaction_state if found else "not listed"

    def coordinated_at(self) -> str:
        """The address of the id's coordinator."""
        return self._coordinated(TRANSACTION, self.transactional_id)

    def led_at(self, partition: int) -> str:
        """The address of a partition's leader."""
        return self._led(partition)

    def reconnect(self, bootstrap: str) -> None:
        """On new connections, and by what this server says of who leads and coordinates."""
        self.close()
        self._connections.clear()
        self._places.clear()
        self._bootstrap = bootstrap

    def _take(self, answer: Any) -> str:
        """The error, and what the producer was given against what it had."""
        if answer.error_code != ErrorCode.NONE:
            return ErrorCode(answer.error_code).name
        same = answer.producer_id == self.producer_id
        told = f"{answer.producer_epoch - self.epoch:+d}" if same else f"new id {answer.producer_epoch}"
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return f"NONE {told}"

    def _id(self, stranger: bool) -> int:
        return self.producer_id + STRANGER * stranger

    def _coordinator(self, api: Api, request: Any, version: int) -> Any:
        return self._ask(self._coordinated(TRANSACTION, self.transactional_id), api, request, version)

    def _group(self, api: Api, request: Any, version: int) -> Any:
        return self._ask(self._coordinated(GROUP, self.group), api, request, version)

    def _leader(self, api: Api, request: Any, version: int, partition: int) -> Any:
        return self._ask(self._led(partition), api, request, version)

    def _ask(self, address: str, api: Api, request: Any, version: int) -> Any:
        address = self._through or address
        if address not in self._connections:
            self._connections[address] = Connection(address)
        return self._connections[address].ask(api, request, version)

    def _coordinated(self, kind: int, key: str) -> str:
        if (kind, key) not in self._places:
            for _ in attempts("a coordinator"):
                request = find_coordinator.Request(coordinator_keys=[key], key_type=kind)
                (found,) = ask_at(self._bootstrap, find_coordinator.API, request, 4).coordinators
                if found.error_code == ErrorCode.NONE:
                    break
            self._places[kind, key] = f"{found.host}:{found.port}"
            self._await_loaded(kind)
        return self._places[kind, key]

    def _await_loaded(self, kind: int) -> None:
        """Kafka names a coordinator before it has read what it coordinates."""
        for _ in attempts("the coordinator"):
            error = self.described().error_code if kind == TRANSACTION else self._group_error()
            if not ErrorCode(error).retriable:
                break

    def _group_error(self) -> int:
        group = offset_fetch.RequestGroup(group_id=self.group, topics=[])
        return int(self._group(offset_fetch.API, offset_fetch.Request(groups=[group]), 8).groups[0].error_code)

    def _led(self, partition: int) -> str:
        key = (_LEADER - partition, self.topic)
        if key not in self._places:
            request = metadata.Request(topics=[metadata.RequestTopic(name=self.topic)])
            for _ in attempts("a leader"):
                answer = ask_at(self._bootstrap, metadata.API, request)
                leaders = {one.partition_index: one.leader_id for one in answer.topics[0].partitions}
                if partition not in leaders:
                    return self._bootstrap  # which says that there is no such partition
                nodes = [one for one in answer.brokers if one.node_id == leaders[partition]]
                if nodes:
                    break
            self._places[key] = f"{nodes[0].host}:{nodes[0].port}"
        return self._places[key]


def await_leaders(bootstrap: str, topic: str, partitions: int) -> None:
    """Wait until a new topic's partitions are led, which takes a Kafka a while: clients may ask but once."""
    with RawProducer(bootstrap, topic) as raw:
        raw.await_leaders(partitions)
