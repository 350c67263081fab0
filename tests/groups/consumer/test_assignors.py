"""What the assignors of the new consumer protocol promise."""

import random
import uuid
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.groups.consumer.assignors import ASSIGNORS, Assignor, Subscriber, by_range, uniformly
from bridge.groups.consumer.model import Assignment, TopicFacts
from bridge.groups.share.assignor import simple

TOPICS = {name: TopicFacts(uuid.UUID(int=number), 0) for number, name in enumerate("abcd", 1)}
IDS = {name: topic.id for name, topic in TOPICS.items()}

Situation = tuple[dict[str, Subscriber], dict[str, TopicFacts]]


def _topics(**partitions: int) -> dict[str, TopicFacts]:
    return {name: TopicFacts(IDS[name], number) for name, number in partitions.items()}


def _members(*names: str, topics: str = "ab", static: Mapping[str, str] | None = None) -> dict[str, Subscriber]:
    return {name: Subscriber(name, (static or {}).get(name), frozenset(topics)) for name in names}


def _again(members: Mapping[str, Subscriber], given: Mapping[str, Assignment]) -> dict[str, Subscriber]:
    """The members with what they have been given."""
    return {name: Subscriber(name, one.instance_id, one.topics, given.get(name, {})) for name, one in members.items()}


def _flat(given: Mapping[str, Assignment]) -> list[tuple[str, uuid.UUID, int]]:
    return [(name, topic, number) for name, one in given.items() for topic, parts in one.items() for number in parts]


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    topics = {
        name: TopicFacts(IDS[name], draw(st.integers(1, 7)))
        for name in draw(st.sets(st.sampled_from("abcd"), min_size=1))
    }
    members = {}
    for name in draw(st.lists(st.sampled_from("mnopqr"), min_size=1, unique=True)):
        instance = draw(st.none() | st.just(f"i{name}"))
        members[name] = Subscriber(name, instance, frozenset(draw(st.sets(st.sampled_from("abcd")))))
    return members, topics


@pytest.mark.parametrize("assign", ASSIGNORS.values(), ids=ASSIGNORS)
@given(situation=situations())
def test_every_partition_that_a_client_wants_is_given_to_one_who_wants_it(
    assign: Assignor, situation: Situation
) -> None:
    members, topics = situation
    given = assign(members, topics)
    assert given.keys() == members.keys()
    places = [(topic, number) for _, topic, number in _flat(given)]
    wanted = {name for one in members.values() for name in one.topics}
    assert sorted(places) == sorted(
        (topic.id, number) for name, topic in topics.items() if name in wanted for number in range(topic.partitions)
    )
    for name, topic, _ in _flat(given):
        assert topic in {IDS[one] for one in members[name].topics}
    assert all(parts for one in given.values() for parts in one.values())


@given(situation=situations())
def test_uniform_is_even_among_those_who_could_take_from_each_other(situation: Situation) -> None:
    members, topics = situation
    given = uniformly(members, topics)
    loads = {name: sum(map(len, one.values())) for name, one in given.items()}
    for name, topic, _ in _flat(given):
        for other, subscriber in members.items():
            if topic in {IDS[one] for one in subscriber.topics}:
                assert loads[name] - loads[other] <= 1


@given(situation=situations(), data=st.data())
def test_uniform_moves_nothing_without_need(situation: Situation, data: st.DataObject) -> None:
    members, topics = situation
    given = uniformly(members, topics)
    assert uniformly(_again(members, given), topics) == given
    if len(members) > 1:
        gone = data.draw(st.sampled_from(sorted(members)))
        left = {name: one for name, one in _again(members, given).items() if name != gone}
        after = uniformly(left, topics)
        homogeneous = len({one.topics for one in left.values()}) == 1
        if homogeneous and all(one.topics == members[gone].topics for one in left.values()):
            assert all(
                parts <= after[name].get(topic, frozenset()) for name in left for topic, parts in given[name].items()
            )


