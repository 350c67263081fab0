"""The watch over topics finds what it is for: each kind of answer that cannot be."""

from __future__ import annotations

from uuid import UUID

from tests.faults.nodes.answers import ClusterAnswer
from tests.faults.nodes.topic_watch import KNOWN_WITHIN, TopicWatch, by_name, of_all

A, B = UUID(int=1), UUID(int=2)
LATER = KNOWN_WITHIN + 1


def listing(ids: dict[UUID, tuple[str, int]]) -> ClusterAnswer:
    return ClusterAnswer((), -1, {}, frozenset(), ids=ids)


WITH, WITHOUT = listing({A: ("a", 2)}), listing({})


def test_a_topic_that_is_listed_from_its_creation_to_its_deletion_is_right() -> None:
    watch = TopicWatch()
    watch.told("x", 0, 1, WITH, of_all)  # before the creation is acknowledged
    life = watch.created("a", A, 2, 1)
    watch.told("y", 2, 3, WITHOUT, of_all)  # not yet
    watch.told("y", 4, 5, WITH, of_all)
    watch.told("y", LATER + 1, LATER + 2, WITH, of_all)
    watch.told("x", LATER + 1, LATER + 2, WITHOUT, by_name({"b"}))
    watch.deleting(life, LATER + 5)
    watch.told("x", LATER + 4, LATER + 6, WITHOUT, of_all)
    watch.deleted(life, LATER + 7)
    watch.told("y", LATER + 8, LATER + 9, WITH, of_all)  # it has not heard of it
    watch.created("a", B, 2, LATER + 8)
    watch.told("y", 3 * LATER, 3 * LATER + 1, listing({B: ("a", 2)}), of_all)
    assert not watch.wrong
    assert not watch.unknown_ids()


def test_what_is_not_listed_long_after_its_creation_is_found() -> None:
    watch = TopicWatch()
    watch.created("a", A, 2, 0)
    watch.told("x", LATER, LATER + 1, WITHOUT, of_all)
    assert "is not listed 11.0 s after its creation" in watch.wrong[0]


def test_what_is_no_longer_listed_and_what_comes_back_is_found() -> None:
    watch = TopicWatch()
    watch.created("a", A, 2, 0)
    watch.told("x", 0, 1, WITH, of_all)
    watch.told("x", 1, 2, WITHOUT, of_all)
    watch.told("x", 2, 3, WITH, of_all)
    gone, back = watch.wrong
    assert "is no longer listed" in gone
    assert "comes back" in back


def test_what_is_listed_long_after_its_deletion_is_found() -> None:
    watch = TopicWatch()
    life = watch.created("a", A, 2, 0)
    watch.deleting(life, 1)
    watch.deleted(life, 2)
    watch.told("x", LATER + 3, LATER + 4, WITH, of_all)
    assert "is listed 12.0 s after its deletion" in watch.wrong[0]


def test_partitions_that_are_missing_or_lost_are_found() -> None:
    watch = TopicWatch()
    life = watch.created("a", A, 2, 0)
    watch.told("x", 0, 1, listing({A: ("a", 3)}), of_all)
    watch.told("x", 1, 2, WITH, of_all)
    watch.grown(life, 3, 1)
    watch.told("x", LATER + 2, LATER + 3, WITH, of_all)
    lost, missing = watch.wrong
    assert "has 2 partitions, and had 3" in lost
    assert "has 2 of 3 partitions" in missing


def test_what_was_never_created_is_found() -> None:
    watch = TopicWatch()
    watch.told("x", 0, 1, WITH, of_all)
    assert watch.unknown_ids() == {A}
