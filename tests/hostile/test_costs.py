"""No attack costs more than it deserves: others are served meanwhile, memory stays, and it is over when it is.

`make hostile` tells how much. Here only what would be wrong on any machine is: a client that is kept waiting for a
second beside one attacker, memory without a bound, work that outlives who asked for it. In `make test` these tests have
the machine alone.
"""

from __future__ import annotations

import secrets
from dataclasses import replace

import pytest

from tests.hostile import attacks
from tests.hostile.attacks import Attack
from tests.hostile.measure import Arena

GIVES_UP_AFTER = 3.0
"""Seconds, where more is asked than is answered: nothing new comes after the first."""


@pytest.mark.parametrize("attack", list(attacks.every()), ids=lambda attack: attack.name)
def test_attacks_of_many_requests(arena: Arena, attack: Attack) -> None:
    load = attack.load(arena.victim(secrets.token_hex(3)))
    if not attack.answered:
        load = replace(load, seconds=GIVES_UP_AFTER)
    cost = arena.run(load)
    print(f"figures: {cost.line(attack.name)}")
    cost.check(attack.growth)
    if load.answers and attack.answered:
        assert cost.spent.answered == load.answers * len(load.connections)
