"""A model of who may write a partition's batches, and what Pulsar knows of them: every order of a few events.

One idempotent Kafka producer sends its batches one after another and repeats what has no answer. Two nodes lead the
partition one after the other, and the first may not know yet that it no longer does. Each node's entries go to Pulsar
through a pipe that holds them for any time, or loses them with the session. Others write, too.

Three ways to name the Pulsar producers:

- `OWN`: one for each Kafka producer, the same on both nodes; its sequence ids are Kafka's. What the bridge does.
- `NODE`: one for all Kafka producers of a node; a node learns the last sequence from the log when it opens it.
- `PARTITION`: one for all Kafka producers, the same on both nodes; a node learns the last sequence from so many of the
  log's last entries when it opens it.

Pulsar refuses a name that has a session, and drops what repeats a sequence id of a name.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

FIRST, SECOND = 0, 1
_BATCHES, _TIMEOUTS, _CUTS, _OTHERS = 2, 2, 1, 1


class Naming(Enum):
    """How Pulsar producers are named."""

    OWN = "one for each Kafka producer"
    NODE = "one for each node"
    PARTITION = "one for the partition"


class Design(NamedTuple):
    """What is checked."""

    naming: Naming
    scan: int | None = None
    """How many of the log's last entries are read when a producer is opened; None: all."""
    compares: bool = True
    """Whether a node that comes back looks into the log if what is stored under its sequence ids is its own."""


class Stored(NamedTuple):
    """An entry, in the log or on its way to it."""

    name: str
    sequence_id: int
    batch: int | None
    """The Kafka producer's; None: of another producer."""


@dataclass(frozen=True)
class Node:
    """One node of the bridge."""

    leads: bool
    asked: int | None = None
    """The batch of a request that it has not begun."""
    is_open: bool = False
    last: int | None = None
    """The Kafka producer's last batch, as far as the node knows; None before its producer was ever open."""
    next_id: int = 0
    unacknowledged: tuple[Stored, ...] = ()
    pipe: tuple[Stored, ...] = ()
    receipts: tuple[Stored, ...] = ()


@dataclass(frozen=True)
class State:
    """All there is."""

    nodes: tuple[Node, Node]
    log: tuple[Stored, ...] = ()
    waits_for: int | None = None
    """The node of which the client waits for an answer."""
    answered: int = 0
    """Batches that the client knows to be stored."""
    timeouts: int = _TIMEOUTS
    cuts: int = _CUTS
    others: int = _OTHERS

    def with_node(self, at: int, **changes: object) -> "State":
        nodes = list(self.nodes)
        nodes[at] = replace(nodes[at], **changes)  # type: ignore[arg-type]
        return replace(self, nodes=(nodes[0], nodes[1]))

    @property
    def fault(self) -> str | None:
        """What is wrong with the log."""
        batches = [one.batch for one in self.log if one.batch is not None]
        if len(set(batches)) < len(batches):
            return "a batch is stored twice"
        if batches != sorted(batches):
            return "the order is lost"
        if set(range(self.answered)) - set(batches):
            return "an acknowledged batch is lost"
        return None


def start() -> State:
    """The first node leads."""
    return State((Node(leads=True), Node(leads=False)))


def steps(state: State, design: Design) -> Iterator[tuple[str, State]]:
    """All that can happen next."""
    yield from _of_client(state)
    first, second = state.nodes
    if not second.leads:
        yield "another node leads", state.with_node(SECOND, leads=True)
    elif first.leads:
        yield "the first node knows", _closed(state.with_node(FIRST, leads=False, asked=None), FIRST)
    for at, node in enumerate(state.nodes):
        yield from _of_node(state, at, node, design)
        if node.pipe:
            yield f"Pulsar takes an entry of node {at}", _taken(state, at, node)
        if node.receipts:
            yield f"node {at} has a receipt", _acknowledged(state, at, node)
        if node.is_open and state.cuts:
            yield f"node {at} is cut off", _closed(replace(state, cuts=state.cuts - 1), at, keep=True)


def _of_client(state: State) -> Iterator[tuple[str, State]]:
    if state.waits_for is None and state.answered < _BATCHES:
        for at in (FIRST, SECOND):
            if state.nodes[at].leads and state.nodes[at].asked is None:
                asked = state.with_node(at, asked=state.answered)
                yield f"the client sends {state.answered} to node {at}", replace(asked, waits_for=at)
    if state.waits_for is not None and state.timeouts:
        yield "the client waits no longer", replace(state, waits_for=None, timeouts=state.timeouts - 1)


