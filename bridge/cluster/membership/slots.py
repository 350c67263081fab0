"""Which node owns which slot: balanced by weight, with the fewest moves, neighbouring slots on different nodes.

A topic's partitions stand in neighbouring slots, so how well neighbours are spread is how well a topic is.

Rules:

1. A node's share is its weight's part of all slots, rounded down or up. Who gets a rounded-up share is open, so it
   stays with those who have one: any other choice would move slots for nothing.
2. Slots of nodes that are gone move at once, whatever the limit. A node of weight 0 is still there: its slots move as
   those of a node that has too many, within the limit.
3. A node gives away slots that stand closest behind another one of its own, but not two neighbours with another node:
   they would go to the same one.
4. A slot goes to the node whose nearest slot is farthest away, measured in that node's ideal distance.
5. Ties are broken by bit-reversed order, of which every beginning is spread evenly over all slots. In plain order a new
   node would get one run of slots, and a topic of few partitions none of it.
"""

import zlib
from bisect import bisect, insort
from collections import deque
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import inf
from typing import Final

UNOWNED: Final = -1
"""The owner of a slot that no node ever had."""

_CANDIDATES: Final = 8
"""So many nodes are compared for a slot: with 100 nodes to choose from, all of them would take ten times as long."""

_Held = dict[int, list[int]]


def slot_of(topic: str, partition: int, slots: int) -> int:
    """The slot of a partition. This stays forever: all nodes of all versions must agree."""
    return (zlib.crc32(topic.encode()) + partition) % slots


def needed_moves(owners: Sequence[int], weights: Mapping[int, int]) -> int:
    """How many slots have to move until all nodes have their shares; weight 0: a node that is to have none."""
    if not any(weights.values()):
        return 0
    counts = _counts(owners, weights)
    shares = _shares(len(owners), weights, counts)
    return len(owners) - sum(min(count, shares[node]) for node, count in counts.items())


def rebalance(owners: Sequence[int], weights: Mapping[int, int], most: float = inf) -> tuple[int, ...]:
    """The owners after the moves that are needed; at most so many of them from nodes that are still there."""
    if not any(weights.values()):
        return tuple(owners)  # there is no node to move to
    held, free = _held(owners, weights)
    shares = _shares(len(owners), weights, {node: len(slots) for node, slots in held.items()})
    for node, count in _given_away(held, shares, most).items():
        free += _take_from(held[node], count, len(owners), set(free))
    return _assign(list(owners), free, held, shares)


def _counts(owners: Sequence[int], weights: Mapping[int, int]) -> dict[int, int]:
    counts = dict.fromkeys(sorted(weights), 0)
    for owner in owners:
        if owner in counts:
            counts[owner] += 1
    return counts


def _held(owners: Sequence[int], weights: Mapping[int, int]) -> tuple[_Held, list[int]]:
    """Each node's slots in ascending order; those of no node."""
    held: _Held = {node: [] for node in sorted(weights)}
    free = []
    for slot, owner in enumerate(owners):
        if owner in held:
            held[owner].append(slot)
        else:
            free.append(slot)
    return held, free


def _shares(slots: int, weights: Mapping[int, int], counts: Mapping[int, int]) -> dict[int, int]:
    """How many slots each node is to have (rule 1)."""
    total = sum(weights.values())
    shares = {node: slots * weight // total for node, weight in weights.items()}
    rest = {node: slots * weight % total for node, weight in weights.items()}
    uneven = [node for node in weights if rest[node]]
    uneven.sort(key=lambda node: (counts[node] <= shares[node], -rest[node], node))
    for node in uneven[: slots - sum(shares.values())]:
        shares[node] += 1
    return shares


def _given_away(held: _Held, shares: Mapping[int, int], most: float) -> dict[int, int]:
    """How many slots each node that has too many gives away now."""
    extra = {node: len(slots) - shares[node] for node, slots in held.items() if len(slots) > shares[node]}
    total = sum(extra.values())
    if total <= most:
        return extra
    limit = int(most)
    part = {node: count * limit // total for node, count in extra.items()}
    left = limit - sum(part.values())
    for node, count in extra.items():
        if left and part[node] < count:
            part[node] += 1
            left -= 1
    return part


def _take_from(slots: list[int], count: int, total: int, free: set[int]) -> list[int]:
    """Remove so many of a node's slots from its list (rule 3), and return them; `free`: those of other nodes."""
    if count == len(slots):
        taken = slots[:]
        slots.clear()
        return taken
    spread = _bit_reversed(total)
    size = len(slots)
    keys = [
        (slot - 1 in free or slot + 1 in free, (slot - slots[at - 1]) % total, spread[slot])
        for at, slot in enumerate(slots)
    ]
    order = sorted(range(size), key=keys.__getitem__)
    chosen: set[int] = set()
    for at in order:  # of two neighbours only one, or a gap of three would be left
        is_apart = (at - 1) % size not in chosen and (at + 1) % size not in chosen and not keys[at][0]
        if len(chosen) < count and is_apart:
            chosen.add(at)
    for at in order:
        if len(chosen) < count:
            chosen.add(at)
    taken = [slots[at] for at in sorted(chosen)]
    slots[:] = [slot for at, slot in enumerate(slots) if at not in chosen]
    return taken


def _assign(owners: list[int], free: list[int], held: _Held, shares: Mapping[int, int]) -> tuple[int, ...]:
    """Give each free slot to a node that has too few (rule 4)."""
    need = {node: shares[node] - len(slots) for node, slots in held.items() if shares[node] > len(slots)}
    if len(need) == 1:  # usual: a node has come
        node = next(iter(need))
        for slot in free:
            owners[slot] = node
        return tuple(owners)
    turn = deque(need)
    free.sort(key=_bit_reversed(len(owners)).__getitem__)
    for slot in free:
        best, best_score = UNOWNED, (-1, 0)
        for node in list(turn)[:_CANDIDATES]:
            score = (_distance(slot, held[node], len(owners)) * shares[node], need[node])
            if score > best_score:
                best, best_score = node, score
        owners[slot] = best
        insort(held[best], slot)
        need[best] -= 1
        if not need[best]:
            turn.remove(best)
        turn.rotate(-_CANDIDATES)
    return tuple(owners)


def _distance(slot: int, others: list[int], total: int) -> int:
    """From a slot to the nearest of others, around the ring."""
    if not others:
        return total
    at = bisect(others, slot)
    return min((slot - others[at - 1]) % total, (others[at % len(others)] - slot) % total)


@lru_cache(maxsize=8)
def _bit_reversed(count: int) -> tuple[int, ...]:
    """The numbers below `count`'s power of two with their bits in reverse, at each number's place."""
    bits = max(1, (count - 1).bit_length())
    return tuple(int(format(number, f"0{bits}b")[::-1], 2) for number in range(count))
