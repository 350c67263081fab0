"""The option that writes the page, and where mistakes are made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mistakes import page
from tests.mistakes.mistake import Place
from tests.support.pulsar import NewPulsar, PulsarAddress
from tests.support.secured_pulsar import SecuredPulsar

TOLD = pytest.StashKey[dict[str, str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--mistakes", type=Path, help="write what people are told of their mistakes into this document")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[TOLD] = {}


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the rows of the tests that ran; others stay as they are."""
    path = session.config.getoption("--mistakes", None)
    if path is not None:
        page.write(path, session.config.stash[TOLD])


@pytest.fixture
def told(request: pytest.FixtureRequest) -> dict[str, str]:
    """What was printed, by the mistakes' names, for the page."""
    return request.config.stash[TOLD]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture(scope="session")
def secured(new_pulsar: NewPulsar) -> Iterator[SecuredPulsar]:
    """A Pulsar that asks for tokens."""
    with SecuredPulsar(new_pulsar) as started:
        yield started


@pytest.fixture
def beside(place: Place, pulsar: PulsarAddress) -> Place:
    """A place with a Pulsar."""
    place.at(pulsar, pulsar.create_namespace())
    return place
