"""What the assignor of share groups promises; the cases are those of Kafka's SimpleAssignorTest."""

import uuid
from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.groups.consumer.assignors import Subscriber
from bridge.groups.consumer.model import Assignment, TopicFacts
from bridge.groups.share.assignor import simple

IDS = {name: uuid.UUID(int=number) for number, name in enumerate("abcd", 1)}
Given = Mapping[str, Assignment]


def _topics(**partitions: int) -> dict[str, TopicFacts]:
    return {name: TopicFacts(IDS[name], number) for name, number in partitions.items()}


def _members(topics: Mapping[str, str], had: Given | None = None) -> dict[str, Subscriber]:
    before = had or {}
    return {name: Subscriber(name, None, frozenset(wanted), before.get(name, {})) for name, wanted in topics.items()}


def _plain(given: Given) -> dict[str, dict[str, list[int]]]:
    names = {topic: name for name, topic in IDS.items()}
    return {member: {names[topic]: sorted(one) for topic, one in has.items()} for member, has in given.items()}


def _pairs(given: Given) -> list[tuple[str, uuid.UUID, int]]:
    return [(name, topic, number) for name, has in given.items() for topic, parts in has.items() for number in parts]


@pytest.mark.parametrize(
    ("topics", "members", "wanted"),
    [
        pytest.param({"a": 3}, {"m": ""}, {"m": {}}, id="a member without topics"),
        pytest.param({}, {"m": "d"}, {"m": {}}, id="a topic that is not there"),
        pytest.param({}, {}, {}, id="nobody"),
        pytest.param(
            {"a": 3, "c": 2}, {"m": "ac", "n": "ac"}, {"m": {"a": [0, 2], "c": [1]}, "n": {"a": [1], "c": [0]}},
            id="more partitions than members",
        ),
        pytest.param(
            {"a": 2}, {"m": "a", "n": "a", "o": "a"}, {"m": {"a": [0]}, "n": {"a": [1]}, "o": {"a": [0]}},
            id="more members than partitions",
        ),
        pytest.param(
            {"a": 3, "b": 3, "c": 2}, {"m": "ab", "n": "c", "o": "bc"},
            {"m": {"a": [0, 1, 2], "b": [0, 2]}, "n": {"c": [0]}, "o": {"b": [1], "c": [1]}},
            id="different subscriptions",
        ),
        pytest.param(
            {"a": 3, "b": 2}, {"m": "ab", "n": "", "o": "b"},
            {"m": {"a": [0, 1, 2], "b": [0]}, "n": {}, "o": {"b": [1]}},
            id="one subscribes to nothing",
        ),
    ],
)  # fmt: skip
def test_who_gets_what_first(
    topics: dict[str, int], members: dict[str, str], wanted: dict[str, dict[str, list[int]]]
) -> None:
    assert _plain(simple(_members(members), _topics(**topics))) == wanted


CHANGES = {
    "a member joins": ({"a": 4}, {"m": "a", "n": "a"}, {"a": 4}, {"m": "a", "n": "a", "o": "a"}, 1),
    "a member joins one that shares": ({"a": 2}, {"m": "a", "n": "a"}, {"a": 2}, {"m": "a", "n": "a", "o": "a"}, 0),
    "a member leaves": ({"a": 4}, {"m": "a", "n": "a", "o": "a"}, {"a": 4}, {"m": "a", "n": "a"}, 0),
    "a partition is added": ({"a": 3}, {"m": "a", "n": "a"}, {"a": 4}, {"m": "a", "n": "a"}, 0),
    "a topic goes": ({"a": 2, "b": 2}, {"m": "ab", "n": "ab"}, {"a": 2}, {"m": "ab", "n": "ab"}, 0),
    "a member subscribes to more": (
        {"a": 2, "b": 2},
        {"m": "a", "n": "ab"},
        {"a": 2, "b": 2},
        {"m": "ab", "n": "ab"},
        1,
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_stays_valid_stays(change: str) -> None:
    topics, members, later_topics, later_members, moved = CHANGES[change]
    before = simple(_members(members), _topics(**topics))
    after = simple(_members(later_members, before), _topics(**later_topics))
    there = {(topic.id, number) for topic in _topics(**later_topics).values() for number in range(topic.partitions)}
    stays = {(m, t, n) for m, t, n in _pairs(before) if m in later_members and (t, n) in there}
    assert len(stays - set(_pairs(after))) == moved


@given(
    topics=st.dictionaries(st.sampled_from("abcd"), st.integers(1, 7), min_size=1),
    wanted=st.lists(
        st.dictionaries(st.sampled_from("mnopqr"), st.sets(st.sampled_from("abcd")), min_size=1), min_size=1, max_size=4
    ),
)
def test_every_partition_has_a_subscriber_and_members_are_even(
    topics: dict[str, int], wanted: list[dict[str, set[str]]]
) -> None:
    given: Given = {}
    for members in wanted:  # one after another, each with what the one before has left
        here = {name: "".join(sorted(names)) for name, names in members.items()}
        given = simple(_members(here, given), _topics(**topics))
        assert given.keys() == members.keys()
        _check(given, here, topics)
        assert simple(_members(here, given), _topics(**topics)) == given


def _check(given: Given, members: dict[str, str], topics: dict[str, int]) -> None:
    classes: dict[frozenset[str], set[tuple[uuid.UUID, int]]] = {}
    for name, number in topics.items():
        subscribers = frozenset(member for member, names in members.items() if name in names)
        classes.setdefault(subscribers, set()).update((IDS[name], one) for one in range(number))
    for subscribers, places in classes.items():
        pairs = [(member, (topic, number)) for member, topic, number in _pairs(given) if (topic, number) in places]
        assert {member for member, _ in pairs} <= subscribers
        if not subscribers:
            continue
        assert len(pairs) == max(len(subscribers), len(places))
        of_members = Counter({one: sum(member == one for member, _ in pairs) for one in subscribers})
        of_places = Counter({one: sum(place == one for _, place in pairs) for one in places})
        for counts in (of_members, of_places):
            assert min(counts.values()) >= 1
            assert max(counts.values()) - min(counts.values()) <= 1
