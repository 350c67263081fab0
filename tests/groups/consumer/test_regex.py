"""Which patterns members may subscribe by, and what they fit; RE2/J 1.8, Kafka's, was asked for each of these."""

import pytest

from bridge.errors import KafkaError
from bridge.groups.consumer.regex import compiled
from bridge.kafka.error_codes import ErrorCode

TOO_LONG = "it takes too long to compile"
NAMES = ("orders-eu", "orders-", "eu.a", "xorders-eu", "a")


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("orders-.*", {"orders-eu", "orders-"}),
        ("(?:eu|us)[.].+", {"eu.a"}),
        ("(?i)ORDERS-eu", {"orders-eu"}),
        ("orders", set()),
        ("^orders-$|^a", {"orders-", "a"}),
        (".*-.*", {"orders-eu", "orders-", "xorders-eu"}),
        ("", set()),
        ("(a|b){0,3}", {"a"}),
        (r"\pL+", {"a"}),
        (r"\p{Greek}|[[:lower:]]", {"a"}),
        (r"\Qeu.a\E", {"eu.a"}),
        (r"\Aa\z", {"a"}),
        ("(?P<n>eu)[.](?<m>a)", {"eu.a"}),
        (r"[^\x{10000}日本]", {"a"}),
    ],
)
def test_a_pattern_fits_whole_names(pattern: str, names: set[str]) -> None:
    assert set(filter(compiled(pattern), NAMES)) == names


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(", "missing closing )"),
        ("[a", "missing closing ]"),
        ("[z-a]", "invalid character class range"),
        (r"\p{IsAlphabetic}", "invalid character class range"),
        (r"(a)\1", "invalid escape sequence"),
        (r"a\Z", "invalid escape sequence"),
        ("(?=a)a", "invalid perl operator"),
        ("(?>a)", "invalid perl operator"),
        ("a++", "bad repetition operator"),
        ("a{3,2}", "invalid repetition size"),
        ("a{1001}", "invalid repetition size"),
        ("(x{100}){100}", "invalid repetition size"),
        ("(x{1000}){1000}", TOO_LONG),
        (r"\pL{30}", "pattern too large - compile failed"),
        (r"\pL" * 20, TOO_LONG),
        ("(x{100}){10}" * 10, TOO_LONG),
        ("(?i)" + "[[:^alpha:]]" * 100, TOO_LONG),
        ("x" * 5000, "it is longer than 4096 characters"),
    ],
    ids=lambda text: text[:20],
)
def test_other_patterns_are_refused(pattern: str, reason: str) -> None:
    with pytest.raises(KafkaError) as raised:
        compiled(pattern)
    assert raised.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION
    start = f"SubscribedTopicRegex `{pattern[:100]}` is not a valid regular expression: "
    assert raised.value.message == f"{start}{reason}."


@pytest.mark.parametrize(
    "pattern",
    [
        "a*?a*?a*?b", "(a|aa)+b", "(a+)+b", "(a*)*b", "((a|aa)+)+b", "(a?){1000}b", ".*a.*a.*a.*b", ".*a.{200}b",
        "(((a?){10}){10}){9}b",
    ],
)  # fmt: skip
def test_a_name_takes_linear_time_whatever_the_pattern(pattern: str) -> None:
    assert not compiled(pattern)("a" * 249)  # one that tries each way would never come back


def test_an_end_that_can_be_reached_in_many_ways_is_found() -> None:
    assert compiled("(a|aa)+$")("a" * 249)


def test_a_list_of_topics_as_long_as_a_pattern_may_be_is_taken() -> None:
    names = [f"{number:05}-{'x' * 13}" for number in range(204)]
    pattern = "|".join(names)
    assert 4000 < len(pattern) <= 4096
    assert all(map(compiled(pattern), names))


def test_nothing_is_written_where_a_pattern_is_refused_or_runs_out_of_memory(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KafkaError):
        compiled("[")
    compiled(".*a.{900}")("ab" * 124)
    assert capfd.readouterr() == ("", "")
