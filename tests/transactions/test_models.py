"""Random histories, in which nothing is violated; with a rule left out, something is.

The state machine, its records and what follows from them are the real ones. What is the work of other parts (who is
asked freshly, which connection counts, when a slot is loaded again) is the models' own, by the same rules.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Final

import pytest

from bridge.kafka.error_codes import ErrorCode
from bridge.transactions import records
from bridge.transactions.state import LAST_EPOCH, Status
from tests.support import effort
from tests.transactions import directed
from tests.transactions import model_partitions as partitions
from tests.transactions.model_copying import Answer, Request, Rule, World
from tests.transactions.model_partitions import Rule as PartitionRule


@pytest.fixture(autouse=True)
def each_value_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """All nodes and readers of a history read the same few values."""
    for name in ("decode", "decode_aborted", "decode_block", "parse_key"):
        monkeypatch.setattr(records, name, lru_cache(10_000)(getattr(records, name)))


def seeds(usual: int) -> list[object]:
    """Those of each test; the many only in `make soak`."""
    tried = [range(first, first + 200) for first in range(0, effort.seeds(usual), 200)]
    many = [range(first, first + 2000) for first in range(0, 100_000, 2000)]
    return [
        *(pytest.param(each, id=f"{each.start}") for each in tried),
        *(pytest.param(each, id=f"many-{each.start}", marks=pytest.mark.soak) for each in many),
    ]


@pytest.mark.parametrize("protocol", [1, 2])
@pytest.mark.parametrize("tried", seeds(4000))
def test_writing_to_partitions(tried: range, protocol: int) -> None:
    for seed in tried:
        assert partitions.World(seed, protocol).run() == set(), f"seed {seed}"


@pytest.mark.parametrize("protocol", [1, 2])
@pytest.mark.parametrize("tried", seeds(2000))
def test_copying_with_offsets(tried: range, protocol: int) -> None:
    for seed in tried:
        assert World(seed, protocol).run() == set(), f"seed {seed}"


@pytest.mark.parametrize("protocol", [1, 2])
def test_histories_have_blocks_and_new_producer_ids(protocol: int) -> None:
    """What is rare in life must be tried here."""
    keys, prunings = set(), 0
    for seed in range(20):
        writing = partitions.World(seed, protocol)
        for world in (writing, World(seed, protocol)):
            assert world.run() == set()
            keys |= {key for entry in world.log.entries for key, _ in entry}
        prunings += writing.prunings
    assert prunings
    parsed = [records.parse_key(key) for key in keys]
    blocks = [key for key in parsed if isinstance(key, records.BlockKey)]
    alone = [key.identity for key in parsed if isinstance(key, records.AbortedKey)]
    assert any(key.epoch is None for key in blocks) == (protocol == 2)
    assert any(key.epoch is not None for key in blocks) == (protocol == 1)
    assert {0, LAST_EPOCH} <= {identity.epoch for identity in alone}


# ---- each rule is needed ---------------------------------------------------------------------------------------------


WRITING: Final = [
    (PartitionRule.WRITE_AHEAD, 2, 0),
    (PartitionRule.FRESH, 1, 0),
    (PartitionRule.TAKING, 1, 3694),
    (PartitionRule.NOTHING_LEFT, 1, 0),
    (PartitionRule.NOTHING_LEFT, 2, 0),
    (PartitionRule.NOTHING_COMES, 1, 0),
    (PartitionRule.NOTHING_COMES, 2, 0),
]
"""With the first seed that is tried: chance finds a taking in one of some thousand histories."""


@pytest.mark.parametrize(("rule", "protocol", "first"), WRITING)
def test_each_rule_of_writing_is_needed(rule: PartitionRule, protocol: int, first: int) -> None:
    histories = (partitions.World(seed, protocol, frozenset({rule})).run() for seed in range(first, first + 500))
    assert any(histories)


BY_CHANCE: Final = [
    (Rule.NO_GAP, 1),
    (Rule.NO_GAP, 2),
    (Rule.WHOLE_IDENTITY, 1),
    (Rule.WHOLE_IDENTITY, 2),
    (Rule.FRESH, 1),
    (Rule.UNKNOWN_IS_ASKED, 2),
]


@pytest.mark.parametrize(("rule", "protocol"), BY_CHANCE)
def test_each_rule_of_copying_is_needed(rule: Rule, protocol: int) -> None:
    assert any(World(seed, protocol, frozenset({rule})).run() for seed in range(500))


DIRECTED: Final = [
    (Rule.GROUP_CONNECTIONS, 1, directed.late_offset),
    (Rule.WRITE_AHEAD, 2, directed.late_offset),
    (Rule.CONNECTIONS, 1, directed.late_end),
    (Rule.TAKING, 1, partial(directed.late_end, slot_is_taken=True)),
    (Rule.NEWEST_GENERATION, 1, directed.member_of_the_generation_before),
    (Rule.NEWEST_GENERATION, 2, directed.member_of_the_generation_before),
    (Rule.STABLE, 1, directed.offset_that_may_still_change),
    (Rule.STABLE, 2, directed.offset_that_may_still_change),
    (Rule.CLOSED, 1, directed.time_out_from_an_old_memory),
    (Rule.CLOSED, 2, directed.time_out_from_an_old_memory),
]


@pytest.mark.parametrize(("rule", "protocol", "schedule"), DIRECTED)
def test_each_rule_is_needed_where_chance_hardly_finds_it(
    rule: Rule, protocol: int, schedule: Callable[[int, frozenset[Rule]], set[str]]
) -> None:
    assert schedule(protocol, frozenset()) == set()
    assert schedule(protocol, frozenset({rule})) != set()


class Asked:
    """What the coordinators answer to a client's requests, whose writes are stored at once."""

    def __init__(self, protocol: int, off: frozenset[Rule]) -> None:
        self.world = World(0, protocol, off)

    def __call__(self, api: str, named: tuple[int, int], node: int = 0, commit: bool = False) -> Answer:
        answers: list[Answer] = []
        request = Request(api, thread=0, named=named, commit=commit)
        self.world.coordinate(node, request, self.world.new_connection(), answers.append)
        while self.world.writes:
            self.world.write_on(0)
        (answer,) = answers
        return answer


