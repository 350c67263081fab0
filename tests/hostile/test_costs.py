"""No request costs more than its bytes deserve: others are served meanwhile, memory stays, and it is over when it is.

`make hostile` tells how much. Here only what would be wrong on any machine is: a client that is kept waiting for a
second beside one attacker, memory without a bound, work that outlives who asked for it.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from bridge import apis
from bridge.standalone.guard import Guard
from tests.hostile import attacks, largest
from tests.hostile.attacks import Attack
from tests.hostile.clients import Load, frame
from tests.hostile.measure import REST_SECONDS, Arena, Cost
from tests.support.bridges import BridgeChild, settings_for
from tests.support.pulsar import PulsarAddress

LONGEST_WAIT = 1.0
GROWTH = 128 << 20
OTHER, SAME = 5000, 50_000
APIS = {api.name: api for api in apis.load().values()}


@pytest.fixture(scope="module")
def arena(pulsar: PulsarAddress, guard: Guard, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    settings = settings_for(pulsar, pulsar.create_namespace())
    with (
        BridgeChild(settings, tmp_path_factory.mktemp("bridge"), guard) as child,
        Arena(child, getattr(pulsar, "pid", None)) as made,
    ):
        yield made


def check(cost: Cost, name: str, *, growth: int = GROWTH) -> None:
    print(f"figures: {cost.line(name)}")
    assert not cost.waits.errors
    assert cost.waits.longest < LONGEST_WAIT
    assert cost.grown < growth
    assert cost.rest < REST_SECONDS


@pytest.mark.parametrize("api", APIS)
def test_the_largest_requests_of_an_api(arena: Arena, api: str) -> None:
    for one in largest.every(APIS[api]):
        for same, count in ((False, OTHER), (True, SAME)):
            request = one.request(count, same=same, topic=arena.topic)
            cost = arena.run(Load([[frame(one.api, one.api.max_version, request)]], 1))
            check(cost, f"{one} {'same' if same else 'other'}")
            assert cost.spent.answered + cost.spent.closed == 1, "neither an answer nor an end"


@pytest.mark.parametrize("attack", list(attacks.every()), ids=lambda attack: attack.name)
def test_attacks_of_many_requests(arena: Arena, attack: Attack) -> None:
    load = attack.load(arena.victim(secrets.token_hex(3)))
    cost = arena.run(load)
    check(cost, attack.name, growth=attack.growth)
    if load.answers and attack.answered:
        assert cost.spent.answered == load.answers * len(load.connections)
