"""No request costs more than its bytes deserve: every array of every API, as long as it may be.

What others wait beside one of them is so far below the bound that other tests may run meanwhile.
"""

from __future__ import annotations

import pytest

from bridge import apis
from tests.hostile import largest
from tests.hostile.clients import Load, frame
from tests.hostile.measure import Arena

GROWTH = 128 << 20
OTHER, SAME = 5000, 20_000
ANSWER_SECONDS = 100.0
"""Nobody waits longer: beside other tests the nice attacker may get little of a slow machine."""
APIS = {api.name: api for api in apis.load().values()}


@pytest.mark.parametrize("api", APIS)
def test_the_largest_requests_of_an_api(arena: Arena, api: str) -> None:
    for one in largest.every(APIS[api]):
        # of arrays in arrays it is the inner ones that cost, and other names try them
        is_outer = len(one.path) == 1
        for same, count in ((False, OTHER), *([(True, SAME)] if is_outer else [])):
            request = one.request(count, same=same, topic=arena.topic)
            cost = arena.run(Load([[frame(one.api, one.api.max_version, request)]], 1, ANSWER_SECONDS))
            name = f"{one}, {count}"
            print(f"figures: {cost.line(name)}")
            cost.check(GROWTH)
            assert cost.spent.answered + cost.spent.closed == 1, "neither an answer nor an end"