def initialized_late(off: frozenset[Rule]) -> tuple[Status, ErrorCode]:
    """An InitProducerId that names an epoch before the one that began the open transaction's."""
    ask = Asked(2, off)
    oldest = ask("init", (-1, -1)).named
    newest = ask("init", ask("init", oldest).named).named
    assert ask("add", newest).error == ErrorCode.NONE
    late = ask("init", oldest)
    return ask.world.views[0].slot.records["0"].status, late.error


def test_an_initialization_that_is_late_aborts_nothing() -> None:
    assert initialized_late(frozenset()) == (Status.OPEN, ErrorCode.PRODUCER_FENCED)
    assert initialized_late(frozenset({Rule.EPOCH_FIRST})) == (Status.EMPTY, ErrorCode.NONE)


def committed_from_memory(off: frozenset[Rule]) -> ErrorCode:
    """A holder that lost the slot takes the next transaction's EndTxn for a repetition of the last one's."""
    ask = Asked(1, off)
    named = ask("init", (-1, -1)).named
    for node in (0, 1):
        ask.world.take(node)
        assert ask("add", named, node).error == ErrorCode.NONE
        if node == 0:
            assert ask("end", named, node, commit=True).error == ErrorCode.NONE
    answer = ask("end", named, node=0, commit=True)
    assert ask.world.views[1].slot.records["0"].status is Status.OPEN
    return answer.error


def test_a_holder_that_lost_the_slot_says_nothing_from_memory() -> None:
    assert committed_from_memory(frozenset()) == ErrorCode.NOT_COORDINATOR
    assert committed_from_memory(frozenset({Rule.CONFIRM})) == ErrorCode.NONE
