"""A run of one seed: which faults it means, and when the cluster must have recovered from them."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from bridge.cluster.membership.effects import MembershipState
from bridge.cluster.membership.orders import Order
from bridge.cluster.membership.timing import MembershipConfig, Timing
from bridge.cluster.membership.view import NodeRegistration
from tests.cluster.simulation.checks import Checks, Counts
from tests.cluster.simulation.clock import Clock
from tests.cluster.simulation.process import Process
from tests.cluster.simulation.pulsar import Pulsar

_STEPS = 6
_SETTLE = 10.0


def slots_of(nodes: int) -> int:
    """How many slots a simulation of so many nodes has: fewer than a cluster, and some for each."""
    return 1024 if nodes > 100 else 256


@dataclass(frozen=True)
class Plan:
    """What is simulated."""

    nodes: int
    seed: int
    slots: int = 256
    groups: int = 16
    only: tuple[str, ...] = ()
    """These faults alone; empty: any."""
    steps: int = _STEPS
    move_slots: int = 128
    timing: tuple[tuple[str, float], ...] = ()
    """What nodes are given in place of the usual limits."""
    start_within: float = 0.2
    """Nodes that start together do so within so many seconds."""


class Run:
    """One run."""

    def __init__(self, plan: Plan, say: Callable[[str], None] | None = None) -> None:
        self.plan = plan
        self.clock = Clock(plan.seed)
        self.clock.start_within = plan.start_within
        self.pulsar = Pulsar(self.clock)
        self.chance = random.Random(f"faults {plan.seed}")
        timing = replace(Timing(move_slots=plan.move_slots), **dict[str, Any](plan.timing))
        self.config = MembershipConfig(timing, plan.slots, plan.groups, 1_000)
        allowed = replace(self.config, timing=Timing(move_slots=plan.move_slots, kept_ids=timing.kept_ids))
        self.checks = Checks(self.clock, self.pulsar, allowed)
        self.say = say or (lambda text: None)
        self.checks.nodes = plan.nodes
        self.names = 0
        self.until = 0.0
        """When the newest fault is over."""

    # ---- processes ---------------------------------------------------------------------------------------------------

    def start(self, name: str, **fields: int) -> None:
        """Start a process of this name."""
        incarnation = max(1, int(1_000 * (self.clock.now + 100) + self.chance.uniform(-3_000, 3_000)))
        while any(process.membership.node.sender == (name, incarnation) for process in self.checks.processes.values()):
            incarnation += 1
        if any(process.name == name and process.is_alive for process in self.checks.processes.values()):
            self._over_in(self.config.timing.name_wait + 2)
        node = NodeRegistration(name, incarnation, **fields)  # type: ignore[arg-type]
        config = replace(self.config, chance=self.chance.random(), first_version=1_000 + int(self.clock.now))
        process = Process(self.clock, self.pulsar, node, config)
        self.checks.add(process)
        self.say(f"{self.clock.now:8.3f} start {name} {incarnation}")

    def start_new(self, **fields: int) -> None:
        """Start a node that was never there."""
        self.names += 1
        self.start(f"n{self.names}", **fields)

    @property
    def well(self) -> list[Process]:
        """The processes that nothing is wrong with."""
        return [
            process
            for process in self.checks.processes.values()
            if process.is_well and not process.is_excused(self.clock.now)
        ]

    def _some(self, *, leader: bool = False) -> Process | None:
        """One of them; None: too few are left."""
        well = [process for process in self.well if process.membership.view.member(process.name)]
        if len(well) < 2:
            return None
        view = self.checks.truth.view
        if leader:
            return next((p for p in well if view.leader is not None and p.name == view.leader.name), None)
        return self.chance.choice(well)

    # ---- faults ------------------------------------------------------------------------------------------------------

    def _kill(self, process: Process | None, half_open: bool = False, fault: str = "kill") -> None:
        if process is None:
            return
        process.fault = "crash" if half_open else fault
        process.kill(half_open)
        if process.fault in ("kill", "crash"):
            self.checks.expect_removed(process)
        back = self.chance.choice([self.chance.uniform(0.05, 1.5), self.chance.uniform(4, 9)])
        weight = process.membership.node.weight
        self.clock.after(back, lambda: self.start(process.name, weight=weight, level=process.membership.node.level))
        self._over_in(back + (6 if half_open else 0))

    def _over_in(self, seconds: float) -> None:
        self.until = max(self.until, self.clock.now + seconds)

    def _duration(self) -> float:
        return self.chance.choice([0.5, 0.9, 1.2, 2.0, 2.9, 3.3, 4.0, 6.0, 9.5, 15.0, self.chance.uniform(0.5, 60)])

    def kill(self) -> None:
        self._kill(self._some())

    def kill_controller(self) -> None:
        self._kill(self._some(leader=True))

    def crash(self) -> None:
        self._kill(self._some(), half_open=True)

    def freeze(self, leader: bool = False) -> None:
        process, seconds = self._some(leader=leader), self._duration()
        if process:
            process.fault = "freeze"
            process.freeze(seconds)
            self.checks.expect_removed(process)
            self._over_in(seconds + 2)

    def freeze_controller(self) -> None:
        self.freeze(leader=True)

    def cut(self, leader: bool = False) -> None:
        process, seconds = self._some(leader=leader), self._duration()
        if process:
            ways = self.chance.choice([(True, True), (True, False), (False, True)])
            process.fault = "cut"
            process.cut(seconds, *ways)
            self.checks.expect_removed(process)
            self._over_in(seconds + 2)

    def cut_controller(self) -> None:
        self.cut(leader=True)

    def mute(self) -> None:
        process, seconds = self._some(), self.chance.choice([2.0, 4.0, 7.0, 24.0])
        if process and not process.is_mute:
            process.fault = "mute"
            process.mute(seconds)
            self.clock.after(seconds - 0.1, lambda: self._still_mute(process))
            self._over_in(seconds + 1)

    def _still_mute(self, process: Process) -> None:
        silent = self.clock.now - process.muted_at
        if silent > 18 and self.checks.is_single and self.checks.truth.view.member(process.name):
            self.checks.fail(f"I4: {process.name} is in the view after {silent:.0f} s without heartbeats")

    def reset(self) -> None:
        process, slow = self._some(), self.chance.choice([0.0, 0.0, 0.5, 2.0, 10.0])
        if process:
            process.fault = "reset"
            process.reset(slow)
            self._over_in(slow + 2)

    def slow_reader(self) -> None:
        process, delay, seconds = self._some(), self.chance.uniform(1, 8), self.chance.uniform(2, 12)
        if process:
            process.read_delay, process.read_delay_for = delay, seconds + delay
            process.slow_until = self.clock.now + seconds + 2 * delay

            def over() -> None:
                process.read_delay = 0.0

            self.clock.after(seconds, over)
            self._over_in(delay + seconds)

    def many(self) -> None:
        well = self.well
        for process in self.chance.sample(well, len(well) // 3):
            self._kill(process, fault="many")

    def all_at_once(self) -> None:
        for process in self.well:
            self._kill(process, fault="all_at_once")

    def leave(self, leader: bool = False) -> None:
        process = self._some(leader=leader)
        if process:
            process.leave()
            self.clock.after(self.chance.uniform(14, 16), lambda: self.start(process.name))
            self._over_in(16)

    def leave_controller(self) -> None:
        self.leave(leader=True)

    def join(self) -> None:
        self.start_new(weight=self.chance.choice([1, 1, 1, 2]), level=self.chance.choice([1, 2]))
        self._over_in(1)

    def same_name(self) -> None:
        """A second process is started under the name of one that is there."""
        process = self._some()
        if process:
            self.start(process.name)
            self._over_in(17)

    def same_id(self) -> None:
        """A node asks for the id of another one."""
        view = self.checks.truth.view
        if view.members:
            self.start_new(id=self.chance.choice(sorted(view.members)))
            self._over_in(1)

    def retire(self) -> None:
        """A node leaves and does not come back."""
        process = self._some()
        if process:
            process.leave()
            self._over_in(16)

    def remove(self, leader: bool = False) -> None:
        """An operator removes a node. It is restarted some time, or not."""
        process = self._some(leader=leader)
        if process is None:
            return
        self.checks.operator.order(Order.REMOVE, process.name)
        self._over_in(3)
        if self.chance.random() < 0.7:
            back = self.chance.uniform(0.5, 6)
            self.clock.after(back, lambda: self._restart(process))
            self._over_in(back + 3)

    def remove_controller(self) -> None:
        self.remove(leader=True)

    def _restart(self, process: Process) -> None:
        if process.is_alive:
            process.fault = "restart"
            process.kill()
            self.start(process.name)

    def drain(self) -> None:
        """An operator drains a node, or ends that."""
        view = self.checks.truth.view
        name = self.chance.choice(sorted(view.ids))
        self.checks.operator.order(Order.UNDRAIN if name in view.drained else Order.DRAIN, name)
        self._over_in(4)

    def stall(self) -> None:
        seconds = self.chance.choice([1.0, 2.5, 4.0, 9.0, 30.0])
        self.pulsar.stall(seconds)
        self._over_in(seconds + 1)

    def restart(self) -> None:
        seconds = self.chance.choice([0.3, 1.0, 5.0, 9.0, 60.0])
        self.pulsar.restart(seconds)
        self._over_in(seconds + 2)

    def move_log(self) -> None:
        self.pulsar.move(self.pulsar.log)
        self._over_in(1.5)

    def move_heartbeats(self) -> None:
        self.pulsar.move(self.pulsar.heartbeats)
        self._over_in(2)

    def trim(self) -> None:
        """For a minute Pulsar keeps nothing of the view log before the last whole view, whoever has not read it."""
        until = self.clock.now + 60

        def delete() -> None:
            self.pulsar.log.first = max(self.checks.truth.whole_at.entry, 0)
            if self.clock.now < until:
                self.clock.after(0.5, delete)

        delete()

    # ---- the run -----------------------------------------------------------------------------------------------------

    def run(self) -> Counts:
        """All of it."""
        spread = self.chance.choice([0.01, 0.5, 2.0])
        for _ in range(self.plan.nodes):
            self.clock.after(self.chance.uniform(0, spread), self.start_new)
        self._settle()
        for _ in range(self.plan.steps):
            faults = self.chance.choice([1, 1, 1, 2, 3])
            self.checks.is_single = faults == 1
            for _ in range(faults):
                what = self.chance.choice(self.plan.only or FAULTS)
                self.say(f"{self.clock.now:8.3f} {what}")
                self.checks.faults += 1
                getattr(self, what)()
                self.clock.run(self.clock.now + self.chance.choice([0.0, 0.0, self.chance.uniform(0, 4)]))
            self._settle()
        self.checks.finish()
        return self.checks.counts

    def _settle(self) -> None:
        self.until = max(self.until, self.clock.now)
        while self.clock.now < self.until + _SETTLE:  # what runs may start more
            self.clock.run(self.until + _SETTLE)
        while any(
            p.is_alive and p.membership.state is MembershipState.STARTING for p in self.checks.processes.values()
        ):
            self.clock.run(self.clock.now + 1)  # until it is refused
            if self.clock.now > self.until + 60:
                break
        if trouble := self.checks.settled():
            self.checks.fail(f"I5: {trouble}")


FAULTS = (
    "kill", "kill_controller", "crash", "freeze", "freeze_controller", "cut", "cut_controller", "mute", "reset",
    "slow_reader", "many", "all_at_once", "leave", "leave_controller", "join", "same_name", "same_id", "stall",
    "restart", "move_log", "move_heartbeats", "remove", "remove_controller", "drain", "retire",
)  # fmt: skip


def simulate(plan: Plan, say: Callable[[str], None] | None = None) -> Counts:
    """Run it; a `Violation` says what does not hold."""
    return Run(plan, say).run()
