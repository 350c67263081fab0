"""Which tasks a topology (KIP-1071) has, and which internal topics it needs (Kafka's InternalTopicManager).

| topic             | has as many partitions as                                                                    |
|-------------------|----------------------------------------------------------------------------------------------|
| source            | it has: that is another application's matter                                                 |
| repartition topic | the topology says, or else the largest that is read by the subtopology that writes to it     |
| … copartitioned   | the sources of its group; where these are repartition topics all, as the one whose number is |
|                   | said, or else the largest                                                                    |
| changelog         | its subtopology has tasks: the largest of what that reads                                    |

What is said of topics outside a copartition group does not count in it: Kafka 4.3 takes that for the group's, and so
refuses what its clients allow in classic groups.
"""

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

from bridge.errors import KafkaError
from bridge.groups.streams.model import CopartitionGroup, Subtopology, Task, TopicInfo, Topology
from bridge.kafka.error_codes import ErrorCode
from bridge.storage.names import INTERNAL, is_shown

PartitionsOf: TypeAlias = Callable[[str], int | None]
"""How many partitions the topic of this name has; None: there is none."""

MOST_TASKS: Final = 20_000
"""Of one topology: a repartition topic may ask for any number of partitions, and each becomes a task in memory."""
MOST_ID: Final = 249
"""Characters of a subtopology's id, which clients make a number. Each member's record has it some times."""


