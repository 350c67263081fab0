"""The logs that are open, as a sweep finds them."""

from types import SimpleNamespace
from typing import Any, cast

from bridge.storage.topics.partition_logs import PartitionLogs
from bridge.telemetry.metrics import LedPartitions, StorageMetrics


class Opened:
    """A log of a partition."""

    def __init__(self, held_for: float, *, is_led: bool = True) -> None:
        self.is_led = is_led
        self.known_end = None
        self.traffic = SimpleNamespace(shown=True)
        self._held_for = held_for

    async def sweep(self, now: float) -> None:
        """Nothing is idle."""

    def held_for(self, now: float) -> float:
        return self._held_for


async def test_topics_whose_readers_are_held_back_for_long_are_told_by_who_leads_them() -> None:
    async def nothing() -> None:
        """No reader is idle."""

    metrics = StorageMetrics()
    storage = SimpleNamespace(
        metrics=metrics, label_prefix="acme/orders/", catch_up_readers=SimpleNamespace(sweep=nothing)
    )
    logs = PartitionLogs(cast(Any, storage), *cast(Any, [None] * 4))
    topics = [
        SimpleNamespace(name="long", partitions=4, logs={0: Opened(30.0), 1: Opened(70.0), 2: Opened(50.0)}),
        SimpleNamespace(name="short", partitions=1, logs={0: Opened(9.0)}),
        SimpleNamespace(name="of another", partitions=2, logs={0: Opened(90.0, is_led=False)}),
    ]
    await logs.sweep(cast(Any, topics))
    assert metrics.led == {"acme/orders/": LedPartitions(4, [], {"acme/orders/long": 70.0}, 3, 7)}
    for topic in topics:
        topic.logs = {0: Opened(0.0)}
    await logs.sweep(cast(Any, topics))
    assert metrics.led["acme/orders/"].held == {}
