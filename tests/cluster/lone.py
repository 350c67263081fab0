"""A node whose records come back at once: what it does is seen step by step."""

from dataclasses import replace
from typing import TypeVar

from bridge.cluster.membership.effects import Append, Effect, SendHeartbeat, Serving
from bridge.cluster.membership.records import Challenge, Heartbeat, Tick, ViewDifference, WholeView
from bridge.cluster.membership.state import Membership
from bridge.cluster.membership.timing import MembershipConfig
from bridge.cluster.membership.view import ClusterView, NodeRegistration
from bridge.pulsar.types import Position

Found = TypeVar("Found")


class Lone:
    """One node, its own view log and heartbeat topic."""

    def __init__(self, name: str = "a", config: MembershipConfig | None = None) -> None:
        self.now = 100.0
        config = config or MembershipConfig(slots=8, groups=2)
        self.node = Membership(NodeRegistration(name, 5), config, self.now)
        self.entries = 0
        self.effects: list[Effect] = []
        self.echoes = True
        """Whether its records are stored, and come back to it."""

    def join(self) -> "Lone":
        """Start, and become the controller of a new cluster."""
        self.node.name_opened(self.now)
        self.node.log_read(self.now)
        self.run(1.0)
        return self

    def run(self, seconds: float) -> None:
        """Let so much time pass."""
        until = self.now + seconds
        while self.now < until:
            self.now = min(until, self.now + 0.1)
            self.node.run(self.now)
            self.take()

    def wakes(self, seconds: float = 1.0) -> int:
        """How often the timer of a shell runs in so much time."""
        until, count = self.now + seconds, 0
        while self.now < until:
            self.now = max(self.node.wake_at, self.now + 0.000_01)
            self.node.run(self.now)
            self.take()
            count += 1
        return count

    def take(self) -> None:
        """Do what it wants."""
        for effect in self.node.take_effects():
            self.effects.append(effect)
            if self.echoes and isinstance(effect, SendHeartbeat):
                self.node.heartbeat_stored(effect.heartbeat.at, self.now)
                self.node.heartbeat_read(effect.heartbeat, self.now)
            elif self.echoes and isinstance(effect, Append):
                self.read(effect.record)

    def read(self, record: WholeView | ViewDifference | Tick | Challenge) -> None:
        """It reads the next record of the view log."""
        self.node.record_read(record, Position(1, self.entries), self.now)
        self.entries += 1

    def serving(self) -> Serving:
        """What becomes of its requests."""
        return self.node.serving

    def hear(self, name: str, incarnation: int = 1, id: int = -1, weight: int = 1) -> None:
        """It reads a heartbeat of another node."""
        node = NodeRegistration(name, incarnation, id, weight=weight)
        self.node.heartbeat_read(Heartbeat(node, 0.0), self.now)

    def told(self, kind: type[Found]) -> list[Found]:
        """Its effects of a kind since the last look; of records those in `Append`."""
        self.take()
        effects, self.effects = self.effects, []
        inner = [effect.record if isinstance(effect, Append) else effect for effect in effects]
        return [effect for effect in inner if isinstance(effect, kind)]


OTHER = NodeRegistration("b", 1, 1, since=50)


def member() -> Lone:
    """A node in a view whose controller is another."""
    lone = Lone()
    lone.node.name_opened(lone.now)
    lone.node.log_read(lone.now)
    mine = replace(lone.node.node, id=0, since=51)
    view = ClusterView(60, 1, {0: mine, 1: OTHER}, {"a": 0, "b": 1}, (0, 1) * 4, (60,) * 8, (0, 1))
    lone.read(WholeView(OTHER.sender, 0, view))
    return lone
