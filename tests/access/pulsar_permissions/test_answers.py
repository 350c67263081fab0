import asyncio

import pytest

from bridge.access.pulsar_permissions.answers import (
    AWAY_SECONDS,
    MAX_QUESTIONS,
    OLD_SECONDS,
    RETRY_SECONDS,
    YOUNG_SECONDS,
    Answers,
    NoAnswer,
)
from bridge.telemetry.metrics import PermissionMetrics

KEY = ("alice", "orders")


class Away(Exception):
    pass


class Pulsar:
    """Answers when it is let; its clock is the test's."""

    def __init__(self) -> None:
        self.allowed: bool | Exception = True
        self.questions: list[object] = []
        self.under_way = self.most_under_way = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.time = 1000.0
        self.metrics = PermissionMetrics()
        self.answers = Answers(self.ask, Away, self.metrics, lambda: self.time)

    async def ask(self, key: object) -> bool:
        self.questions.append(key)
        self.under_way += 1
        self.most_under_way = max(self.under_way, self.most_under_way)
        try:
            await self.may_answer.wait()
        finally:
            self.under_way -= 1
        if isinstance(self.allowed, Exception):
            raise self.allowed
        return self.allowed

    async def settle(self) -> None:
        """Let what was asked in the background be answered."""
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        await asyncio.gather(*tasks)


async def test_many_who_wait_share_one_question() -> None:
    pulsar = Pulsar()
    pulsar.may_answer.clear()
    waiting = [asyncio.ensure_future(pulsar.answers.get(KEY)) for _ in range(50)]
    await asyncio.sleep(0)
    waiting[0].cancel()  # it is not the others' question that ends
    pulsar.may_answer.set()
    assert await asyncio.gather(*waiting[1:]) == [True] * 49
    assert len(pulsar.questions) == 1
    assert pulsar.answers.known(KEY) is True
    await pulsar.answers.close()


@pytest.mark.parametrize("allowed", [True, False])
async def test_an_answer_counts_is_asked_for_again_and_ends(allowed: bool) -> None:
    pulsar = Pulsar()
    pulsar.allowed = allowed
    assert pulsar.answers.known(KEY) is None
    assert await pulsar.answers.get(KEY) is allowed
    pulsar.time += YOUNG_SECONDS[allowed] - 0.1
    assert pulsar.answers.known(KEY) is allowed
    assert len(pulsar.questions) == 1

    pulsar.time += 0.2
    pulsar.allowed = not allowed
    assert [pulsar.answers.known(KEY) for _ in range(5)] == [allowed] * 5  # the question is on its way
    await pulsar.settle()
    assert len(pulsar.questions) == 2
    assert pulsar.answers.known(KEY) is not allowed

    pulsar.time += OLD_SECONDS[not allowed] + 0.1
    assert pulsar.answers.known(KEY) is None
    pulsar.allowed = allowed
    assert await pulsar.answers.get(KEY) is allowed


def test_a_revoked_right_ends_within_thirty_seconds() -> None:
    assert OLD_SECONDS[True] + 5.0 <= 30.0


async def test_while_pulsar_is_away_the_last_answer_counts_without_waiting_but_not_forever() -> None:
    pulsar = Pulsar()
    await pulsar.answers.get(KEY)
    pulsar.allowed = Away()
    pulsar.time += OLD_SECONDS[True] + 0.1
    assert await pulsar.answers.get(KEY) is True
    assert len(pulsar.questions) == 2
    assert [pulsar.answers.known(KEY) for _ in range(5)] == [True] * 5
    await pulsar.settle()
    assert len(pulsar.questions) == 2
    pulsar.time += RETRY_SECONDS
    assert pulsar.answers.known(KEY) is True
    await pulsar.settle()
    assert len(pulsar.questions) == 3

    pulsar.time += AWAY_SECONDS
    assert pulsar.answers.known(KEY) is None
    with pytest.raises(NoAnswer):
        await pulsar.answers.get(KEY)
    pulsar.allowed = False
    assert await pulsar.answers.get(KEY) is False
    asked = {outcome: counter.value for outcome, counter in pulsar.metrics.questions.items()}
    assert asked == {"allowed": 1, "denied": 1, "unknown": 3}


async def test_what_was_never_known_is_no_denial() -> None:
    pulsar = Pulsar()
    pulsar.allowed = Away()
    with pytest.raises(NoAnswer):
        await pulsar.answers.get(KEY)
    pulsar.allowed = True
    assert await pulsar.answers.get(KEY) is True


async def test_an_answer_is_as_old_as_its_question() -> None:
    pulsar = Pulsar()
    pulsar.may_answer.clear()
    waiting = asyncio.ensure_future(pulsar.answers.get(KEY))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    pulsar.time += OLD_SECONDS[True] + 0.1
    pulsar.may_answer.set()
    assert await waiting
    assert pulsar.answers.known(KEY) is None


async def test_few_questions_are_under_way_and_few_answers_remembered() -> None:
    pulsar = Pulsar()
    pulsar.answers = Answers(pulsar.ask, Away, pulsar.metrics, lambda: pulsar.time, most=100)
    pulsar.may_answer.clear()
    waiting = [asyncio.ensure_future(pulsar.answers.get((number,))) for number in range(1000)]
    for _ in range(10):
        await asyncio.sleep(0)
    assert pulsar.under_way == MAX_QUESTIONS
    pulsar.may_answer.set()
    assert all(await asyncio.gather(*waiting))
    assert pulsar.most_under_way == MAX_QUESTIONS
    assert len(pulsar.answers) <= 100


async def test_closing_ends_those_who_wait() -> None:
    pulsar = Pulsar()
    pulsar.may_answer.clear()
    waiting = asyncio.ensure_future(pulsar.answers.get(KEY))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await pulsar.answers.close()
    with pytest.raises(NoAnswer):
        await waiting
