"""The patterns that members subscribe by: RE2's, as in Kafka.

RE2 takes linear time for a name, whatever the pattern. The names of topics are ASCII, so it does not matter that Java's
RE2 goes by UTF-16 and this one by UTF-8. What is refused beside (RE2/J 1.8 compared): counted repetitions that come to
more than a thousand by being nested, and patterns that take more memory or time to compile than they may.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode

MAX_PATTERN_LENGTH: Final = 4096
"""Characters of a pattern."""
_MAX_COMPILED_BYTES: Final = 256 * 1024
"""Of one pattern: a list of topics of the longest pattern's length needs 200 KiB."""
_COUNTED: Final = re.compile(r"(?<!\\x)\{(\d+)(?:,(\d*))?\}", re.ASCII)
_ANY_CASE: Final = re.compile(r"\(\?[a-zA-Z]*i")


@lru_cache(maxsize=128)
def compiled(pattern: str) -> Callable[[str], bool]:
    """Whether the pattern fits a name as a whole; KafkaError(INVALID_REGULAR_EXPRESSION) where it is none.

    A name may take 20 ms; RE2 releases the GIL meanwhile. It does not while it compiles: that is bounded to 5 ms.
    """
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise _refused(pattern, f"it is longer than {MAX_PATTERN_LENGTH} characters")
    if _length(pattern) > MAX_PATTERN_LENGTH:
        raise _refused(pattern, "it takes too long to compile")
    import re2  # no start needs it

    options = re2.Options()
    options.max_mem = _MAX_COMPILED_BYTES
    options.log_errors = False
    options.never_capture = True
    try:
        fullmatch = re2.compile(pattern, options).fullmatch
    except re2.error as error:
        # as RE2/J tells it, without the part of the pattern
        reason = error.args[0].decode().partition(": ")[0].replace("missing ", "missing closing ")
        raise _refused(pattern, reason) from None
    finally:
        re2.purge()  # it would keep the last 128, too
    return lambda name: fullmatch(name.encode()) is not None


def _length(pattern: str) -> int:
    """How long a pattern of plain characters would be that takes as long to compile, about 1 µs for each."""
    classes = pattern.count(r"\p") + pattern.count(r"\P")
    repeated = sum(int(most or least) for least, most in _COUNTED.findall(pattern))
    return len(pattern) * (4 if _ANY_CASE.search(pattern) else 1) + 400 * classes + 4 * repeated


def _refused(pattern: str, why: str) -> KafkaError:
    text = f"SubscribedTopicRegex `{pattern[:100]}` is not a valid regular expression: {why}."
    return KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, text)