def test_uniform_gives_a_new_member_its_share_and_no_more() -> None:
    topics = _topics(a=4, b=3)
    first = uniformly(_members("m", "n"), topics)
    members = _again(_members("m", "n", "o"), first)
    second = uniformly(members, topics)
    assert sorted(sum(map(len, one.values())) for one in second.values()) == [2, 2, 3]
    kept = len(set(_flat(first)) & set(_flat(second)))
    assert kept == 5


def test_uniform_forgets_what_is_no_more_and_what_two_claim() -> None:
    had: Assignment = {IDS["a"]: frozenset({0, 9}), IDS["d"]: frozenset({0})}
    members = {name: Subscriber(name, None, frozenset("a"), had) for name in "mn"}
    given = uniformly(members, _topics(a=2))
    assert sorted(number for _, _, number in _flat(given)) == [0, 1]
    assert given["m"] == {IDS["a"]: frozenset({0})}


def test_range_gives_neighbours_and_equal_numbers_of_topics_with_equally_many() -> None:
    given = by_range(_members("n", "m"), _topics(a=3, b=3))
    assert given["m"] == {IDS["a"]: frozenset({0, 1}), IDS["b"]: frozenset({0, 1})}
    assert given["n"] == {IDS["a"]: frozenset({2}), IDS["b"]: frozenset({2})}


def test_range_puts_static_members_first_by_instance() -> None:
    given = by_range(_members("a1", "x", "y", static={"x": "i2", "y": "i1"}), _topics(a=3))
    assert {name: list(one[IDS["a"]]) for name, one in given.items()} == {"y": [0], "x": [1], "a1": [2]}


def test_a_member_of_many_may_get_nothing() -> None:
    for assign in ASSIGNORS.values():
        given = assign(_members("m", "n", "o"), _topics(a=2))
        assert sorted(len(one) for one in given.values()) == [0, 1, 1]


class _Counted(dict[uuid.UUID, frozenset[int]]):
    """What a member had, and how many of its topics were looked at."""

    looks = 0

    def __getitem__(self, topic: uuid.UUID) -> frozenset[int]:
        type(self).looks += 1
        return super().__getitem__(topic)

    def items(self) -> Any:
        type(self).looks += len(self)
        return super().items()

    def get(self, *asked: Any) -> Any:
        type(self).looks += 1
        return super().get(*asked)


@pytest.mark.parametrize("assign", [uniformly, simple])
def test_members_with_other_topics_each_do_not_hold_the_event_loop(
    assign: Assignor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each topic has other subscribers than the rest; 12 members of 1,000 topics held the loop for seconds."""
    monkeypatch.setattr(_Counted, "looks", 0)
    chance = random.Random(1)
    topics = {f"t{number}": TopicFacts(uuid.UUID(int=number + 1), 1) for number in range(200)}
    wanted = {f"m{number}": frozenset(chance.sample(sorted(topics), 100)) for number in range(9)}
    had = assign({one: Subscriber(one, None, names) for one, names in wanted.items()}, topics)
    members = {one: Subscriber(one, None, names, _Counted(had[one])) for one, names in wanted.items()}
    assert assign(members, topics) == had
    assert _Counted.looks <= 2 * len(members) * len(topics)


@pytest.mark.parametrize("assign", [uniformly, simple])
def test_many_members_of_the_same_topics_do_not_hold_the_event_loop(
    assign: Assignor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most of them had few of the topics; 1,000 members of 2,000 topics held the loop for 5 seconds."""
    monkeypatch.setattr(_Counted, "looks", 0)
    topics = {f"t{number}": TopicFacts(uuid.UUID(int=number + 1), 2) for number in range(200)}
    had = assign({f"m{number}": Subscriber(f"m{number}", None, frozenset(topics)) for number in range(50)}, topics)
    members = {one: Subscriber(one, None, frozenset(topics), _Counted(given)) for one, given in had.items()}
    assert assign(members, topics) == had
    assert _Counted.looks <= 400
