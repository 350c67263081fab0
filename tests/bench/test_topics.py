from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.topics import Client, System
from tests.support.bridges import BridgeChild
from tests.support.servers import KafkaServer


@pytest.mark.soak
def test_everything_is_done_and_timed(bridge_process: Callable[..., BridgeChild]) -> None:
    child = bridge_process()
    system = System(KafkaServer(child.process.child, child.process.launch, child.kafka), child.process.child.kill)
    client = Client(system, 12)
    client.run()
    assert len(client.seconds) == 10
    assert all(seconds > 0 for seconds in client.seconds.values())
    assert list(client.seconds)[:2] == ["create 12 topics", "first record to each"]
