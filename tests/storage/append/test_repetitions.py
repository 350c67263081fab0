"""Searches for repeated batches: shared, remembered, bounded, and ended when no client wants them."""

import asyncio
from collections import deque
from typing import Any

import pytest

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.types import ClientClosed
from bridge.storage.append.duplicates import DuplicateFinder
from bridge.storage.append.preparation import PreparedEntry
from bridge.storage.append.repetitions import RepetitionLimit, Repetitions
from bridge.storage.append.sequences import SequencePosition, SequenceRange
from bridge.storage.append.writers import Writer
from bridge.telemetry.metrics import StorageMetrics

_MAX_OF_PRODUCER, _MAX_SEARCHES = 5, 256


class ScriptedFinder(DuplicateFinder):
    """Each search waits until it is told what it finds."""

    def __init__(self) -> None:
        self.searches: list[asyncio.Future[int | None]] = []
        self.entries: list[PreparedEntry] = []

    async def find_near(self, prepared: PreparedEntry) -> int | None:
        """What the scenario says."""
        found: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self.searches.append(found)
        self.entries.append(prepared)
        return await found


class ScriptedWriter(Writer):
    """One that is told apart from others; nothing is sent by it here."""

    def __init__(self) -> None:
        """It has no Pulsar producer."""


class Scenario:
    """One partition's repetitions, and what they did."""

    def __init__(self, limit: RepetitionLimit | None = None) -> None:
        self.finder = ScriptedFinder()
        self.sent: list[tuple[PreparedEntry, Writer]] = []
        self.outcomes: deque[asyncio.Future[int]] = deque()
        self.found: list[tuple[int, int, int]] = []
        self.metrics = StorageMetrics()
        self.writer = ScriptedWriter()
        self.repetitions = Repetitions(
            self.finder, self._resend, lambda *batch: self.found.append(batch), limit or RepetitionLimit(), self.metrics
        )

    def _resend(self, prepared: PreparedEntry, batch: SequenceRange, writer: Writer) -> "asyncio.Future[int]":
        self.sent.append((prepared, writer))
        self.outcomes.append(asyncio.get_running_loop().create_future())
        return self.outcomes[-1]

    def ask(self, sequence: int = 0, producer_id: int = 1, writer: Writer | None = None) -> "asyncio.Future[int]":
        """A request with the batch."""
        at = SequencePosition(0, 0, sequence)
        prepared = PreparedEntry(b"records", 1, (producer_id, 0, sequence), 1000)
        return self.repetitions.find(prepared, SequenceRange(at, at, True), writer or self.writer, None)

    async def close(self) -> None:
        """Nothing goes on."""
        self.repetitions.close()
        await ready()


async def ready() -> None:
    """Let all run that can."""
    for _ in range(10):
        await asyncio.sleep(0)


async def given_up(answer: "asyncio.Future[Any]") -> None:
    """The client's time is up."""
    answer.cancel()
    await ready()


async def code_of(answer: "asyncio.Future[int]") -> int:
    with pytest.raises(KafkaError) as raised:
        await answer
    return raised.value.code


async def test_requests_with_the_same_batch_share_a_search_that_none_of_them_ends() -> None:
    scenario = Scenario()
    first, second, other = scenario.ask(), scenario.ask(), scenario.ask(sequence=1)
    await ready()
    await given_up(first)
    assert len(scenario.finder.searches) == 2
    scenario.finder.searches[0].set_result(7)
    assert await second == 7
    assert not other.done()
    await scenario.close()


async def test_a_search_goes_on_for_no_client_without_its_records_and_is_remembered() -> None:
    scenario = Scenario()
    answer = scenario.ask()
    await ready()
    await given_up(answer)
    scenario.finder.searches[0].set_result(7)
    await ready()
    assert (await scenario.ask(), await scenario.ask()) == (7, 7)
    assert [entry.data for entry in scenario.finder.entries] == [b""]
    assert scenario.found == [(1, 0, 0)]
    await scenario.close()


async def test_what_is_not_near_is_sent_again_by_the_newest_client_that_waits() -> None:
    scenario, writer = Scenario(), ScriptedWriter()
    answer = scenario.ask()
    await ready()
    await given_up(answer)
    scenario.finder.searches[0].set_result(None)
    await ready()
    assert not scenario.sent, "the one who asked has hung up, its writer may be closed"
    again = scenario.ask(writer=writer)
    await ready()
    assert [(entry.data, by) for entry, by in scenario.sent] == [(b"records", writer)]
    await given_up(again)
    scenario.outcomes[0].set_result(9)
    assert await scenario.ask() == 9
    assert len(scenario.finder.searches) == len(scenario.sent) == 1
    await scenario.close()


