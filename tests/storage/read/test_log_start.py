"""When Pulsar is asked where a log starts; its answers are made up here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from bridge.pulsar.types import Position, PulsarError
from bridge.storage.read.log_end import LogEnd
from bridge.storage.read.log_start import LogStart


class SearchAnswers:
    """Stands for the search: each question has the next answer, the first entry's base or what goes wrong."""

    def __init__(self, *answers: int | Exception | None) -> None:
        self.answers = list(answers)

    async def load(self) -> None:
        """The end is known."""

    async def open_at_start(self) -> int | None:
        """No tail can be opened at the start."""
        return None

    async def read_batch(self, position: Position) -> SimpleNamespace | None:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return None if answer is None else SimpleNamespace(base=answer)


def start(*answers: int | Exception | None) -> tuple[LogStart, SearchAnswers]:
    search, end = SearchAnswers(*answers), LogEnd()
    end.advance(100)
    return LogStart("topic", cast(Any, search), end, search.load, search.open_at_start), search


async def test_the_start_is_asked_for_once() -> None:
    begin, search = start(7)
    before = begin.known
    assert [await begin.get(), await begin.get(), await begin.get_fresh(60)] == [7, 7, 7]
    assert search.answers == []
    assert (before, begin.known) == (None, 7)


async def test_the_start_is_learnt_from_a_tail_opened_there() -> None:
    begin, search = start(9)

    async def open_at_start() -> int:
        return 5

    begin = LogStart("topic", cast(Any, search), LogEnd(), search.load, open_at_start)
    assert await begin.get() == 5
    assert await begin.get_fresh(60) == 5
    assert search.answers == [9], "Pulsar was asked once more"


async def test_the_start_never_decreases_and_an_empty_log_starts_at_its_end() -> None:
    begin, _ = start(7, 5, None)
    assert [await begin.find(), await begin.find(), await begin.find()] == [7, 7, 100]
    begin.raise_to(50)
    assert begin.offset == 100


async def test_what_an_empty_log_gets_while_it_is_asked_about_is_not_before_its_start() -> None:
    search, end = SearchAnswers(None, 0), LogEnd()

    async def load() -> None:
        end.advance(5)  # another writer's, acknowledged after the first answer

    begin = LogStart("topic", cast(Any, search), end, load, search.open_at_start)
    assert await begin.get() == 0


async def test_an_empty_log_of_which_only_the_end_is_left_starts_there() -> None:
    search, end = SearchAnswers(None, None), LogEnd()

    async def load() -> None:
        end.advance(5)

    begin = LogStart("topic", cast(Any, search), end, load, search.open_at_start)
    assert await begin.get() == 5
    assert search.answers == []


async def test_an_old_start_is_asked_for_again() -> None:
    begin, search = start(7, 8)
    await begin.get()
    assert await begin.get_fresh(-1) == 8
    assert search.answers == []


async def test_the_known_start_stays_if_pulsar_cannot_be_asked(caplog: pytest.LogCaptureFixture) -> None:
    begin, _ = start(7, PulsarError(11))
    await begin.get()
    assert await begin.get_fresh(-1) == 7
    assert "log start not refreshed" in caplog.text
