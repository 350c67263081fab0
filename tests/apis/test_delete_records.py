"""DeleteRecords: no client of any bridge reads deleted records, and no other record is lost."""

from collections.abc import Callable

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bridge.apis import delete_records, list_offsets
from bridge.kafka.error_codes import ErrorCode
from tests.apis.wire import ask, unique
from tests.support.bridges import BridgeThread
from tests.support.pulsar import PulsarAddress
from tests.support.waiting import until

START = 1_600_000_000_000
_NONE = {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0}


def fill(bridge: BridgeThread, count: int = 100, config: dict[str, str] | None = None) -> str:
    """A topic of two partitions with this many records in partition 0, in batches of ten, a second apart."""
    topic = unique("delete")
    admin = AdminClient({"bootstrap.servers": bridge.kafka})
    admin.create_topics([NewTopic(topic, 2, config=config or {})])[topic].result(30)
    write(bridge, topic, count)
    return topic


def write(bridge: BridgeThread, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bridge.kafka, "batch.num.messages": 10, "linger.ms": 50})
    for number in range(count):
        producer.produce(topic, b"%d" % number, b"key", partition=0, timestamp=START + number * 1000)
    assert producer.flush(30) == 0


def delete(bridge: BridgeThread, topic: str, offset: int, partition: int = 0) -> tuple[int, int]:
    """The error code and the low watermark."""
    wanted = delete_records.RequestPartition(partition_index=partition, offset=offset)
    request = delete_records.Request(
        topics=[delete_records.RequestTopic(name=topic, partitions=[wanted])], timeout_ms=30_000
    )
    answer = ask(bridge, delete_records.API, request).topics[0].partitions[0]
    return answer.error_code, answer.low_watermark


def offset_at(bridge: BridgeThread, topic: str, timestamp: int) -> int:
    wanted = list_offsets.RequestPartition(partition_index=0, timestamp=timestamp)
    request = list_offsets.Request(replica_id=-1, topics=[list_offsets.RequestTopic(name=topic, partitions=[wanted])])
    answer = ask(bridge, list_offsets.API, request).topics[0].partitions[0]
    assert answer.error_code == ErrorCode.NONE
    assert isinstance(answer.offset, int)
    return answer.offset


def read(bridge: BridgeThread, topic: str, count: int, start: int = OFFSET_BEGINNING) -> list[tuple[int, bytes]]:
    """The first records that a consumer with auto.offset.reset=earliest gets."""
    consumer = Consumer({"bootstrap.servers": bridge.kafka, "group.id": "none", "auto.offset.reset": "earliest"})
    try:
        consumer.assign([TopicPartition(topic, 0, start)])
        messages = consumer.consume(count, 30)
        assert all(message.error() is None for message in messages)
        return [(message.offset(), message.value()) for message in messages]
    finally:
        consumer.close()


def leads(bridge: BridgeThread, topic: str) -> None:
    """Wait until this bridge leads partition 0."""
    cluster = bridge.server.cluster
    assert cluster is not None

    def led() -> bool:
        leader = cluster.snapshot.leader(topic, 0).node
        return leader is not None and leader.id == cluster.node_id

    bridge.call(until(led))


def test_the_log_starts_at_the_given_offset(bridge: BridgeThread) -> None:
    topic = fill(bridge)
    assert delete(bridge, topic, 42) == (ErrorCode.NONE, 42)
    assert (offset_at(bridge, topic, -2), offset_at(bridge, topic, -1)) == (42, 100)
    assert read(bridge, topic, 58) == [(offset, b"%d" % offset) for offset in range(42, 100)]
    # below the start is out of range, which sends this consumer to the beginning
    assert read(bridge, topic, 1, start=41) == [(42, b"42")]
    assert offset_at(bridge, topic, START) == 42
    assert offset_at(bridge, topic, START + 50_000) == 50


def test_the_log_start_never_decreases(bridge: BridgeThread) -> None:
    topic = fill(bridge)
    assert delete(bridge, topic, 42) == (ErrorCode.NONE, 42)
    assert delete(bridge, topic, 0) == (ErrorCode.NONE, 42)
    assert delete(bridge, topic, 41) == (ErrorCode.NONE, 42)
    assert delete(bridge, topic, 43) == (ErrorCode.NONE, 43)


def test_other_bridges_have_the_new_log_start(bridge_with: Callable[..., BridgeThread]) -> None:
    first = bridge_with()
    topic = fill(first)
    assert delete(first, topic, 42) == (ErrorCode.NONE, 42)
    later = bridge_with()
    assert read(later, topic, 1, start=7) == [(42, b"42")]  # of whichever of the two leads it
    first.stop()
    leads(later, topic)
    assert offset_at(later, topic, -2) == 42
    assert read(later, topic, 1, start=7) == [(42, b"42")]
    assert delete(later, topic, 10) == (ErrorCode.NONE, 42)


def test_all_records_are_deleted_and_offsets_continue(bridge: BridgeThread) -> None:
    topic = fill(bridge)
    assert delete(bridge, topic, -1) == (ErrorCode.NONE, 100)
    assert (offset_at(bridge, topic, -2), offset_at(bridge, topic, -1)) == (100, 100)
    assert offset_at(bridge, topic, START) == -1
    write(bridge, topic, 3)
    assert read(bridge, topic, 3) == [(100, b"0"), (101, b"1"), (102, b"2")]


def test_pulsar_deletes_the_ledgers_below_the_log_start(
    bridge_with: Callable[..., BridgeThread], pulsar: PulsarAddress
) -> None:
    first = bridge_with()
    topic = fill(first)
    full = f"persistent/{first.namespace}/{topic}"
    assert delete(first, topic, 42) == (ErrorCode.NONE, 42)
    pulsar.admin("PUT", f"{full}/unload")  # the next open begins a new ledger
    write(first, topic, 1)
    pulsar.admin("POST", f"persistent/{first.namespace}/{topic}/retention", _NONE)
    # one ledger holds 0 to 99, and what is above the start in it is Pulsar's retention's to delete
    assert delete(first, topic, 100) == (ErrorCode.NONE, 100)
    first.stop()
    later = bridge_with()
    leads(later, topic)
    assert offset_at(later, topic, -2) == 100
    assert read(later, topic, 1) == [(100, b"0")]


def test_deleting_from_an_empty_log_changes_nothing(bridge: BridgeThread) -> None:
    topic = fill(bridge, 0)
    assert delete(bridge, topic, -1) == (ErrorCode.NONE, 0)
    assert delete(bridge, topic, 0) == (ErrorCode.NONE, 0)


def test_what_cannot_be_deleted_is_refused(bridge: BridgeThread) -> None:
    topic = fill(bridge, 10)
    assert delete(bridge, topic, 11) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert delete(bridge, topic, -2) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert delete(bridge, topic, 0, partition=2) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert delete(bridge, "no-such-topic", 0) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    compacted = fill(bridge, 10, {"cleanup.policy": "compact"})
    assert delete(bridge, compacted, 5) == (ErrorCode.POLICY_VIOLATION, -1)
    assert read(bridge, compacted, 1) == [(0, b"0")]
