"""Who has which partition of a topic, when those of a killed broker are with another one, and how long no acks came."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from statistics import median

from bridge.standalone.jvm import JvmProcess
from tests.faults.checker import Load
from tests.faults.processes import let_pass
from tests.support.pulsar_cluster import RealCluster

_TIMEOUT_SECONDS = 90.0
_EVERY_SECONDS = 0.1
_IN_PIPES_SECONDS = 0.5  # so long acks of a broker that is gone may still be on their way through clients


class Owners:
    """The brokers of a topic's partitions."""

    def __init__(self, cluster: RealCluster, namespace: str, topic: str, partitions: int) -> None:
        self._cluster = cluster
        self._topics = [f"{namespace}/{topic}-partition-{number}" for number in range(partitions)]

    def now(self) -> list[JvmProcess | None]:
        """The owner of each partition."""
        return [self._cluster.owner(topic) for topic in self._topics]

    def of_all(self) -> list[JvmProcess]:
        """The owner of each partition, when each has one: one that was unloaded has none for a moment."""
        until = time.monotonic() + _TIMEOUT_SECONDS
        while True:
            found = [owner for owner in self.now() if owner is not None]
            if len(found) == len(self._topics):
                return found
            assert time.monotonic() < until, "partitions are nowhere"
            let_pass(_EVERY_SECONDS)

    def busiest(self) -> JvmProcess:
        """The broker with most partitions."""
        found = Counter(owner for owner in self.now() if owner is not None)
        return found.most_common(1)[0][0]

    def of(self, broker: JvmProcess) -> list[int]:
        """The partitions of a broker."""
        return [partition for partition, owner in enumerate(self.now()) if owner is broker]

    def bundles(self) -> list[str]:
        """The bundles with partitions in them."""
        return sorted({self._cluster.bundle_of(topic) for topic in self._topics})

    def elsewhere(self, bundle: str) -> JvmProcess:
        """A broker that does not have this bundle of ours."""
        topic = next(topic for topic in self._topics if self._cluster.bundle_of(topic) == bundle)
        owner = self._cluster.owner(topic)
        brokers = self._cluster.brokers
        return brokers[0] if owner is None else brokers[(brokers.index(owner) + 1) % len(brokers)]

    def moved(self, partitions: Iterable[int], broker: JvmProcess) -> dict[int, float]:
        """Wait until each of these has another owner than this one; when that was first seen."""
        left, seen = set(partitions), dict[int, float]()
        asked = next(one for one in self._cluster.brokers if one is not broker and one.child.running)
        until = time.monotonic() + _TIMEOUT_SECONDS
        while left:
            assert time.monotonic() < until, f"partitions {left} of {broker.name} are nowhere"
            for partition in list(left):
                owner = self._cluster.owner(self._topics[partition], asked)
                if owner is not None and owner is not broker:
                    seen[partition] = time.monotonic()
                    left.discard(partition)
            let_pass(_EVERY_SECONDS)
        return seen


def first_acks(running: Load, moved: dict[int, float], lost_at: float) -> list[float]:
    """Of each partition that moved: seconds from its new owner to the first ack (0: before we saw the owner)."""
    found = []
    for partition, owned in moved.items():
        times = acks(running, partition, lost_at + _IN_PIPES_SECONDS)
        assert times, f"no ack for partition {partition} after it moved"
        found.append(round(max(times[0] - owned, 0.0), 2))
    return found


def longest_pauses(running: Load, since: float) -> list[float]:
    """Of each partition: the longest time between two acks, from then on."""
    found = []
    for partition in range(running.partitions):
        times = [since, *acks(running, partition, since)]
        found.append(round(max(later - earlier for earlier, later in pairwise(times)), 2))
    return found


def acks(running: Load, partition: int, since: float) -> list[float]:
    """When any writer had an ack of this partition."""
    return sorted(at for writer in running.writers for at in writer.ack_times(since)[partition])


def summary(seconds: list[float]) -> str:
    """Median and worst."""
    return f"p50 {median(seconds):.2f} s, max {max(seconds):.2f} s, of {len(seconds)}"
