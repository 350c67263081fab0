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
APIS = {api.name: api for api in apis.load().values()}


@pytest.mark.parametrize("api", APIS)
def test_the_largest_requests_of_an_api(arena: Arena, api: str) -> None:
    for one in largest.every(APIS[api]):
        for same, count in ((False, OTHER), (True, SAME)):
            request = one.request(count, same=same, topic=arena.topic)
            cost = arena.run(Load([[frame(one.api, one.api.max_version, request)]], 1))
            name = f"{one}, {count}"
            print(f"figures: {cost.line(name)}")
            cost.check(GROWTH)
            assert cost.spent.answered + cost.spent.closed == 1, "neither an answer nor an end"
