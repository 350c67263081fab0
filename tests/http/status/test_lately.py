"""What Pulsar is asked in the background: nothing that nobody looks at, each thing once, and a few at a time."""

from __future__ import annotations

import asyncio

from bridge.errors import KafkaError
from bridge.http.status.lately import Lately
from bridge.kafka.error_codes import ErrorCode


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_looking_never_waits_and_asks_once() -> None:
    asked: list[str] = []
    answer = asyncio.Event()

    async def ask(key: str) -> int:
        asked.append(key)
        await answer.wait()
        return len(asked)

    lately: Lately[str, int] = Lately(ask, seconds=1e9, pause=0)
    assert lately.look("a") is None
    await turns()
    assert lately.look("a") is None
    await turns()
    assert asked == ["a"]
    answer.set()
    await turns()
    assert lately.look("a") == 1
    await turns()
    assert asked == ["a"]
    lately.close()


async def test_few_are_asked_at_a_time_and_the_latest_first() -> None:
    asked: list[int] = []
    answer = asyncio.Event()

    async def ask(key: int) -> int:
        asked.append(key)
        await answer.wait()
        return key

    lately: Lately[int, int] = Lately(ask, seconds=1e9, pause=0, at_once=2)
    for key in range(5):
        lately.look(key)
    await turns()
    assert asked == [4, 3]
    answer.set()
    await turns()
    assert [lately.look(key) for key in range(5)] == [0, 1, 2, 3, 4]
    lately.close()


async def test_the_last_answer_stays_while_pulsar_is_away() -> None:
    answers = iter([1])

    async def ask(key: str) -> int:
        try:
            return next(answers)
        except StopIteration:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT) from None

    lately: Lately[str, int] = Lately(ask, seconds=-1.0, pause=0)  # each answer is old at once
    lately.look("a")
    await turns()
    assert lately.look("a") == 1
    await turns()
    assert lately.look("a") == 1
    lately.close()


async def test_nothing_is_asked_after_its_end() -> None:
    asked: list[str] = []

    async def ask(key: str) -> None:
        asked.append(key)

    lately: Lately[str, None] = Lately(ask, seconds=1e9, pause=0)
    lately.close()
    assert lately.look("a") is None
    await turns()
    assert not asked
