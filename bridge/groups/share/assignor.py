"""Who should have which partitions of a share group: Kafka's assignor `simple`.

Topics with the same subscribers are dealt with together. As many pairs of a member and a partition are made as there
are of the one that there is more of:

| there are at least as many | then                                                                                  |
|----------------------------|---------------------------------------------------------------------------------------|
| partitions as members      | each partition has one member, and members' numbers of partitions differ by one at most |
| members as partitions      | each member has one partition, and partitions' numbers of members differ by one at most |

What a member had and may keep stays.
"""

import heapq
from collections.abc import Collection, Hashable, Mapping, Sequence, Set
from typing import TypeVar
from uuid import UUID

from bridge.groups.consumer.assignors import Subscriber, TopicIdPartition
from bridge.groups.consumer.model import Assignment, TopicFacts, assignment

_One = TypeVar("_One", bound=Hashable)
_Place = TypeVar("_Place", bound=Hashable)


def simple(members: Mapping[str, Subscriber], topics: Mapping[str, TopicFacts]) -> dict[str, Assignment]:
    """What each member should have."""
    classes: dict[tuple[str, ...], list[TopicIdPartition]] = {}
    in_order = sorted(members)
    for name in sorted(topics):
        subscribers = tuple(member_id for member_id in in_order if name in members[member_id].topics)
        partitions = [(topics[name].id, number) for number in range(topics[name].partitions)]
        classes.setdefault(subscribers, []).extend(partitions)
    given: dict[str, list[TopicIdPartition]] = {member_id: [] for member_id in members}
    for subscribers, partitions in classes.items():
        for member_id, partition in _pairs(subscribers, partitions, members):
            given[member_id].append(partition)
    return {member_id: assignment(partitions) for member_id, partitions in given.items()}


def _pairs(
    subscribers: Sequence[str], partitions: Sequence[TopicIdPartition], members: Mapping[str, Subscriber]
) -> list[tuple[str, TopicIdPartition]]:
    if not subscribers or not partitions:
        return []
    topics = {topic for topic, _ in partitions}  # no others: there may be as many classes as topics
    had: list[tuple[str, TopicIdPartition]] = [
        (member_id, (topic, number))
        for member_id in subscribers
        for topic, numbers in _had_of(members[member_id].had, topics)
        for number in sorted(numbers)
    ]
    if len(partitions) >= len(subscribers):
        spread = _spread(partitions, subscribers, [(partition, member_id) for member_id, partition in had])
        return [(member_id, partition) for partition, member_id in spread.items()]
    return list(_spread(subscribers, partitions, had).items())


def _had_of(had: Assignment, topics: Set[UUID]) -> list[tuple[UUID, frozenset[int]]]:
    """What a member had of these topics, in order; the fewer of both are gone through."""
    if len(had) > len(topics):
        return sorted((topic, had[topic]) for topic in topics if topic in had)
    return sorted((topic, numbers) for topic, numbers in had.items() if topic in topics)


def _spread(ones: Sequence[_One], places: Sequence[_Place], had: Collection[tuple[_One, _Place]]) -> dict[_One, _Place]:
    """A place for each one, so that places have equally many, up to one; where it was as far as that allows."""
    fewest, extra = divmod(len(ones), len(places))
    wanted, counts = set(ones), dict.fromkeys(places, 0)
    found: dict[_One, _Place] = {}
    for most in (fewest, fewest + 1):  # places that have one more are the last choice, and there are so many of them
        for one, place in had:
            fits = one in wanted and one not in found and counts.get(place, most) < most
            if fits and (most == fewest or extra > 0):
                extra -= most > fewest
                found[one] = place
                counts[place] += 1
    emptiest = [(count, order, place) for order, (place, count) in enumerate(counts.items())]
    heapq.heapify(emptiest)
    for one in ones:
        if one not in found:
            count, order, place = emptiest[0]
            found[one] = place
            heapq.heapreplace(emptiest, (count + 1, order, place))
    return found
