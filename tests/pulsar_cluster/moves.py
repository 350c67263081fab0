"""Who has which partition of a topic, and when those of a killed broker are with another one."""

from __future__ import annotations

import time
from collections import Counter

from bridge.standalone.jvm import JvmProcess
from tests.faults.processes import let_pass
from tests.support.pulsar_cluster import RealCluster

_TIMEOUT_SECONDS = 90.0
_EVERY_SECONDS = 0.1


class Owners:
    """The brokers of a topic's partitions."""

    def __init__(self, cluster: RealCluster, namespace: str, topic: str, partitions: int) -> None:
        self._cluster = cluster
        self._topics = [f"{namespace}/{topic}-partition-{number}" for number in range(partitions)]

    def now(self) -> list[JvmProcess | None]:
        """The owner of each partition."""
        return [self._cluster.owner(topic) for topic in self._topics]

    def busiest(self) -> JvmProcess:
        """The broker with most partitions."""
        found = Counter(owner for owner in self.now() if owner is not None)
        return found.most_common(1)[0][0]

    def moved_from(self, broker: JvmProcess) -> float:
        """Wait until every partition has another owner; the time of the clock when that was seen."""
        until = time.monotonic() + _TIMEOUT_SECONDS
        while time.monotonic() < until:
            owners = self.now()
            if None not in owners and broker not in owners:
                return time.monotonic()
            let_pass(_EVERY_SECONDS)
        raise AssertionError(f"partitions of {broker.name} are nowhere: {owners}")
