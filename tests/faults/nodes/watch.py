"""Asks every node the whole time, and notes each answer that cannot be: of leaders, brokers, epochs and ends.

* a leader is among the brokers of the same answer, and so is the controller;
* a node's epoch of a partition never goes back; a partition's epoch has one leader, whichever node tells it;
* an answer is of one view: none holds one partition's epoch together with what it replaced of another;
* the end of a partition is behind each record acknowledged before the question, and never before an end told earlier.
"""

from __future__ import annotations

import struct
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence

from tests.faults.nodes.answers import NO_NODE, ClusterAnswer, Partition, cluster_at, latest_at
from tests.faults.nodes.node_threads import NodeThreads
from tests.support.nodes import Node

_EVERY_SECONDS = 0.2
Floor = Callable[[], dict[int, int]]
"""For each partition the highest offset acknowledged so far."""


class Watch:
    """Judges answers as they come; `check` at the end."""

    def __init__(self, topic: str = "", partitions: int = 0, floor: Floor = dict) -> None:
        self.answers = 0
        self.ends = 0
        self.wrong: list[str] = []
        self._topic = topic
        self._partitions = partitions
        self._floor = floor
        self._lock = threading.Lock()
        self._epochs: dict[tuple[str, Partition], int] = {}
        self._leaders: dict[tuple[Partition, int], int] = {}
        self._views: set[tuple[tuple[Partition, int], ...]] = set()
        self._told_ends: dict[int, int] = defaultdict(int)
        self._threads = NodeThreads("watch", self._run)
        self.start, self.finish = self._threads.start, self._threads.finish

    def check(self) -> None:
        """Fail where an answer could not be."""
        self.finish()
        wrong = self.wrong + self._mixed_views()
        assert self.answers, "no node answered"
        assert not wrong, "\n".join([f"{len(wrong)} wrong of {self.answers} answers", *wrong[:10]])

    def told(self, name: str, answer: ClusterAnswer) -> None:
        """Judge one Metadata answer of a node."""
        ids = [node for node, _ in answer.brokers]
        with self._lock:
            self.answers += 1
            if len(set(ids)) < len(ids):
                self.wrong.append(f"{name} lists a broker twice: {answer.brokers}")
            if answer.controller not in (*ids, NO_NODE):
                self.wrong.append(f"{name}: controller {answer.controller} is not among {ids}")
            for where, replicas in answer.replicas.items():
                if not replicas <= set(ids):
                    self.wrong.append(f"{name}: {where} has replicas {set(replicas)}, not all of them among {ids}")
            for where, (leader, epoch) in answer.leaders.items():
                self._leader_told(name, where, leader, epoch, ids)
            self._views.add(tuple(sorted((where, epoch) for where, (_, epoch) in answer.leaders.items())))

    def _leader_told(self, name: str, where: Partition, leader: int, epoch: int, ids: Sequence[int]) -> None:
        if leader not in (*ids, NO_NODE):
            self.wrong.append(f"{name}: {where} is led by {leader}, who is not among {ids}")
        before = self._epochs.get((name, where), -1)
        if epoch < before:
            self.wrong.append(f"{name}: the epoch of {where} goes from {before} back to {epoch}")
        self._epochs[name, where] = max(epoch, before)
        if leader != NO_NODE and self._leaders.setdefault((where, epoch), leader) != leader:
            known = self._leaders[where, epoch]
            self.wrong.append(f"{name}: {where} is led by {leader} in epoch {epoch}, in which {known} led it")

    def ends_told(self, name: str, ends: dict[int, int], acked: dict[int, int], told: dict[int, int]) -> None:
        """Judge the ends of partitions by what was acknowledged, and what was told, before they were asked for."""
        with self._lock:
            self.ends += 1
            for partition, end in ends.items():
                if end <= acked.get(partition, -1):
                    self.wrong.append(f"{name}: {partition} ends at {end}, and {acked[partition]} is acknowledged")
                if end < told.get(partition, 0):
                    self.wrong.append(f"{name}: {partition} ends at {end}, and was told to end at {told[partition]}")
                self._told_ends[partition] = max(self._told_ends[partition], end)

    def _run(self, node: Node) -> None:
        while not self._threads.pause(_EVERY_SECONDS):
            try:
                self.told(node.name, cluster_at(node.kafka))
                if self._topic:
                    with self._lock:
                        acked, told = self._floor(), dict(self._told_ends)
                    self.ends_told(node.name, latest_at(node.kafka, self._topic, self._partitions), acked, told)
            except (OSError, struct.error):
                continue  # it is down, or does not answer in time, as its clients see too
            except Exception as error:  # noqa: BLE001 - told to the test, which fails
                self.wrong.append(f"{node.name}: {type(error).__name__}: {error}")
                return

    def _mixed_views(self) -> list[str]:
        """Answers of more than one view: an epoch together with what it had replaced of another partition."""
        known: dict[Partition, set[int]] = defaultdict(set)
        for view in self._views:
            for where, epoch in view:
                known[where].add(epoch)
        wrong = []
        for view in self._views:
            newest = max((epoch for _, epoch in view), default=-1)
            for where, epoch in view:
                if any(epoch < later <= newest for later in known[where]):
                    wrong.append(f"an answer holds epoch {newest}, and of {where} still {epoch}")
        return wrong
