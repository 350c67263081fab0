"""Each mistake is told, in the words that docs/mistakes.md has, and nearly always with what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mistakes import of_pulsar, of_settings, of_this_machine, page
from tests.mistakes.mistake import Mistake, Place

WAITS_A_MINUTE = {"two nodes with one id"}
"""For its place in the cluster; tests/cluster/test_member.py waits less, and has the same words."""


def of(mistakes: list[Mistake]) -> pytest.MarkDecorator:
    soak = pytest.mark.soak
    made = [pytest.param(one, id=one.what, marks=soak if one.what in WAITS_A_MINUTE else ()) for one in mistakes]
    return pytest.mark.parametrize("mistake", made)


def judge(mistake: Mistake, printed: str, config: pytest.Config) -> None:
    written: Path | None = config.getoption("--mistakes", None)
    if written is not None:
        page.write(written, {mistake.what: printed})
    assert printed
    assert mistake.remedy in printed
    assert page.row(mistake, printed) in page.rows(written or page.PAGE), f"write the page again: {page.BEGIN}"


@of(of_settings.MISTAKES)
def test_in_the_settings(mistake: Mistake, place: Place, pytestconfig: pytest.Config) -> None:
    judge(mistake, mistake.make(place), pytestconfig)


@pytest.mark.programs
@of(of_this_machine.MISTAKES)
def test_on_this_machine(mistake: Mistake, place: Place, pytestconfig: pytest.Config) -> None:
    judge(mistake, mistake.make(place), pytestconfig)


@of(of_pulsar.MISTAKES)
def test_towards_pulsar(mistake: Mistake, beside: Place, pytestconfig: pytest.Config) -> None:
    judge(mistake, mistake.make(beside), pytestconfig)


def test_the_page_has_every_mistake_once_and_nearly_all_say_what_to_do() -> None:
    all_of_them = [one for mistakes in page.everything().values() for one in mistakes]
    names = [one.what for one in all_of_them]
    assert len(names) == len(set(names)) >= 60
    assert sum(bool(one.remedy) for one in all_of_them) >= len(names) - 2
    assert {line.split(" | ")[0].removeprefix("| ") for line in page.rows()} == {*names, "mistake"}
