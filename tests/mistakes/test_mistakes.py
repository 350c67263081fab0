"""Each mistake is told, in the words that docs/mistakes.md has, and nearly always with what to do."""

from __future__ import annotations

import pytest

from tests.mistakes import of_clients, of_pulsar, of_settings, of_this_machine, page
from tests.mistakes.mistake import Mistake, Place
from tests.support.secured_pulsar import SecuredPulsar


def of(mistakes: list[Mistake]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("mistake", mistakes, ids=[one.what for one in mistakes])


def judge(mistake: Mistake, printed: str, told: dict[str, str], config: pytest.Config) -> None:
    told[mistake.what] = printed
    assert mistake.remedy in printed
    assert printed
    if config.getoption("--mistakes", None) is None:
        assert page.row(mistake, printed) in page.rows(), f"write the page again: {page.BEGIN}"


@of(of_settings.MISTAKES)
def test_in_the_settings(mistake: Mistake, place: Place, told: dict[str, str], pytestconfig: pytest.Config) -> None:
    judge(mistake, mistake.make(place), told, pytestconfig)


@pytest.mark.programs
@of(of_this_machine.MISTAKES)
def test_on_this_machine(mistake: Mistake, place: Place, told: dict[str, str], pytestconfig: pytest.Config) -> None:
    judge(mistake, mistake.make(place), told, pytestconfig)


@of([one for one in of_pulsar.MISTAKES if one not in of_pulsar.SECURED])
def test_towards_pulsar(mistake: Mistake, beside: Place, told: dict[str, str], pytestconfig: pytest.Config) -> None:
    judge(mistake, mistake.make(beside), told, pytestconfig)


@of([one for one in of_pulsar.MISTAKES if one in of_pulsar.SECURED])
def test_towards_a_pulsar_that_asks_who_it_is(
    mistake: Mistake, place: Place, secured: SecuredPulsar, told: dict[str, str], pytestconfig: pytest.Config
) -> None:
    place.at(secured.pulsar, secured.create_tenant("bridge"))
    judge(mistake, of_pulsar.SECURED[mistake](place, secured), told, pytestconfig)


@of(of_clients.MISTAKES)
def test_of_clients_and_commands(
    mistake: Mistake, beside: Place, told: dict[str, str], pytestconfig: pytest.Config
) -> None:
    judge(mistake, mistake.make(beside), told, pytestconfig)


def test_the_page_has_every_mistake_once_and_nearly_all_say_what_to_do() -> None:
    all_of_them = [one for mistakes in page.everything().values() for one in mistakes]
    names = [one.what for one in all_of_them]
    assert len(names) == len(set(names)) >= 60
    assert sum(bool(one.remedy) for one in all_of_them) >= len(names) - 2
    assert {line.split(" | ")[0].removeprefix("| ") for line in page.rows()} == {*names, "mistake"}
