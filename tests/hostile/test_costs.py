"""No attack costs more than it deserves: others are served meanwhile, memory stays, and it is over when it is.

`make hostile` tells how much. Here only what would be wrong on any machine is: a client that is kept waiting for a
second beside one attacker, memory without a bound, work that outlives who asked for it. In `make test` these tests have
the machine alone, so it runs one of each kind; `make soak` runs all.
"""

from __future__ import annotations

import secrets
from dataclasses import replace

import pytest
from _pytest.mark.structures import ParameterSet

from tests.hostile import attacks
from tests.hostile.attacks import Attack
from tests.hostile.measure import Arena

GIVES_UP_AFTER = 3.0
"""Seconds, where more is asked than is answered: nothing new comes after the first."""


OF_EACH_KIND = {
    "10,080 members of one group",  # what is kept of who has gone
    "members with 1 MB each",  # memory of groups
    "pipelined ListGroups",  # more is asked than is answered
    "Metadata of all topics, disconnected",  # work that nobody waits for
    "50 batches that decompress to 16 MiB, gzip",
    "Produce of 900 KB, acks=0",  # memory of records
    "Fetch that is not read",  # memory of answers
    "2,000 connections, nothing asked",
}


def every() -> list[ParameterSet]:
    return [
        pytest.param(one, id=one.name, marks=() if one.name in OF_EACH_KIND else pytest.mark.soak)
        for one in attacks.every()
    ]


def test_those_of_each_kind_are_among_them() -> None:
    assert {one.name for one in attacks.every()} >= OF_EACH_KIND


@pytest.mark.parametrize("attack", every())
def test_attacks_of_many_requests(arena: Arena, attack: Attack) -> None:
    load = attack.load(arena.victim(secrets.token_hex(3)))
    if not attack.answered:
        load = replace(load, seconds=GIVES_UP_AFTER)
    cost = arena.run(load)
    print(f"figures: {cost.line(attack.name)}")
    cost.check(attack.growth)
    if load.answers and attack.answered:
        assert cost.spent.answered == load.answers * len(load.connections)