async def test_clients_are_told_that_sending_failed_and_the_search_before_it_is_not_made_again() -> None:
    scenario = Scenario()
    first, second = scenario.ask(), scenario.ask()
    await ready()
    scenario.finder.searches[0].set_result(None)
    await ready()
    scenario.outcomes[0].set_exception(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "lost"))
    assert {await code_of(first), await code_of(second)} == {ErrorCode.NOT_LEADER_OR_FOLLOWER}
    again = scenario.ask()
    await ready()
    scenario.outcomes[1].set_result(3)
    assert await again == 3
    assert len(scenario.finder.searches) == 1
    await scenario.close()


@pytest.mark.parametrize(
    ("code", "searches"),
    [
        (ErrorCode.DUPLICATE_SEQUENCE_NUMBER, 1),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 1),
        (ErrorCode.KAFKA_STORAGE_ERROR, 2),
    ],
)
async def test_errors_are_remembered_where_they_are_the_result(code: ErrorCode, searches: int) -> None:
    scenario = Scenario()
    answer = scenario.ask()
    await ready()
    scenario.finder.searches[0].set_exception(KafkaError(code, "told"))
    assert await code_of(answer) == code
    again = scenario.ask()
    await ready()
    assert len(scenario.finder.searches) == searches
    if searches == 1:
        assert await code_of(again) == code
    await scenario.close()


async def test_of_one_producer_only_the_newest_go_on_for_no_client() -> None:
    scenario = Scenario()
    answers = [scenario.ask(sequence) for sequence in range(_MAX_OF_PRODUCER + 3)]
    await ready()
    for answer in answers:
        await given_up(answer)
    assert [search.cancelled() for search in scenario.finder.searches] == [True] * 3 + [False] * _MAX_OF_PRODUCER
    assert scenario.metrics.searches_given_up.value == 3
    await scenario.close()


async def test_of_many_producers_a_process_keeps_so_many_searches_for_no_client() -> None:
    limit = RepetitionLimit()
    one, two = Scenario(limit), Scenario(limit)
    waited_for = one.ask(producer_id=0)
    for number in range(1, _MAX_SEARCHES + 11):
        answer = (one, two)[number % 2].ask(producer_id=number)
        await ready()
        await given_up(answer)
    searches = [*one.finder.searches, *two.finder.searches]
    assert (
        sum(search.cancelled() for search in searches)
        == one.metrics.searches_given_up.value + two.metrics.searches_given_up.value
        == 10
    )
    assert not waited_for.done(), "a client waits for this one"
    await one.close()
    await two.close()
    assert all(search.cancelled() for search in searches)


async def test_what_no_client_asks_for_any_more_is_forgotten() -> None:
    scenario = Scenario()
    waiting, answer = scenario.ask(), scenario.ask(sequence=1)
    await ready()
    await given_up(answer)
    now = asyncio.get_running_loop().time()
    scenario.repetitions.sweep(now + 30)
    await ready()
    assert not any(search.done() for search in scenario.finder.searches)
    scenario.repetitions.sweep(now + 90)
    await ready()
    assert [search.cancelled() for search in scenario.finder.searches] == [False, True]
    assert not waiting.done()
    assert scenario.metrics.searches_given_up.value == 0
    await scenario.close()


async def test_a_newer_epoch_ends_the_searches_of_its_producer() -> None:
    scenario = Scenario()
    mine, other = scenario.ask(), scenario.ask(producer_id=2)
    await ready()
    scenario.repetitions.forget_producer(1)
    await ready()
    assert mine.cancelled()
    assert [search.cancelled() for search in scenario.finder.searches] == [True, False]
    assert not other.done()
    await scenario.close()


async def test_who_waits_is_told_that_the_partition_is_closed() -> None:
    scenario = Scenario()
    searching, sent = scenario.ask(), scenario.ask(sequence=1)
    await ready()
    scenario.finder.searches[1].set_result(None)
    await ready()
    scenario.repetitions.close()
    for answer in (searching, sent):
        assert await code_of(answer) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert str(ClientClosed("the partition")) in str(searching.exception())
    assert scenario.outcomes[0].cancelled()
