"""What a node is given at its start: how long nodes wait for each other, how many slots there are."""

from dataclasses import dataclass, replace
from typing import Final

_MAX_HEARTBEATS: Final = 500
"""So many heartbeats a second are enough for the controller and the topic: above, each node sends fewer."""


@dataclass(frozen=True, slots=True)
class Timing:
    """How long the nodes of a cluster wait for each other, in seconds, and how many slots and ids there are."""

    heartbeat: float = 1.0
    tick: float = 1.0
    suspect: float = 1.1
    """Silence after which Pulsar is asked whether the node's connection is there."""
    dead: float = 3.0
    """Silence after which a node is gone unless its connection is known to be there."""
    answer: float = 1.0
    """Pulsar answers sooner, or it waits for the node's connection."""
    hung: float = 10.0
    """Silence after which it is gone all the same."""
    grace: float = 2.0
    """After an own reconnect others are given this long to reconnect."""
    succession_step: float = 0.75
    """What each member that comes first to succeed the controller adds to the wait."""
    first_wait: float = 0.03
    first_wait_spread: float = 0.12
    cut_off: float = 3.5
    """Without the receipt of a heartbeat for so long, a node takes itself for cut off."""
    pause: float = 1.0
    """A node that did not run for so long has to learn first what it has missed."""
    hold: float = 3.0
    """How long requests are held for that."""
    name_wait: float = 15.0
    """How long the name of a predecessor may stay in use."""
    lost: float = 60.0
    """A challenge that does not come back for so long was deleted unread: Pulsar takes no longer to store one."""
    drain: float = 10.0
    whole_view: float = 300.0
    """How often the view is written as a whole."""
    wake: float = 0.25
    """The longest time between two runs of the state machine: what a pause is measured by."""
    least_wait: float = 0.01
    """The shortest: what is due may have to wait for something else."""
    move_slots: int = 1024
    """How many slots a second leave nodes that are there."""
    kept_ids: int = 1_000
    """So many names that are away keep their ids."""

    def for_members(self, count: int) -> "Timing":
        """The same for a cluster of this size: above 500 nodes, all limits of silence grow with the heartbeats."""
        factor = count / _MAX_HEARTBEATS
        if factor <= 1:
            return self
        return replace(
            self,
            heartbeat=self.heartbeat * factor,
            suspect=self.suspect * factor,
            dead=self.dead * factor,
            hung=self.hung * factor,
            cut_off=self.cut_off * factor,
        )


@dataclass(frozen=True, slots=True)
class MembershipConfig:
    """What a node's membership is given at its start."""

    timing: Timing = Timing()
    slots: int = 4096
    groups: int = 64
    first_version: int = 1
    """The version of the first view, if this node makes it: later than any of a log that was lost."""
    chance: float = 0.0
    """From 0 to 1, another for each node."""
