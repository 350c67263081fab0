"""Judges what nodes list by what was created and deleted: topics as lives, each with an id of its own.

* so long after its creation was acknowledged, each node lists a topic, with its id and all its partitions;
* what a node has listed it goes on listing until the topic's deletion begins, and with no fewer partitions;
* so long after a deletion was acknowledged, no node lists the topic's id;
* what a node has ceased to list does not come back with the same id;
* no answer lists an id that no creation was answered with.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from math import inf
from uuid import UUID

from tests.faults.nodes.answers import ClusterAnswer

KNOWN_WITHIN = 10.0
"""Seconds; nodes tell each other at once, and ask Pulsar after five if that was lost."""


@dataclass
class Life:
    """A topic from its creation to its deletion; times are monotonic."""

    name: str
    id: UUID
    partitions: int
    created: float
    """When the creation, or the last growth, was acknowledged."""
    deleting: float = inf
    """When the first request to delete it was sent."""
    deleted: float = inf
    """When the deletion was acknowledged."""


@dataclass
class _Listed:
    """How a node has listed a topic."""

    partitions: int
    is_gone: bool = False


Covers = Callable[[Life], bool]
"""Whether an answer tells of a topic."""


class TopicWatch:
    """What is known of topics, and the answers that contradict it."""

    def __init__(self, known_within: float = KNOWN_WITHIN) -> None:
        self.wrong: list[str] = []
        self._known_within = known_within
        self._lives: dict[UUID, Life] = {}
        self._listed: dict[tuple[str, UUID], _Listed] = {}
        self._lock = threading.Lock()

    def created(self, name: str, topic_id: UUID, partitions: int, now: float) -> Life:
        """A creation was acknowledged."""
        with self._lock:
            if topic_id in self._lives:
                self.wrong.append(f"{name} is created as {topic_id}, which was there before")
            life = self._lives[topic_id] = Life(name, topic_id, partitions, now)
            return life

    def grown(self, life: Life, partitions: int, now: float) -> None:
        """A growth was acknowledged."""
        with self._lock:
            life.partitions, life.created = partitions, now

    def deleting(self, life: Life, now: float) -> None:
        """A deletion is about to be asked for."""
        with self._lock:
            life.deleting = now

    def deleted(self, life: Life, now: float) -> None:
        """A deletion was acknowledged."""
        with self._lock:
            life.deleted = now

    def lives(self) -> list[Life]:
        """All that were created."""
        with self._lock:
            return list(self._lives.values())

    def told(self, node: str, asked: float, answered: float, answer: ClusterAnswer, covers: Covers) -> None:
        """Judge an answer to a question of these times; answers of a node are told in their order."""
        with self._lock:
            for topic_id, (name, partitions) in answer.ids.items():
                self._one_listed(node, topic_id, name, partitions)
            for life in self._lives.values():
                if covers(life):
                    self._one_life(node, life, asked, answered, answer.ids)

    def unknown_ids(self) -> set[UUID]:
        """What nodes have listed and no creation was answered with."""
        with self._lock:
            return {topic_id for _, topic_id in self._listed} - self._lives.keys()

    def _one_listed(self, node: str, topic_id: UUID, name: str, partitions: int) -> None:
        listed = self._listed.setdefault((node, topic_id), _Listed(partitions))
        if listed.is_gone:
            self.wrong.append(f"{node}: {name} comes back as {topic_id}")
        if partitions < listed.partitions:
            self.wrong.append(f"{node}: {name} has {partitions} partitions, and had {listed.partitions}")
        listed.partitions, listed.is_gone = partitions, False

    def _one_life(self, node: str, life: Life, asked: float, answered: float, ids: Collection[UUID]) -> None:
        listed = self._listed.get((node, life.id))
        lives = answered < life.deleting
        is_old = asked > life.created + self._known_within
        if life.id in ids:
            if asked > life.deleted + self._known_within:
                self._say(node, life, f"is listed {asked - life.deleted:.1f} s after its deletion")
            if lives and is_old and listed is not None and listed.partitions < life.partitions:
                self._say(node, life, f"has {listed.partitions} of {life.partitions} partitions")
            return
        if lives and is_old:
            self._say(node, life, f"is not listed {asked - life.created:.1f} s after its creation")
        if listed is not None and not listed.is_gone:
            listed.is_gone = True
            if lives:
                self._say(node, life, "is no longer listed, and not deleted")

    def _say(self, node: str, life: Life, what: str) -> None:
        self.wrong.append(f"{node}: {life.name} ({life.id}) {what}")


def by_name(names: Collection[str]) -> Covers:
    """What an answer about these names tells of."""
    return lambda life: life.name in names


def by_id(ids: Collection[UUID]) -> Covers:
    """What an answer about these ids tells of."""
    return lambda life: life.id in ids


def of_all(_: Life) -> bool:
    """An answer about all topics tells of each."""
    return True