def _of_node(state: State, at: int, node: Node, design: Design) -> Iterator[tuple[str, State]]:
    name = f"node {at}" if design.naming is Naming.NODE else "shared"
    if node.leads and not node.is_open and not _is_held(state, design):
        yield f"node {at} opens its producer", _opened(state, at, node, name, design)
    if not node.is_open:
        return
    if node.asked is not None:
        yield f"node {at} begins {node.asked}", _begun(state, at, node, name, design)
    if state.others and design.naming is not Naming.OWN:
        sent = _sent(node, Stored(name, node.next_id, None))
        other = state.with_node(at, **sent)
        yield f"another client writes through node {at}", replace(other, others=state.others - 1)


def _is_held(state: State, design: Design) -> bool:
    """Whether another node's session has the name."""
    return design.naming is not Naming.NODE and any(node.is_open for node in state.nodes)


def _opened(state: State, at: int, node: Node, name: str, design: Design) -> State:
    """The producer is open: what was on its way is sent again, unless another has written under its name since."""
    stored = max((one.sequence_id for one in state.log if one.name == name), default=-1)
    others = [one for one in state.log if one.name == name and any(_replaces(one, own) for own in node.unacknowledged)]
    if node.last is not None and stored < node.next_id and not (others and design.compares):
        return state.with_node(at, is_open=True, pipe=node.unacknowledged)
    read = state.log if design.scan is None else state.log[len(state.log) - design.scan :]
    last = max((one.batch for one in read if one.batch is not None), default=-1)
    return state.with_node(at, is_open=True, last=last, next_id=stored + 1, unacknowledged=())


def _replaces(stored: Stored, own: Stored) -> bool:
    """Whether Pulsar would take one for a repetition of the other, which it is not."""
    return stored.sequence_id == own.sequence_id and stored.batch != own.batch


def _begun(state: State, at: int, node: Node, name: str, design: Design) -> State:
    batch, last = node.asked, node.last
    assert batch is not None and last is not None
    if batch <= last:
        if any(one.batch == batch for one in node.unacknowledged):
            return state.with_node(at, asked=None)  # answered with the first one's receipt
        return _answered(state.with_node(at, asked=None), at, batch)
    sequence_id = batch if design.naming is Naming.OWN else node.next_id
    sent = _sent(node, Stored(name, sequence_id, batch))
    return state.with_node(at, asked=None, last=batch, **sent)


def _sent(node: Node, entry: Stored) -> dict[str, object]:
    return {
        "next_id": entry.sequence_id + 1,
        "pipe": (*node.pipe, entry),
        "unacknowledged": (*node.unacknowledged, entry),
    }


def _taken(state: State, at: int, node: Node) -> State:
    entry = node.pipe[0]
    is_new = all(one.name != entry.name or one.sequence_id < entry.sequence_id for one in state.log)
    taken = replace(state, log=(*state.log, entry)) if is_new else state
    return taken.with_node(at, pipe=node.pipe[1:], receipts=(*node.receipts, entry))


def _acknowledged(state: State, at: int, node: Node) -> State:
    entry = node.receipts[0]
    left = tuple(one for one in node.unacknowledged if one != entry)
    known = state.with_node(at, receipts=node.receipts[1:], unacknowledged=left)
    return known if entry.batch is None else _answered(known, at, entry.batch)


def _answered(state: State, at: int, batch: int) -> State:
    if state.waits_for == at and state.answered == batch and state.nodes[at].asked is None:
        return replace(state, answered=batch + 1, waits_for=None)
    return state


def _closed(state: State, at: int, *, keep: bool = False) -> State:
    """The session ends, and with it all that is in its pipe. `keep`: it will be opened again."""
    kept = state.nodes[at].unacknowledged if keep else ()
    return state.with_node(at, is_open=False, pipe=(), receipts=(), unacknowledged=kept)


def explore(design: Design, fault: Callable[[State], str | None] = lambda state: state.fault) -> tuple[int, list[str]]:
    """How many states there are, and the shortest way to a fault; none: there is none."""
    begin = start()
    came: dict[State, tuple[State, str] | None] = {begin: None}
    waiting = deque([begin])
    while waiting:
        state = waiting.popleft()
        found = fault(state)
        if found is not None:
            return len(came), [*_way(state, came), found]
        for name, after in steps(state, design):
            if after not in came:
                came[after] = state, name
                waiting.append(after)
    return len(came), []


def _way(state: State, came: dict[State, tuple[State, str] | None]) -> list[str]:
    names: list[str] = []
    step = came[state]
    while step is not None:
        names.append(step[1])
        step = came[step[0]]
    return names[::-1]