class StatusCode(IntEnum):
    """What a member is told beside its tasks (StreamsGroupHeartbeatResponse.Status)."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class Status(NamedTuple):
    """One thing that a member is told."""

    code: StatusCode
    detail: str


@dataclass(frozen=True, slots=True)
class Configured:
    """A topology with the topics that exist now."""

    task_counts: Mapping[str, int] = field(default_factory=dict)
    """How many tasks each subtopology has, by id in order; empty while sources are missing or wrongly partitioned."""
    stateful: frozenset[str] = frozenset()
    """The subtopologies that have a changelog."""
    to_create: tuple[TopicInfo, ...] = ()
    """Internal topics that are not there yet, by name, each with its number of partitions."""
    status: Status | None = None
    """Why there are no tasks yet; None: the topology is ready. Kafka tells one reason: 1, 2 or 3 of `StatusCode`."""

    @property
    def ready(self) -> bool:
        """Whether tasks may be given out: every topic exists."""
        return self.status is None

    @property
    def tasks(self) -> tuple[Task, ...]:
        """All tasks; none while the topology is not ready."""
        counts = self.task_counts.items() if self.ready else ()
        return tuple(Task(one, partition) for one, count in counts for partition in range(count))

    def has(self, task: Task) -> bool:
        """Whether this is one of its tasks."""
        return 0 <= task.partition < self.task_counts.get(task.subtopology, 0)


# ---- what no topic can fix -------------------------------------------------------------------------------------------


def check(topology: Topology) -> None:
    """Raise KafkaError unless the topology can ever be ready, whatever topics exist.

    INVALID_REQUEST: regular expressions of sources, as Kafka 4.3. STREAMS_INVALID_TOPOLOGY: a topic's name is not legal
    or Kafka's own, a changelog has a number of partitions, a subtopology reads nothing or has a long id, a repartition
    topic's number of partitions follows from nothing.
    """
    _check_names(_all_names(topology))
    if any(one.source_topic_regex for one in topology.subtopologies):
        text = "Regular expressions for source topics are not supported yet."
        raise KafkaError(ErrorCode.INVALID_REQUEST, text)
    _check_numbers(topology)
    _check_resolvable(topology)
    for one in topology.subtopologies:
        if not one.sources:
            raise _invalid(f"No source topics found for subtopology {one.id}")


def _check_names(names: Collection[str]) -> None:
    prohibited = [name for name in names if name in INTERNAL]
    if prohibited:
        text = f"Use of Kafka internal topics {_few(prohibited, ',')} in a Kafka Streams topology is prohibited."
        raise _invalid(text)
    illegal = [name for name in names if not is_shown(name)]
    if illegal:
        raise _invalid(f"Topic names {_few(illegal, ',')} are not valid topic names.")


def _check_numbers(topology: Topology) -> None:
    subtopologies = topology.subtopologies
    for info in chain.from_iterable(one.changelogs for one in subtopologies):
        if info.partitions:
            text = f"Changelog topic {info.name} must have an undefined partition count, but it is set to "
            raise _invalid(f"{text}{info.partitions}.")
    for info in chain.from_iterable(one.repartition_sources for one in subtopologies):
        if info.partitions < 0:
            raise _invalid(f"Repartition topic {info.name} cannot have {info.partitions} partitions.")
    if topology.epoch < 0:
        raise _invalid("Topology epoch must be non-negative.")
    if any(len(one.id) > MOST_ID for one in subtopologies):
        raise _invalid(f"Subtopology ids cannot be longer than {MOST_ID} characters.")
    if len({one.id for one in subtopologies}) < len(subtopologies):
        raise _invalid("Subtopology ids must differ.")
    for one in subtopologies:
        if not all(_is_within(group, one) for group in one.copartition_groups):
            raise _invalid(f"A copartition group of subtopology {one.id} names a topic that is not one of its sources.")


def _is_within(group: CopartitionGroup, of: Subtopology) -> bool:
    sources, repartitions = len(of.source_topics), len(of.repartition_sources)
    fits = all(0 <= index < sources for index in group.source_topics)
    return fits and all(0 <= index < repartitions for index in group.repartition_sources)


def _check_resolvable(topology: Topology) -> None:
    counts = _repartition_counts(_in_order(topology), dict.fromkeys(_source_topics(topology), 1))
    for one in topology.subtopologies:
        if not counts.keys() >= set(one.repartition_sinks):
            text = "Failed to compute number of partitions for all repartition topics. There may be loops in the "
            raise _invalid(text + "topology that cannot be resolved.")
    for one in topology.subtopologies:
        if not counts.keys() >= {info.name for info in one.repartition_sources}:
            text = "Failed to compute number of partitions for all repartition topics, because a repartition source "
            raise _invalid(text + "topic is never used as a sink topic.")


def _invalid(text: str) -> KafkaError:
    return KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)


# ---- what the topics of now make of it -------------------------------------------------------------------------------


class _Incorrect(Exception):
    """Topics have numbers of partitions that do not fit."""


def configure(topology: Topology, partitions_of: PartitionsOf) -> Configured:
    """The tasks and internal topics of a checked topology; raises nothing: what is wrong is in `status`."""
    found = ((name, partitions_of(name)) for name in sorted(topology.required))
    existing = {name: count for name, count in found if count is not None}
    missing = sorted(_source_topics(topology) - existing.keys())
    if missing:
        text = f"Source topics {_few(missing)} are missing."
        return Configured(status=Status(StatusCode.MISSING_SOURCE_TOPICS, text))
    subtopologies = _in_order(topology)
    try:
        decided = _decided(subtopologies, existing)
        counts = _task_counts(subtopologies, decided | existing)
        to_create = _missing(_internal(subtopologies, decided, counts), existing)
    except _Incorrect as error:
        return Configured(status=Status(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, str(error)))
    text = f"Internal topics are missing: {_few(info.name for info in to_create)}"
    status = Status(StatusCode.MISSING_INTERNAL_TOPICS, text) if to_create else None
    return Configured(counts, frozenset(one.id for one in subtopologies if one.changelogs), to_create, status)


def _decided(subtopologies: Sequence[Subtopology], existing: Mapping[str, int]) -> dict[str, int]:
    """How many partitions each repartition topic must have."""
    asked = _asked(subtopologies)
    decided = _repartition_counts(subtopologies, existing)
    for one in subtopologies:
        for group in one.copartition_groups:
            names = sorted(_names(group, one))
            known = {name: existing[name] if name in existing else decided[name] for name in names}
            decided |= _copartitioned(known, asked)
    return decided


def _repartition_counts(subtopologies: Sequence[Subtopology], existing: Mapping[str, int]) -> dict[str, int]:
    """The partitions of each repartition topic for which they follow from something.

    As in Kafka, and in its clients for classic groups, whose topics must fit: subtopologies are gone through in order,
    again and again. The first that writes to a topic and knows the size of anything that it reads decides, by the
    largest that it knows. Here none is looked at before that, so that a long chain takes no long time.
    """
    counts = {name: number for name, number in _asked(subtopologies).items() if number}
    readers: dict[str, list[int]] = {}
    turns: list[tuple[int, int]] = []  # a heap: in which round, which subtopology
    for index, one in enumerate(subtopologies):
        for info in one.repartition_sources:
            readers.setdefault(info.name, []).append(index)
        if one.source_topics or any(info.name in counts for info in one.repartition_sources):
            turns.append((0, index))
    done: set[int] = set()
    while turns:
        number_of_round, index = heapq.heappop(turns)
        if index not in done:
            done.add(index)
            one = subtopologies[index]
            known = [existing[name] for name in one.source_topics]
            known += [counts[info.name] for info in one.repartition_sources if info.name in counts]
            for sink in [name for name in one.repartition_sinks if name not in counts]:
                counts[sink] = max(known)
                for reader in readers.get(sink, ()):
                    heapq.heappush(turns, (number_of_round + (reader <= index), reader))
    return counts


def _asked(subtopologies: Iterable[Subtopology]) -> dict[str, int]:
    """What the topology says of each repartition topic's partitions; 0: nothing."""
    asked: dict[str, int] = {}
    for info in chain.from_iterable(one.repartition_sources for one in subtopologies):
        asked[info.name] = max(info.partitions, asked.get(info.name, 0))
    return asked


