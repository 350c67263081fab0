"""The log checker's load on several nodes: clients of each family, and a watch over what the nodes answer."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast

from tests.faults.checker import Load, Verdict, usual_writers
from tests.faults.clients import Follower
from tests.faults.nodes.answers import cluster_at, controller_at
from tests.faults.nodes.watch import Watch
from tests.faults.nodes.writers import AioKafkaWriter, GoWriter, JavaWriter, longest_pause
from tests.faults.processes import let_pass
from tests.faults.stored import entries_at
from tests.support.nodes import Node, Nodes

PARTITIONS = 6
_PER_TURN = 3
_FETCH_WAIT_MS = 5000
"""A partition that moves to a node waits there for the end of a Fetch without it, as before a Kafka."""
_TIMEOUT_SECONDS = 60.0
_SETTLED_SECONDS = 30.0


class NodesLoad(Load):
    """Writers that bootstrap at random nodes, the first of them behind an address where no server listens."""

    def __init__(self, nodes: Nodes, topic: str, work: Path | None, *, go: bool, partitions: int = PARTITIONS) -> None:
        """`work`: where Java's producer is compiled and logs; without one there is no such client. `go`: franz-go's,
        too."""
        bootstrap = nodes.bootstrap(dead=1)
        super().__init__(bootstrap, topic, partitions, usual_writers(bootstrap, idempotent=False))
        self.nodes = nodes
        self.follower = Follower(bootstrap, topic, partitions, self.changed, _FETCH_WAIT_MS)
        self.writers.append(AioKafkaWriter("a", nodes.bootstrap(), topic, partitions, self.changed))
        if work is not None:
            self.writers.append(JavaWriter("j", nodes.bootstrap(), topic, partitions, self.changed, work))
        if work is not None and go:
            self.writers.append(GoWriter("g", nodes.bootstrap(), topic, partitions, self.changed, work))
        for writer in self.writers:
            writer.per_turn = _PER_TURN
        self._highest: dict[int, int] = {}
        self._seen = [0] * len(self.writers)
        self.watch = Watch(topic, partitions, self._floor)

    def start(self) -> None:
        super().start()
        self.watch.start(self.nodes.all)

    def _floor(self) -> dict[int, int]:
        with self.changed:
            for number, writer in enumerate(self.writers):
                for where, offset, _ in writer.acks[self._seen[number] :]:
                    self._highest[where] = max(self._highest.get(where, -1), offset)
                self._seen[number] = len(writer.acks)
            return dict(self._highest)

    def progress(self) -> str:
        behind = {partition: (self.follower.next[partition], at) for partition, at in self._floor().items()}
        leaders = [cluster_at(node.kafka, [self.topic]).leaders for node in self.nodes.all if node.is_running]
        return (
            f"{super().progress()}; read up to, acked up to: {behind}; leaders: {leaders[:1]}; producers that Pulsar "
            f"knows of: {self._publishers()}"
        )

    def _publishers(self) -> list[str]:
        """Which connection holds each producer name of each partition: who keeps the others waiting."""
        found = []
        for partition in range(self.partitions):
            path = f"persistent/{self.nodes.namespace}/{self.topic}-partition-{partition}/stats"
            try:
                stats = cast("dict[str, list[dict[str, str]]]", self.nodes.pulsar.admin("GET", path))
            except (OSError, AssertionError) as error:
                return [str(error)]
            for one in stats["publishers"]:
                found.append(f"{partition} {one['producerName']} {one['address']} since {one['connectedSince']}")
        return found

    def led_by(self, node: Node) -> set[int]:
        """The partitions that a node leads, as it or another one says."""
        told = cluster_at(self.nodes.any().kafka if not node.is_running else node.kafka, [self.topic])
        return {partition for _, partition in told.led_by(node.kafka)}

    def controller(self) -> Node:
        """The node that is the controller, once some node names one."""
        until = time.monotonic() + _SETTLED_SECONDS
        while True:
            with suppress(OSError, struct.error):
                if address := controller_at(self.nodes.any().kafka):
                    return self.nodes.at(address)
            assert time.monotonic() < until, "no node names a controller"

    def pick(self, who: str) -> Node:
        """The controller, or a random other node."""
        controller = self.controller()
        return controller if who == "controller" else self.nodes.random.choice(self.nodes.others(controller))

    def until_settled(self, condition: Callable[[], bool]) -> None:
        """Wait for what the nodes answer; one that does not answer yet has not settled."""
        until = time.monotonic() + _SETTLED_SECONDS
        while True:
            with suppress(OSError, struct.error):
                if condition():
                    return
            assert time.monotonic() < until, "the cluster does not settle"
            let_pass(0.2)

    def first_acks(self, since: float, partitions: Collection[int], seconds: float = _TIMEOUT_SECONDS) -> float:
        """Seconds until each writer has an acknowledgement of a record sent after a moment, of each of these."""
        writers = [writer for writer in self.writers if not writer.stopped]
        wanted = {(writer.name, partition) for writer in writers for partition in partitions}
        self.until("first acks", lambda: wanted <= {k for w in writers for k in w.fresh(since)}, seconds)
        told = {key: at for writer in writers for key, at in writer.fresh(since).items()}
        return max((told[key] for key in wanted), default=since) - since

    def longest_pause(self, since: float) -> float:
        """The longest time that any writer got nothing from one partition."""
        return longest_pause(self.writers, since)

    def stop(self) -> Verdict:
        self.watch.finish()
        return super().stop()

    def abandon(self) -> None:
        self.watch.finish()
        super().abandon()

    def judged(self, *, pauses_only: bool = False, gap_ends: Collection[tuple[int, int]] = ()) -> Verdict:
        """Stop and fail on every anomaly; `pauses_only`: no client may have sent anything twice, or met an error."""
        verdict = self.stop()
        verdict.check(duplicates=not pauses_only, gap_ends=gap_ends)
        assert not verdict.duplicates_idempotent, "\n".join([str(verdict), *self._stored(verdict)])
        self.watch.check()
        if pauses_only:
            assert not self.follower.errors, self.follower.errors[:10]
        return verdict

    def _stored(self, verdict: Verdict) -> list[str]:
        """What Pulsar holds where something is that should be there once."""
        told: list[str] = []
        for duplicate in verdict.duplicates_idempotent[:5]:
            for partition in sorted({partition for partition, _ in duplicate.places}):
                name = f"persistent://{self.nodes.namespace}/{self.topic}-partition-{partition}"
                offsets = [offset for where, offset in duplicate.places if where == partition]
                told += entries_at(self.nodes.all[0].settings, name, offsets)
        return told


def members_named(nodes: Sequence[Node]) -> dict[str, int]:
    """How many brokers each node lists."""
    return {node.name: len(cluster_at(node.kafka, ()).brokers) for node in nodes}


@contextmanager
def nodes_load(
    nodes: Nodes, topic: str, work: Path | None = None, *, go: bool = False, partitions: int = PARTITIONS
) -> Iterator[NodesLoad]:
    """A load that is under way: each writer has acknowledgements, and they are read."""
    running = NodesLoad(nodes, topic, work, go=go, partitions=partitions)
    try:
        running.start()
        running.more(30)
        yield running
    finally:
        running.abandon()
