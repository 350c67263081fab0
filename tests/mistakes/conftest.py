"""The option that writes the page, and where mistakes are made."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mistakes.mistake import Place
from tests.support.pulsar import PulsarAddress


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--mistakes", type=Path, help="write what people are told of their mistakes into this document")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def beside(place: Place, pulsar: PulsarAddress) -> Place:
    """A place with a Pulsar."""
    place.at(pulsar, pulsar.create_namespace())
    return place
