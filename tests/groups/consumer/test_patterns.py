"""What patterns fit: each name is matched once, what is kept has its bounds."""

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest

from bridge.errors import KafkaError
from bridge.groups.consumer.patterns import Patterns
from bridge.groups.consumer.regex import compiled
from bridge.kafka.error_codes import ErrorCode


class Matcher:
    """Compiles as ever, and counts what is matched."""

    def __init__(self) -> None:
        self.asked: Counter[tuple[str, str]] = Counter()

    def __call__(self, pattern: str) -> Callable[[str], bool]:
        fits = compiled(pattern)

        def counted(name: str) -> bool:
            self.asked[pattern, name] += 1
            return fits(name)

        return counted


async def test_a_name_is_matched_once_a_pattern() -> None:
    matcher = Matcher()
    patterns = Patterns(matcher)
    patterns.set_names(["ta", "tb", "u"])
    wanted = {"t.*": {"ta", "tb"}, "(a+)+b": set()}
    for _ in range(3):
        assert {one: await patterns.fits(one) for one in wanted} == wanted
    patterns.set_names(["ta", "tb", "u"])
    assert {one: await patterns.fits(one) for one in wanted} == wanted
    patterns.set_names(["ta", "tb", "u", "tc"])
    assert await patterns.fits("t.*") == {"ta", "tb", "tc"}
    patterns.set_names(["ta", "tb", "u", "tc", "td"])
    assert {one: await patterns.fits(one) for one in wanted} == {"t.*": {"ta", "tb", "tc", "td"}, "(a+)+b": set()}
    assert set(matcher.asked.values()) == {1}
    assert len(matcher.asked) == 2 * 5


async def test_names_that_are_gone_are_dropped_and_matched_again_if_they_come_back() -> None:
    matcher = Matcher()
    patterns = Patterns(matcher)
    patterns.set_names(["ta", "tb"])
    await patterns.fits("t.*")
    patterns.set_names(["tb"])
    assert await patterns.fits("t.*") == {"tb"}
    patterns.set_names(["ta", "tb"])
    assert await patterns.fits("t.*") == {"ta", "tb"}
    assert matcher.asked == {("t.*", "ta"): 2, ("t.*", "tb"): 1}


async def test_what_has_not_changed_is_the_same_object() -> None:
    patterns = Patterns()
    patterns.set_names(["t"])
    before = await patterns.fits("t")
    patterns.set_names(["t", "u"])
    assert await patterns.fits("t") is before


async def test_groups_that_ask_side_by_side_get_the_same() -> None:
    patterns = Patterns()
    names = [f"{kind}{number}" for kind in "ab" for number in range(500)]
    patterns.set_names(names)
    asked = [patterns.fits(pattern) for pattern in ("a.*", "(a|b)+.*9") for _ in range(5)]
    nines = {name for name in names if name.endswith("9")}
    assert await asyncio.gather(*asked) == [set(names[:500])] * 5 + [nines] * 5


async def test_the_least_recently_used_go_first() -> None:
    matcher = Matcher()
    patterns = Patterns(matcher, max_bytes=2000)  # three of them
    patterns.set_names(["t"])
    for pattern in ("t", "x", "y", "t", "z", "t"):
        await patterns.fits(pattern)
    assert matcher.asked["t", "t"] == 1
    await patterns.fits("x")
    assert matcher.asked["x", "t"] == 2


async def test_a_pattern_that_is_none_is_told() -> None:
    patterns = Patterns()
    patterns.set_names(["t"])
    await patterns.check("t+")
    for ask in (patterns.check("("), patterns.fits("(")):
        with pytest.raises(KafkaError) as raised:
            await ask
        assert raised.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert await patterns.fits("t") == {"t"}
