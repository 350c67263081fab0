"""Pulsar stops answering without going away: what the bridge tells from memory it tells all the same."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from confluent_kafka.admin import AdminClient, NewTopic

from tests.contract.log import Log
from tests.support.bridges import BridgeChild
from tests.support.pulsar import PrivatePulsar


def test_both_ends_of_a_partition_are_told_from_memory(
    start_bridge: Callable[[], BridgeChild], broker: PrivatePulsar, topic: str
) -> None:
    """Spark asks for both twice a poll: a question to Pulsar for each would be the end of its speed."""
    bridge = start_bridge()
    admin = AdminClient({"bootstrap.servers": bridge.kafka})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    with Log(bridge.kafka, topic) as log:
        log.write_batches((3, 5))
        assert log.ends() == (0, 8)
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            assert [log.ends() for _ in range(100)] == [(0, 8)] * 100
        finally:
            os.kill(broker.pid, signal.SIGCONT)
        assert log.write([b"after"]) == [8]
