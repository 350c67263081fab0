"""What the members of groups may take: each of them, and all together."""

import pytest

from bridge.errors import KafkaError
from bridge.groups.classic.events import Joined, Sync
from bridge.kafka.error_codes import ErrorCode
from tests.groups.classic.bench import Bench
from tests.groups.clock import settle
from tests.groups.consumer.bench import Bench as ConsumerBench


async def test_a_member_may_not_say_too_much() -> None:
    bench = Bench()
    with pytest.raises(KafkaError) as refused:
        await bench.join(protocols=(("range", bytes(1_048_577)),))
    assert refused.value.code == ErrorCode.INVALID_REQUEST
    with pytest.raises(KafkaError) as refused:
        await bench.join(protocols=tuple((f"p{number}", b"") for number in range(101)))
    assert refused.value.code == ErrorCode.INVALID_REQUEST


async def test_what_all_say_is_bounded_and_given_back() -> None:
    bench = Bench()
    large = (("range", bytes(1_000_000)),)
    taken = 0
    with pytest.raises(KafkaError) as refused:
        for taken in range(200):
            await bench.join(group_id=f"g{taken}", protocols=large)
    assert refused.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert 120 <= taken <= 134
    assert 120_000_000 < bench.metrics.metadata_bytes.value <= 134_217_728
    bench.groups.unload(lambda group_id: True)
    assert bench.metrics.metadata_bytes.value == 0


async def formed(bench: Bench, count: int) -> list[Joined]:
    """So many groups of one, whose leaders are to assign: what their joins were answered with."""
    joins = [await bench.join(group_id=f"g{number}") for number in range(count)]
    await bench.clock.advance(0.1)
    return [join.result() for join in joins]


async def sync(bench: Bench, group_id: str, joined: Joined, assignment: bytes) -> None:
    """The leader assigns itself that."""
    event = Sync(joined.member_id, None, joined.generation, None, None, {joined.member_id: assignment})
    await bench.groups.sync(group_id, event)
    await settle()


async def test_an_assignment_may_not_be_too_large() -> None:
    bench = Bench()
    (joined,) = await formed(bench, 1)
    with pytest.raises(KafkaError) as refused:
        await sync(bench, "g0", joined, bytes(1_048_577))
    assert refused.value.code == ErrorCode.INVALID_REQUEST


async def test_assignments_count_as_well_and_are_given_back() -> None:
    bench = Bench()
    taken = 0
    with pytest.raises(KafkaError) as refused:
        for taken, joined in enumerate(await formed(bench, 200)):
            await sync(bench, f"g{taken}", joined, bytes(1_000_000))
    assert refused.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert 120 <= taken <= 134
    bench.groups.unload(lambda group_id: True)
    assert bench.metrics.metadata_bytes.value == 0


_NAME = "n" * 30_000
"""A client's id, which Kafka's format lets be so long."""


async def test_ids_that_are_given_out_count_and_are_given_back() -> None:
    """A member's id begins with its client's; 5,000 of a group, and any number of groups, took 160 MB each."""
    bench = Bench()
    taken = 0
    with pytest.raises(KafkaError) as refused:
        for taken in range(5_000):
            await bench.join(group_id=f"g{taken % 2}", new_id=f"{_NAME}-{taken}", id_required=True)
    assert refused.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert 120_000_000 < bench.metrics.metadata_bytes.value <= 134_217_728
    await bench.clock.advance(11)
    assert bench.metrics.metadata_bytes.value == 0


@pytest.mark.parametrize("topics", [frozenset(), frozenset("t")])
async def test_names_of_members_with_epochs_count_and_are_given_back(topics: frozenset[str]) -> None:
    bench = ConsumerBench()
    for number in range(10):
        await bench.joined(f"{_NAME}{number}", topics=topics, client_id=_NAME, rack_id=_NAME)
    assert bench.metrics.metadata_bytes.value > 10 * 3 * len(_NAME)
    beat = await bench.joined(f"{_NAME}9", topics=topics, client_id="c", rack_id="r")
    assert beat.epoch > 0
    assert bench.metrics.metadata_bytes.value < 10 * 3 * len(_NAME)
    bench.groups.unload(lambda group_id: True)
    assert bench.metrics.metadata_bytes.value == 0
