"""Who should have which partitions: the assignors that Kafka has on its side, `uniform` and `range`.

Both get what each member subscribes to; `uniform` also what each member should have had so far.

| assignor | promises                                                                                            |
|----------|-----------------------------------------------------------------------------------------------------|
| uniform  | two members that could take each other's partitions differ by one at most; few partitions move      |
| range    | of each topic each subscriber gets neighbours, in one order of members: the same numbers of topics  |
|          | with equally many partitions and the same subscribers (co-partitioning)                             |
"""

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias
from uuid import UUID

from bridge.groups.consumer.model import RANGE, UNIFORM, Assignment, TopicFacts, assignment

TopicIdPartition: TypeAlias = tuple[UUID, int]


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A member as the assignors see it."""

    id: str
    instance_id: str | None
    topics: frozenset[str]
    had: Assignment = field(default_factory=dict)


Assignor: TypeAlias = Callable[[Mapping[str, Subscriber], Mapping[str, TopicFacts]], dict[str, Assignment]]


def by_range(members: Mapping[str, Subscriber], topics: Mapping[str, TopicFacts]) -> dict[str, Assignment]:
    """Static members come first, by instance id, so that one that comes back gets the same again."""
    order = sorted(members.values(), key=lambda one: (one.instance_id is None, one.instance_id or one.id))
    given: dict[str, dict[UUID, frozenset[int]]] = {member_id: {} for member_id in members}
    for name, topic in topics.items():
        subscribers = [one.id for one in order if name in one.topics]
        if not subscribers:
            continue
        quota, extra = divmod(topic.partitions, len(subscribers))
        start = 0
        for position, member_id in enumerate(subscribers):
            end = start + quota + (position < extra)
            if end > start:
                given[member_id][topic.id] = frozenset(range(start, end))
            start = end
    return dict(given)


def uniformly(members: Mapping[str, Subscriber], topics: Mapping[str, TopicFacts]) -> dict[str, Assignment]:
    """Members keep what they had; the rest goes to those with least; then the fullest give to the emptiest."""
    return _Uniform(members, topics).assign()


class _Uniform:
    def __init__(self, members: Mapping[str, Subscriber], topics: Mapping[str, TopicFacts]) -> None:
        self._members = members
        self._topics = topics
        self._given: dict[str, set[TopicIdPartition]] = {member_id: set() for member_id in sorted(members)}
        # topics with the same subscribers are dealt with together, those with the fewest subscribers first
        classes: dict[tuple[str, ...], list[TopicFacts]] = {}
        for name in sorted(topics):
            subscribers = tuple(member_id for member_id in self._given if name in members[member_id].topics)
            if subscribers:
                classes.setdefault(subscribers, []).append(topics[name])
        self._classes = sorted(classes.items(), key=lambda one: len(one[0]))

    def assign(self) -> dict[str, Assignment]:
        taken = self._keep()
        for subscribers, topics in self._classes:
            self._fill(subscribers, [one for one in _partitions(topics) if one not in taken])
        classes = self._given_by_class()
        moved = True
        while moved:  # each move makes loads more alike, so there is an end
            moved = any([self._balance(own) for own in classes])
        return {member_id: assignment(sorted(given)) for member_id, given in self._given.items()}

    def _keep(self) -> set[TopicIdPartition]:
        """Let members keep what they had, as far as it exists and they want it."""
        by_id = {topic.id: (name, topic.partitions) for name, topic in self._topics.items()}
        taken: set[TopicIdPartition] = set()
        for member_id, given in self._given.items():
            member = self._members[member_id]
            for topic_id, numbers in member.had.items():  # not of each topic whether it had any: most had few
                name, partitions = by_id.get(topic_id, ("", 0))
                if name in member.topics:
                    kept = {(topic_id, number) for number in numbers if number < partitions} - taken
                    given |= kept
                    taken |= kept
        return taken

    def _fill(self, subscribers: tuple[str, ...], free: list[TopicIdPartition]) -> None:
        emptiest = [(self._load(one), one) for one in subscribers]
        heapq.heapify(emptiest)
        for partition in free:
            load, member_id = emptiest[0]
            self._given[member_id].add(partition)
            heapq.heapreplace(emptiest, (load + 1, member_id))

    def _given_by_class(self) -> list[dict[str, list[TopicIdPartition]]]:
        """What each subscriber of a class has of it: there may be as many classes as topics, so nothing is gone
        through once for each."""
        found: list[dict[str, list[TopicIdPartition]]] = []
        class_of: dict[UUID, dict[str, list[TopicIdPartition]]] = {}
        for subscribers, topics in self._classes:
            found.append({one: [] for one in subscribers})
            class_of |= {topic.id: found[-1] for topic in topics}
        for member_id, given in self._given.items():
            for partition in given:
                class_of[partition[0]][member_id].append(partition)
        return found

    def _balance(self, own: dict[str, list[TopicIdPartition]]) -> bool:
        moved = False
        while True:
            fullest = max((one for one in own if own[one]), key=self._load, default=None)
            emptiest = min(own, key=self._load)
            if fullest is None or self._load(fullest) - self._load(emptiest) <= 1:
                return moved
            if not moved:
                for partitions in own.values():
                    partitions.sort()
            partition = own[fullest].pop()
            own[emptiest].append(partition)
            self._given[fullest].remove(partition)
            self._given[emptiest].add(partition)
            moved = True

    def _load(self, member_id: str) -> int:
        return len(self._given[member_id])


def _partitions(topics: list[TopicFacts]) -> list[TopicIdPartition]:
    return [(topic.id, number) for topic in topics for number in range(topic.partitions)]


ASSIGNORS: Final[Mapping[str, Assignor]] = {UNIFORM: uniformly, RANGE: by_range}
