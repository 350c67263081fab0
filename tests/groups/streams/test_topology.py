"""Tasks and internal topics of a topology (the cases of Kafka's tests of InternalTopicManager and its parts)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.errors import KafkaError
from bridge.groups.streams.model import CopartitionGroup, Subtopology, Task, TopicInfo, Topology
from bridge.groups.streams.topology import MOST_TASKS, Configured, Status, StatusCode, check, configure
from bridge.kafka.error_codes import ErrorCode

MISSING_SOURCES = StatusCode.MISSING_SOURCE_TOPICS
INCORRECT = StatusCode.INCORRECTLY_PARTITIONED_TOPICS
MISSING_INTERNAL = StatusCode.MISSING_INTERNAL_TOPICS
UNLIKE = "Following topics do not have the same number of partitions"
UNKNOWN = "Failed to compute number of partitions for all repartition topics"


def _part(
    name: str, sources: str = "", sinks: str = "", logs: str = "", group: str = "", regex: str = "", **internal: int
) -> Subtopology:
    """A subtopology; `internal`: its repartition sources with the numbers asked for, `group`: what is copartitioned."""
    names, internals = tuple(sources.split()), list(internal)
    groups = CopartitionGroup(
        tuple(names.index(one) for one in group.split() if one in names),
        repartition_sources=tuple(internals.index(one) for one in group.split() if one in internal),
    )
    return Subtopology(
        name,
        names,
        tuple(regex.split()),
        tuple(sinks.split()),
        tuple(TopicInfo(one) for one in logs.split()),
        tuple(TopicInfo(one, count) for one, count in internal.items()),
        (groups,) if group else (),
    )


def _configure(*parts: Subtopology, **existing: int) -> Configured:
    topology = Topology(3, parts)
    check(topology)
    return configure(topology, existing.get)


def _created(configured: Configured) -> dict[str, int]:
    return {info.name: info.partitions for info in configured.to_create}


# ---- whole topologies ------------------------------------------------------------------------------------------------

JOIN = (
    Subtopology("s1", ("a",), (), ("r",), (TopicInfo("log1", configs=(("cleanup.policy", "compact"),)),)),
    Subtopology(
        "s2", ("b",), (), (), (TopicInfo("log2"),), (TopicInfo("r", 0, 3),), (CopartitionGroup((0,), (), (0,)),)
    ),
)


def test_internal_topics_that_are_not_there_are_to_be_created_as_the_client_wants_them() -> None:
    configured = _configure(*JOIN, a=2, b=2, log2=2)
    assert configured.to_create == (
        TopicInfo("log1", 2, 0, (("cleanup.policy", "compact"),)),
        TopicInfo("r", 2, 3),
    )
    assert configured.task_counts == {"s1": 2, "s2": 2}
    assert configured.status == Status(MISSING_INTERNAL, "Internal topics are missing: log1, r")
    assert not configured.ready and configured.tasks == ()


def test_a_topology_is_ready_when_all_topics_are_there() -> None:
    configured = _configure(*JOIN, a=2, b=2, log1=2, log2=2, r=2)
    assert configured == Configured({"s1": 2, "s2": 2}, frozenset({"s1", "s2"}))
    assert configured.ready
    assert configured.tasks == (Task("s1", 0), Task("s1", 1), Task("s2", 0), Task("s2", 1))
    assert _configure(*JOIN[::-1], a=2, b=2, log1=2, log2=2, r=2).tasks == configured.tasks


def test_a_task_is_one_that_the_topology_has() -> None:
    configured = _configure(_part("0", "a"), a=2)
    assert [configured.has(Task("0", number)) for number in (-1, 0, 1, 2)] == [False, True, True, False]
    assert not configured.has(Task("1", 0))


def test_only_subtopologies_with_changelogs_have_state() -> None:
    assert _configure(_part("0", "a"), _part("1", "b", logs="log"), a=1, b=1, log=1).stateful == {"1"}


@pytest.mark.parametrize(
    ("existing", "detail"),
    [
        ({"a": 2, "d": 1, "e": 1}, "Source topics b, c are missing."),
        ({"a": 2}, "Source topics b, c, d and 1 additional topics are missing."),
        ({"b": 1, "c": 1, "d": 1, "e": 1, "r": 4}, "Source topics a are missing."),
    ],
)
def test_without_a_source_nothing_is_known(existing: dict[str, int], detail: str) -> None:
    configured = _configure(_part("0", "e d c", sinks="r", logs="log"), _part("1", "b a", r=0), **existing)
    assert configured == Configured(status=Status(MISSING_SOURCES, detail))


def test_missing_sources_are_told_before_wrong_partitions() -> None:
    configured = _configure(_part("0", "a b", group="a b"), _part("1", "c"), a=1, b=2)
    assert configured.status == Status(MISSING_SOURCES, "Source topics c are missing.")


def test_a_repartition_topic_that_is_there_must_have_the_number_that_is_said() -> None:
    text = "Existing topic r has different number of partitions: expected 3, found 2"
    assert _configure(_part("0", "a", group="r", r=3), a=2, r=2).status == Status(INCORRECT, text)
    assert _configure(_part("0", "a", group="a r", r=3), a=2, r=2).status == Status(INCORRECT, text)


def test_what_one_subtopology_says_of_a_repartition_topic_holds_for_all_that_read_it() -> None:
    parts = (_part("0", sinks="q", r=0), _part("1", r=3), _part("2", q=0, group="q"), _part("3", r=0, group="r"))
    for order in (parts, parts[::-1]):
        assert _created(_configure(*order)) == {"q": 3, "r": 3}


def test_an_internal_topic_with_another_number_of_partitions_is_told() -> None:
    for existing in ({"r": 5, "log1": 2}, {"log1": 5}):
        wrong = {name for name, count in existing.items() if count == 5}.pop()
        configured = _configure(*JOIN, a=2, b=2, **existing)
        text = f"Existing topic {wrong} has different number of partitions: expected 2, found 5"
        assert configured == Configured(status=Status(INCORRECT, text))


def test_a_source_that_is_a_changelog_too_must_have_all_its_tasks() -> None:
    """As where the topic of a table is its changelog (topology.optimization)."""
    ready = _configure(_part("0", "a b", logs="a"), a=3, b=3)
    assert ready.ready and ready.to_create == ()
    text = "Existing topic a has different number of partitions: expected 3, found 2"
    assert _configure(_part("0", "a b", logs="a"), a=2, b=3).status == Status(INCORRECT, text)


# ---- changelogs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "created"),
    [
        (_part("0", "a"), {}),
        (_part("0", "a", logs="log"), {"log": 3}),
        (_part("0", "a b", logs="log more"), {"log": 5, "more": 5}),
        (_part("0", "a", logs="log", r=4), {"log": 4, "r": 4}),
        (_part("0", logs="log", r=2), {"log": 2, "r": 2}),
        (_part("0", "a", logs="a log"), {"log": 3}),
    ],
)
def test_a_changelog_has_as_many_partitions_as_its_subtopology_has_tasks(
    part: Subtopology, created: dict[str, int]
) -> None:
    configured = _configure(part, a=3, b=5)
    assert _created(configured) == created
    assert configured.task_counts == {"0": max([*created.values(), 3]) if part.source_topics else 2}


# ---- repartition topics ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "created"),
    [
        pytest.param([_part("0", "a b", "r"), _part("1", r=4)], {"r": 4}, id="as is said"),
        pytest.param([_part("0", "a b", "r"), _part("1", r=0)], {"r": 3}, id="the largest source"),
        pytest.param(
            [_part("0", "a", "r x", q=2), _part("1", r=4, x=0)], {"q": 2, "r": 4, "x": 3}, id="said ones aside"
        ),
        pytest.param(
            [_part("0", "a", "x", r=4), _part("1", sinks="r", x=0)], {"r": 4, "x": 4}, id="a said one as source"
        ),
        pytest.param([_part("0", "a"), _part("1", "b")], {}, id="none"),
        pytest.param(
            [_part("2", sinks="z", y=0), _part("1", sinks="y", x=0), _part("0", "a", "x"), _part("3", z=0)],
            {"x": 3, "y": 3, "z": 3},
            id="in a row, against the order",
        ),
        pytest.param(
            [_part("0", "b", "x"), _part("1", sinks="z", x=0, y=0), _part("2", "a", "y"), _part("3", z=0)],
            {"x": 2, "y": 3, "z": 2},
            id="the largest that is known at its turn",
        ),
        pytest.param(
            [_part("0", sinks="z", x=0, y=0), _part("1", "b", "x"), _part("2", "a", "y"), _part("3", z=0)],
            {"x": 2, "y": 3, "z": 3},
            id="the largest that is known at its next turn",
        ),
        pytest.param(
            [_part("2", "b", "r"), _part("10", "a", "r"), _part("3", r=0)], {"r": 2}, id="the first that writes"
        ),
        pytest.param(
            [_part("0", "a", "x", y=0), _part("1", sinks="y", x=0)], {"x": 3, "y": 3}, id="a loop that is fed"
        ),
        pytest.param([_part("0", "a", "r")], {}, id="written and never read"),
    ],
)
def test_a_repartition_topic_has_the_partitions_of_the_largest_that_its_writer_reads(
    parts: list[Subtopology], created: dict[str, int]
) -> None:
    for order in (parts, parts[::-1]):
        assert _created(_configure(*order, a=3, b=2)) == created


# ---- copartition groups ----------------------------------------------------------------------------------------------


def _grouped(external: dict[str, int], flexible: dict[str, int], fixed: dict[str, int], **more: Any) -> Configured:
    """One subtopology that reads all of these as one group. Each flexible topic is fed by a source of that size."""
    feeding = [_part(f"w-{name}", f"feeds_{name}", name) for name in flexible]
    everything = " ".join((*external, *flexible, *fixed))
    internal: dict[str, Any] = dict.fromkeys(flexible, 0) | fixed
    reading = _part("z", " ".join(external), group=everything, **internal)
    feeds = {f"feeds_{name}": count for name, count in flexible.items()}
    return _configure(*feeding, reading, **external, **feeds, **more)


@pytest.mark.parametrize(
    ("external", "flexible", "fixed", "created"),
    [
        pytest.param({"a": 2, "b": 2}, {"r": 10}, {}, {"r": 2}, id="as the sources"),
        pytest.param({}, {"q": 1, "r": 15, "s": 5}, {}, {"q": 15, "r": 15, "s": 15}, id="the largest"),
        pytest.param({}, {"q": 10, "r": 10}, {}, {"q": 10, "r": 10}, id="all the same"),
        pytest.param({}, {}, {"q": 10, "r": 10}, {"q": 10, "r": 10}, id="all the same and said"),
        pytest.param({"a": 2}, {}, {"r": 2}, {"r": 2}, id="said and as the source"),
        pytest.param({"a": 2}, {"r": 2}, {}, {"r": 2}, id="as the source anyway"),
        pytest.param({}, {"q": 5}, {"r": 2, "s": 2}, {"q": 2, "r": 2, "s": 2}, id="as is said of others"),
        pytest.param({"a": 2, "b": 2}, {}, {}, {}, id="sources only"),
    ],
)
def test_a_copartition_group_is_evened(
    external: dict[str, int], flexible: dict[str, int], fixed: dict[str, int], created: dict[str, int]
) -> None:
    configured = _grouped(external, flexible, fixed)
    assert _created(configured) == created
    assert configured.task_counts["z"] == next(iter((created or external).values()))


@pytest.mark.parametrize(
    ("external", "flexible", "fixed", "detail"),
    [
        ({"a": 2, "b": 1}, {}, {}, f"{UNLIKE}: [{{a=2, b=1}}]"),
        ({"b": 1, "a": 2}, {"r": 1}, {"s": 1}, f"{UNLIKE}: [{{a=2, b=1}}]"),
        ({}, {}, {"q": 10, "r": 5}, f"{UNLIKE}: [{{q=10, r=5}}]"),
        ({}, {"s": 1}, {"q": 3, "r": 5}, f"{UNLIKE}: [{{q=3, r=5, s=1}}]"),
        (
            {"a": 2}, {}, {"r": 10},
            "Number of partitions [10] of repartition topic [r] doesn't match number of partitions [2] of the source "
            "topic.",
        ),
    ],
)  # fmt: skip
def test_a_copartition_group_that_cannot_be_evened_is_told(
    external: dict[str, int], flexible: dict[str, int], fixed: dict[str, int], detail: str
) -> None:
    assert _grouped(external, flexible, fixed) == Configured(status=Status(INCORRECT, detail))


def test_a_repartition_topic_that_is_there_already_counts_as_it_is() -> None:
    text = "Existing topic r has different number of partitions: expected 2, found 4"
    assert _grouped({"a": 2}, {"r": 9}, {}, r=4).status == Status(INCORRECT, text)
    assert _created(_grouped({}, {"r": 2, "s": 3}, {}, r=4)) == {"s": 4}


def test_what_is_said_of_topics_outside_a_group_does_not_count_in_it() -> None:
    apart = (_part("y1", sinks="z1", x1=7), _part("y2", x2=8, z1=0))
    grouped = (_part("w", "a", "q"), _part("v", "b", "r"), _part("z", group="q r", q=0, r=0))
    assert _created(_configure(*apart, *grouped, a=2, b=3)) == {"x1": 7, "x2": 8, "z1": 7, "q": 3, "r": 3}


def test_an_empty_copartition_group_is_none() -> None:
    part = _part("0", "a")._replace(copartition_groups=(CopartitionGroup(),))
    assert _configure(part, a=2).ready


# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([_part("0", sinks="r", r=0)],
         f"{UNKNOWN}. There may be loops in the topology that cannot be resolved."),
        ([_part("0", sinks="q", r=0), _part("1", sinks="r", q=0), _part("2", "a")],
         f"{UNKNOWN}. There may be loops in the topology that cannot be resolved."),
        ([_part("0", r=0)], f"{UNKNOWN}, because a repartition source topic is never used as a sink topic."),
        ([_part("0", "a"), _part("1", "", logs="log")], "No source topics found for subtopology 1"),
        ([_part("0", "a")._replace(changelogs=(TopicInfo("log", 3),))],
         "Changelog topic log must have an undefined partition count, but it is set to 3."),
        ([_part("0", "a", r=-1)], "Repartition topic r cannot have -1 partitions."),
        ([_part("0", "a"), _part("0", "b")], "Subtopology ids must differ."),
        ([_part("0", "a"), _part("1" * 250, "b")], "Subtopology ids cannot be longer than 249 characters."),
        ([_part("0", "a __consumer_offsets", "__transaction_state"), _part("1", "b!", __share_group_state=0)],
         "Use of Kafka internal topics __consumer_offsets,__transaction_state,__share_group_state in a Kafka Streams "
         "topology is prohibited."),
        ([_part("0", "a! b", "c? d"), _part("1", logs="e/")._replace(repartition_sources=(TopicInfo("f "),))],
         "Topic names a!,c?,f  and 1 additional topics are not valid topic names."),
        ([_part("0", "a-partition-0")], "Topic names a-partition-0 are not valid topic names."),
    ],
)  # fmt: skip
def test_what_no_topic_can_fix_is_refused(parts: list[Subtopology], text: str) -> None:
    with pytest.raises(KafkaError) as refused:
        check(Topology(0, tuple(parts)))
    assert (refused.value.code, str(refused.value)) == (ErrorCode.STREAMS_INVALID_TOPOLOGY, text)


def test_regular_expressions_are_refused() -> None:
    with pytest.raises(KafkaError) as refused:
        check(Topology(0, (_part("0", "a", regex="b.*"),)))
    text = "Regular expressions for source topics are not supported yet."
    assert (refused.value.code, str(refused.value)) == (ErrorCode.INVALID_REQUEST, text)


@pytest.mark.parametrize(
    "group",
    [
        CopartitionGroup((2,)),
        CopartitionGroup((-1,)),
        CopartitionGroup((), (), (1,)),
        CopartitionGroup((0,), (), (-1,)),
    ],
)
def test_a_copartition_group_names_sources_of_its_subtopology(group: CopartitionGroup) -> None:
    part = _part("0", "a b", r=2)
    with pytest.raises(KafkaError) as refused:
        check(Topology(0, (part._replace(copartition_groups=(group,)),)))
    assert refused.value.code == ErrorCode.STREAMS_INVALID_TOPOLOGY
    check(Topology(0, (part._replace(copartition_groups=(CopartitionGroup((0, 1), (), (0,)),)),)))


def test_the_epoch_of_a_topology_is_not_negative() -> None:
    with pytest.raises(KafkaError) as refused:
        check(Topology(-1, (_part("0", "a"),)))
    assert (refused.value.code, str(refused.value)) == (
        ErrorCode.STREAMS_INVALID_TOPOLOGY,
        "Topology epoch must be non-negative.",
    )


def test_more_tasks_than_fit_are_told_before_any_is_made() -> None:
    assert _created(_configure(_part("0", "a", "r"), _part("1", r=MOST_TASKS - 1), a=1)) == {"r": MOST_TASKS - 1}
    text = f"The topology has {MOST_TASKS + 1} tasks, more than {MOST_TASKS}."
    configured = _configure(_part("0", "a", "r"), _part("1", r=MOST_TASKS), a=1)
    assert configured == Configured(status=Status(INCORRECT, text))


# ---- any topology ----------------------------------------------------------------------------------------------------


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    topics = st.sampled_from("abc")
    internal = st.sampled_from("pqrs")
    parts = []
    for number in range(draw(st.integers(1, 5))):
        sources = sorted(draw(st.sets(topics, max_size=2)))
        repartition: dict[str, Any] = {
            name: draw(st.sampled_from([0, 0, 2, 3])) for name in sorted(draw(st.sets(internal, max_size=2)))
        }
        parts.append(
            _part(
                str(number),
                " ".join(sources),
                " ".join(sorted(draw(st.sets(internal, max_size=2)))),
                draw(st.sampled_from(["", f"log{number}"])),
                " ".join(draw(st.sets(st.sampled_from([*sources, *repartition])))) if sources or repartition else "",
                **repartition,
            )
        )
    return Topology(0, tuple(parts))


@given(
    topologies(), st.dictionaries(st.sampled_from(["a", "b", "c", "p", "q", "log0"]), st.integers(1, 4)), st.randoms()
)
def test_any_topology_that_passes_has_a_status_or_all_its_tasks(
    topology: Topology, existing: dict[str, int], chance: Any
) -> None:
    try:
        check(topology)
    except KafkaError as refused:
        assert refused.code == ErrorCode.STREAMS_INVALID_TOPOLOGY
        return
    configured = configure(topology, existing.get)
    shuffled = list(topology.subtopologies)
    chance.shuffle(shuffled)
    assert configure(Topology(0, tuple(shuffled)), existing.get) == configured
    if configured.status and configured.status.code is not MISSING_INTERNAL:
        assert configured == Configured(status=configured.status)
        return
    # once what is to be created is there, the topology is ready, with the same tasks
    there = existing | _created(configured)
    ready = configure(topology, there.get)
    assert ready.ready and ready.task_counts == configured.task_counts
    for part in topology.subtopologies:
        assert ready.task_counts[part.id] == max(there[name] for name in part.sources)
        assert all(there[info.name] == ready.task_counts[part.id] for info in part.changelogs)
    grouped = [(group, part) for part in topology.subtopologies for group in part.copartition_groups]
    if len(grouped) == 1:
        [(group, part)] = grouped
        names = [part.source_topics[index] for index in group.source_topics]
        names += [part.repartition_sources[index].name for index in group.repartition_sources]
        assert len({there[name] for name in names}) == 1
