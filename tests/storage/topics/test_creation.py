"""Which names a new topic may have beside those there are."""

from typing import Any

import pytest

from bridge.config import Settings
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.admin import AdminError, Conflict
from bridge.storage.topics.creation import PartitionLimit, check_new_topic, translate_refusal


class Topics:
    """Those there are, and how they were asked for."""

    def __init__(self, *there: str) -> None:
        self.there = there
        self.listings = 0

    async def exists(self, name: str) -> bool:
        return name in self.there

    async def names(self) -> list[str]:
        self.listings += 1
        return list(self.there)


async def refused(name: str, topics: Any) -> tuple[int, str]:
    with pytest.raises(KafkaError) as raised:
        await check_new_topic(name, topics)
    return raised.value.code, raised.value.message


async def test_an_unused_name_is_allowed() -> None:
    for name in ("a", "a.b", "a.b.c.d.e"):
        await check_new_topic(name, Topics("a-b", "a.b.c.d"))


async def test_the_name_of_an_existing_topic_is_refused() -> None:
    assert await refused("a.b", Topics("a.b")) == (ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'a.b' already exists.")


@pytest.mark.parametrize(("name", "other", "listings"), [("a.b_c", "a_b.c", 0), ("a.b.c.d.e", "a.b.c.d_e", 1)])
async def test_names_that_differ_only_in_dots_and_underscores_collide(name: str, other: str, listings: int) -> None:
    topics = Topics("x", other)
    text = f"Topic '{name}' collides with existing topic: {other}"
    assert await refused(name, topics) == (ErrorCode.INVALID_TOPIC_EXCEPTION, text)
    assert topics.listings == listings, "only a name with many dots is worth it"


async def test_internal_topics_are_not_created() -> None:
    text = "Creation of internal topic __consumer_offsets is prohibited."
    assert await refused("__consumer_offsets", Topics()) == (ErrorCode.INVALID_REQUEST, text)


def test_a_concurrent_creation_is_refused_as_existing() -> None:
    with pytest.raises(KafkaError, match=r"Topic 'a' already exists\.") as raised, translate_refusal("a"):
        raise Conflict(409, "This topic already exists")
    assert raised.value.code == ErrorCode.TOPIC_ALREADY_EXISTS


async def test_names_that_pulsar_keeps_for_partitions_are_not_created() -> None:
    code, _ = await refused("a-partition-0-b", Topics())
    assert code == ErrorCode.INVALID_TOPIC_EXCEPTION


# ---- how many ------------------------------------------------------------------------------------------------------


class Counted:
    """So many partitions there are."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.asked = 0

    async def ask(self) -> int:
        self.asked += 1
        return self.count


def room(there: int, **limits: int) -> tuple[PartitionLimit, Counted]:
    counted = Counted(there)
    return PartitionLimit(Settings().with_values(kafka=limits).kafka, counted.ask), counted


async def test_a_topic_may_have_so_many_partitions() -> None:
    most, _ = room(0, max_partitions_per_topic=5)
    await most.check(5, 5)
    with pytest.raises(KafkaError) as raised:
        await most.check(6, 1)
    assert raised.value.code == ErrorCode.INVALID_PARTITIONS


async def test_all_topics_together_may_have_so_many_and_few_questions_tell() -> None:
    most, counted = room(7, max_partitions=10)
    await most.check(100, 2)
    await most.check(1, 1, only=True)
    await most.check(1, 1)
    with pytest.raises(KafkaError) as raised:
        await most.check(1, 1)
    assert raised.value.code == ErrorCode.POLICY_VIOLATION
    assert counted.asked == 1


async def test_the_last_tenth_is_left_to_administrators() -> None:
    most, _ = room(17, max_partitions=20)
    await most.check(1, 1, automatic=True)
    with pytest.raises(KafkaError) as raised:
        await most.check(1, 1, automatic=True)
    assert raised.value.code == ErrorCode.POLICY_VIOLATION
    await most.check(2, 2)


async def test_a_login_that_may_not_count_them_creates_topics_all_the_same() -> None:
    async def ask() -> int:
        raise AdminError(403, "no")

    most = PartitionLimit(Settings().with_values(kafka={"max_partitions": 10}).kafka, ask)
    for _ in range(3):
        await most.check(8, 8)
