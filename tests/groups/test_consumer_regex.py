"""Which patterns members may subscribe to, and what they fit."""

import pytest

from bridge.errors import KafkaError
from bridge.groups.consumer_regex import compiled, fitting
from bridge.kafka.error_codes import ErrorCode

LONGEST = "a" * 249


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("orders-.*", {"orders-eu", "orders-"}),
        ("(?:eu|us)[.].+", {"eu.a"}),
        ("(?i)ORDERS-eu", {"orders-eu"}),
        ("orders", set()),
        (".*-.*", {"orders-eu", "orders-", "xorders-eu"}),
        ("", set()),
        ("(a|b){0,3}", {"a"}),
    ],
)
def test_a_pattern_fits_whole_names(pattern: str, names: set[str]) -> None:
    assert fitting(pattern, ["orders-eu", "orders-", "eu.a", "xorders-eu", "a"]) == names


@pytest.mark.parametrize(
    "pattern",
    [
        "(", "a{3,2}", r"\pL", "[[:alpha:]]",  # not Python's
        r"(a)\1", "(?=a)a", "(?<!a)b", "(?>a)", "a++", "(a)?(?(1)b|c)",  # not RE2's
        "(a+)+b", "(a*)*", "(ab|a)*c", "(a?){40}", "a?" * 30, ".*a.*b.*c.*d",  # may take for ever
        "x" * 5000, "(" * 3000 + ")" * 3000, "a{100000000000}",
    ],
    ids=lambda pattern: pattern[:20],
)  # fmt: skip
def test_other_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(KafkaError) as raised:
        compiled(pattern)
    assert raised.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert len(str(raised.value)) < 400


@pytest.mark.parametrize("pattern", ["a*a*a*x", ".*.*.*x", "(a?){21}x", "(aa?){0,20}x", "(.|a)(.|a).*.*x"])
def test_what_is_taken_comes_to_its_end_on_the_worst_of_names(pattern: str) -> None:
    assert fitting(pattern, [LONGEST]) == frozenset()
