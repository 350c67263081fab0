"""Pulsar stops answering without going away: where a log starts is told from memory, where it ends is not."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka.admin import AdminClient, NewTopic

from bridge.apis import list_offsets
from bridge.apis.list_offsets import EARLIEST, LATEST, Request, RequestPartition, RequestTopic
from tests.apis.wire import ask_at
from tests.contract.log import Log
from tests.faults.processes import let_pass
from tests.support.bridges import BridgeChild
from tests.support.freezing import frozen
from tests.support.pulsar import PrivatePulsar


def offset(bridge: BridgeChild, topic: str, timestamp: int) -> int:
    wanted = RequestTopic(name=topic, partitions=[RequestPartition(partition_index=0, timestamp=timestamp)])
    answer = ask_at(bridge.kafka, list_offsets.API, Request(replica_id=-1, topics=[wanted]))
    (partition,) = answer.topics[0].partitions
    assert partition.error_code == 0
    found: int = partition.offset
    return found


def test_the_end_of_a_log_is_not_told_from_memory(
    start_bridge: Callable[[], BridgeChild], broker: PrivatePulsar, topic: str
) -> None:
    """Others may have written there since: who asks waits until Pulsar has said."""
    bridge = start_bridge()
    admin = AdminClient({"bootstrap.servers": bridge.kafka})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    with Log(bridge.kafka, topic) as log, ThreadPoolExecutor(8) as askers:
        log.write_batches((3, 5))
        assert log.ends() == (0, 8)
        with frozen(broker.pid):
            ends = [askers.submit(offset, bridge, topic, LATEST) for _ in range(8)]
            assert [offset(bridge, topic, EARLIEST) for _ in range(20)] == [0] * 20
            let_pass(0.5)
            assert not any(end.done() for end in ends)
        assert [end.result() for end in ends] == [8] * 8
        assert log.write([b"after"]) == [8]
