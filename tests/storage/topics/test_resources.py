"""How brokers are called where configs are asked for."""

import pytest

from bridge.storage.topics.resources import is_number


@pytest.mark.parametrize("name", ["0", "77", "-1", "+1"])
def test_numbers(name: str) -> None:
    assert is_number(name)


@pytest.mark.parametrize("name", ["", "first", "1.0", "1_0", "٣", "1" * 10, " 1"])
def test_other_names(name: str) -> None:
    assert not is_number(name)
