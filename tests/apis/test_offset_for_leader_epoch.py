"""OffsetForLeaderEpoch: every epoch ends where the log does."""

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bridge.apis import metadata, offset_for_leader_epoch
from bridge.kafka.error_codes import ErrorCode
from tests.apis.wire import ask, unique
from tests.support.bridges import BridgeThread


def write(bridge: BridgeThread, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bridge.kafka})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(30) == 0


def test_every_epoch_ends_where_the_log_does(bridge: BridgeThread) -> None:
    topic = unique("tool")
    admin = AdminClient({"bootstrap.servers": bridge.kafka})
    admin.create_topics([NewTopic(topic, 1)])[topic].result(30)
    write(bridge, topic, 5)

    def end(epoch: int, current: int = -1, partition: int = 0) -> tuple[int, int, int]:
        wanted = offset_for_leader_epoch.RequestPartition(
            partition=partition, current_leader_epoch=current, leader_epoch=epoch
        )
        request = offset_for_leader_epoch.Request(
            topics=[offset_for_leader_epoch.RequestTopic(topic=topic, partitions=[wanted])]
        )
        found = ask(bridge, offset_for_leader_epoch.API, request).topics[0].partitions[0]
        return found.error_code, found.leader_epoch, found.end_offset

    assert end(0) == (ErrorCode.NONE, 0, 5)
    asked = metadata.Request(topics=[metadata.RequestTopic(name=topic)])
    leader = ask(bridge, metadata.API, asked).topics[0].partitions[0].leader_epoch
    assert end(0, current=leader) == end(leader, current=leader) == (ErrorCode.NONE, 0, 5)
    assert end(1) == end(2**31 - 1) == (ErrorCode.NONE, 0, 5), "no log is ever truncated"
    assert end(-1) == (ErrorCode.NONE, -1, -1)
    assert end(0, current=leader - 1) == (ErrorCode.FENCED_LEADER_EPOCH, -1, -1)
    assert end(0, current=leader + 1) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)
    assert end(0, partition=1) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
