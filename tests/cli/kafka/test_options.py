"""What is written on the command line."""

import pytest

from bridge.cli.kafka.options import name_and_value
from bridge.errors import SettingsError


@pytest.mark.parametrize(
    ("text", "told"),
    [("a=1", ("a", "1")), ("a=", ("a", "")), ("a=b=c", ("a", "b=c")), ("a ==", ("a ", "="))],
)
def test_a_name_and_a_value_are_split_at_the_first_equals_sign(text: str, told: tuple[str, str]) -> None:
    assert name_and_value(text) == told


@pytest.mark.parametrize("text", ["", "=", "=1", "a"])
def test_what_has_no_name_or_no_equals_sign_is_refused_by_its_whole_text(text: str) -> None:
    with pytest.raises(SettingsError) as refused:
        name_and_value(text)
    assert str(refused.value) == f"{text!r} is no NAME=VALUE"
