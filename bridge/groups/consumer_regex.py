"""Subscriptions by pattern: which patterns are taken, and which topics they fit.

Kafka's broker uses RE2, which matches in linear time; Python's `re` may try every way to match. So patterns are taken
only when few ways exist, whatever the name: at most three unbounded repeats (`*`, `+`, `{2,}`), none around another one
or around alternatives, and nothing that RE2 does not know either (back-references, look-around, atomic groups).
"""

import re
import warnings
from collections.abc import Iterable
from functools import lru_cache
from re import _constants as op  # type: ignore[attr-defined]  # the parser has no public name
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Final

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode

_LONGEST_NAME: Final = 249
_UNBOUNDED: Final = 100  # what a repeat counts for: three of them divide a name of 249 in 249³/6 ways at most
_MOST_WAYS: Final = 4_000_000
_LONGEST_PATTERN: Final = 4096


@lru_cache(maxsize=256)
def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern; KafkaError(INVALID_REGULAR_EXPRESSION) with the reason where it is not taken."""
    if len(pattern) > _LONGEST_PATTERN:
        raise _refused(pattern, f"it is longer than {_LONGEST_PATTERN} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # what means something else to RE2, as [[:alpha:]]
            ways = _ways(parser.parse(pattern))
            result = re.compile(pattern)
    except (re.error, Warning, OverflowError, RecursionError) as error:
        raise _refused(pattern, str(error)) from None
    if ways > _MOST_WAYS:
        raise _refused(pattern, "there are too many ways to match it: use fewer repeats, and none around another")
    return result


def fitting(pattern: str, names: Iterable[str]) -> frozenset[str]:
    """The names that the pattern fits as a whole."""
    fits = compiled(pattern).fullmatch
    return frozenset(name for name in names if fits(name))


def _refused(pattern: str, why: str) -> KafkaError:
    text = f"SubscribedTopicRegex `{pattern[:100]}` is not a valid regular expression: {why}."
    return KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, text)


def _ways(parsed: Any) -> int:
    """How many ways to match there are at most, for a name of any allowed length."""
    ways = 1
    for code, argument in parsed:
        ways *= _ways_of(code, argument)
        if ways > _MOST_WAYS:
            break
    return ways


def _ways_of(code: Any, argument: Any) -> int:
    if code in (op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN, op.AT):
        return 1
    if code is op.SUBPATTERN:
        return _ways(argument[-1])
    if code is op.BRANCH:
        return sum(_ways(one) for one in argument[1])
    if code in (op.MAX_REPEAT, op.MIN_REPEAT):
        least, most, body = argument
        ways = _ways(body)
        if ways == 1 and most is op.MAXREPEAT:
            return _UNBOUNDED
        return _repeated(ways, min(least, _LONGEST_NAME), min(most, _LONGEST_NAME))
    raise re.error(f"{str(code).lower().replace('_', ' ')} is not in RE2")


def _repeated(ways: int, least: int, most: int) -> int:
    total, power = 0, ways**least
    for _ in range(least, most + 1):
        total += power
        power *= ways
        if total > _MOST_WAYS:
            break
    return total