def _copartitioned(known: Mapping[str, int], asked: Mapping[str, int]) -> dict[str, int]:
    """The partitions of one group's repartition topics (CopartitionedTopicsEnforcer).

    `known`: the group's topics. `asked`: what the topology says of each repartition topic, 0 where it does not say.
    """
    external = {name: count for name, count in known.items() if name not in asked}
    fixed = {name: count for name, count in known.items() if asked.get(name)}
    said = external or fixed
    if len(set(said.values())) > 1:
        shown = ", ".join(f"{name}={count}" for name, count in (external or known).items())
        raise _Incorrect(f"Following topics do not have the same number of partitions: [{{{shown}}}]")
    number = max((said or known).values(), default=0)
    for name, count in fixed.items():
        if count != number:
            text = f"Number of partitions [{count}] of repartition topic [{name}] doesn't match number of partitions "
            raise _Incorrect(f"{text}[{number}] of the source topic.")
    return dict.fromkeys(known.keys() - external.keys(), number)


def _task_counts(subtopologies: Iterable[Subtopology], partitions: Mapping[str, int]) -> dict[str, int]:
    counts = {one.id: max(partitions[name] for name in one.sources) for one in subtopologies}
    if sum(counts.values()) > MOST_TASKS:
        raise _Incorrect(f"The topology has {sum(counts.values())} tasks, more than {MOST_TASKS}.")
    return counts


def _internal(
    subtopologies: Collection[Subtopology], decided: Mapping[str, int], counts: Mapping[str, int]
) -> dict[str, TopicInfo]:
    """The internal topics as they must be, by name."""
    wanted: dict[str, TopicInfo] = {}
    asked = _asked(subtopologies)
    for one in subtopologies:
        for info in one.repartition_sources:
            wanted[info.name] = info._replace(partitions=asked[info.name] or decided[info.name])
        wanted |= {info.name: info._replace(partitions=counts[one.id]) for info in one.changelogs}
    return wanted


def _missing(wanted: Mapping[str, TopicInfo], existing: Mapping[str, int]) -> tuple[TopicInfo, ...]:
    for name in sorted(wanted.keys() & existing.keys()):
        if wanted[name].partitions != existing[name]:
            text = f"Existing topic {name} has different number of partitions: expected {wanted[name].partitions}"
            raise _Incorrect(f"{text}, found {existing[name]}")
    return tuple(wanted[name] for name in sorted(wanted.keys() - existing.keys()))


def _names(group: CopartitionGroup, of: Subtopology) -> set[str]:
    sources = {of.source_topics[index] for index in group.source_topics}
    return sources | {of.repartition_sources[index].name for index in group.repartition_sources}


def _in_order(topology: Topology) -> list[Subtopology]:
    """As clients number them: 2 before 10."""
    return sorted(topology.subtopologies, key=lambda one: (len(one.id), one.id))


def _source_topics(topology: Topology) -> set[str]:
    return {name for one in topology.subtopologies for name in one.source_topics}


def _all_names(topology: Topology) -> Collection[str]:
    """Every topic that is named, once each."""
    found: dict[str, None] = {}
    for one in topology.subtopologies:
        internal = (info.name for info in one.repartition_sources + one.changelogs)
        found |= dict.fromkeys((*one.source_topics, *one.repartition_sinks, *internal))
    return found


def _few(names: Iterable[str], separator: str = ", ") -> str:
    """Three of them at most, as Kafka tells them: a topology may have thousands."""
    listed = list(names)
    more = f" and {len(listed) - 3} additional topics" if len(listed) > 3 else ""
    return separator.join(listed[:3]) + more
