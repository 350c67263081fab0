"""Nodes of a cluster for scenarios: real members, each a process of its own, and what befalls them."""

import asyncio
import itertools
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import replace

from bridge.cluster import Cluster
from bridge.cluster.cluster import ClusterSnapshot
from bridge.cluster.member import ClusterMember, config_for, new_incarnation
from bridge.cluster.membership.effects import Serving
from bridge.cluster.membership.view import ClusterView, Endpoint, NodeRegistration
from bridge.cluster.topics import HEARTBEATS, VIEW_LOG, ClusterTopics
from bridge.config import ClusterSettings
from bridge.pulsar import PulsarClient
from bridge.telemetry.metrics import ClusterMetrics, PulsarMetrics
from tests.schedules.broker import ModelAdmin
from tests.schedules.loop import PROCESS
from tests.schedules.world import NAMESPACE, World
from tests.support.state import among_data

SLOTS, GROUPS = 16, 4
STATE = among_data(NAMESPACE)
LOG, BEATS = STATE.state_topic(VIEW_LOG), STATE.state_topic(HEARTBEATS)
_numbers = itertools.count(1)


class Member:
    """One life of a node; what runs in it runs as a process of its own."""

    listeners: tuple[str, ...] = ("PLAINTEXT",)
    level = 1

    def __init__(self, world: World, name: str) -> None:
        self.name, self.process = name, f"{name}/{next(_numbers)}"
        self.cluster = Cluster("c")
        self.is_alive = True
        self.is_well = True
        """Nothing has befallen it that takes it out of the view."""
        self._world = world
        self._context = copy_context()
        self._context.run(PROCESS.set, self.process)
        self._member = self._context.run(self._make)

    def _make(self) -> ClusterMember:
        settings = self._world.settings().pulsar
        config = config_for(ClusterSettings(slots=SLOTS), GROUPS)
        return ClusterMember(
            self.cluster,
            NodeRegistration(
                self.name,
                new_incarnation(),
                endpoints=tuple(Endpoint(listener, self.name, 9092) for listener in self.listeners),
                level=self.level,
            ),
            replace(config, chance=self._world.chance.random()),
            PulsarClient(settings, PulsarMetrics()),
            ClusterTopics(ModelAdmin(settings, self._world.broker), STATE),
            ClusterMetrics(),
        )

    def _run(self, what: Callable[[], object]) -> "asyncio.Task[None]":
        return asyncio.get_running_loop().create_task(what(), context=self._context)  # type: ignore[arg-type]

    async def start(self) -> None:
        """Become a member."""
        await self._world.within(60, self._run(self._member.start), f"{self.name} becomes a member")

    async def leave(self) -> None:
        """SIGTERM."""
        self.is_alive = False
        await self._world.within(30, self._run(self._member.leave), f"{self.name} gives away what it leads")
        await self._world.within(30, self._run(self._member.close), f"{self.name} leaves")

    async def kill(self) -> None:
        """SIGKILL: its connections are gone, and it says nothing."""
        self._world.trace(self.name, "! killed")
        self.is_alive = False
        self._world.network.go_on(self.process)
        for endpoint in self._world.network.of(self.process):
            connection = self._world.broker.connections.get(endpoint.number)
            endpoint.reset()
            if connection is not None:
                connection.lost()
        await self._run(self._member.abort)

    async def freeze(self, seconds: float) -> None:
        """SIGSTOP and SIGCONT."""
        self._world.trace(self.name, "! stopped for %.1f s", seconds)
        self.is_well = False
        self._world.network.stop(self.process)
        await asyncio.sleep(seconds)
        self._world.trace(self.name, "= goes on")
        self._world.network.go_on(self.process)

    async def cut_off(self, seconds: float) -> None:
        """Its network is gone for a while."""
        self._world.trace(self.name, "! cut off for %.1f s", seconds)
        self.is_well = False
        self._world.network.cut(self.process)
        await asyncio.sleep(seconds)
        self._world.trace(self.name, "= has its network back")
        self._world.network.join(self.process)


class Members:
    """All of them, and what must hold of what they are told."""

    def __init__(self, world: World) -> None:
        self.all: list[Member] = []
        self._world = world
        self._views: dict[tuple[int, str], ClusterView] = {}
        self._seen: dict[str, ClusterView] = {}

    def new(self, name: str) -> Member:
        """One more, not yet started."""
        member = self._make(name)
        member.cluster.on_change.append(lambda before, after: self._check(member, before, after))
        self.all.append(member)
        return member

    def _make(self, name: str) -> Member:
        return Member(self._world, name)

    async def start(self, count: int) -> None:
        """So many, at moments of their own."""

        async def one(number: int) -> None:
            await self._world.sleep(0, 2)
            await self.new(f"n{number}").start()

        await asyncio.gather(*(one(number) for number in range(count)))

    @property
    def alive(self) -> list[Member]:
        return [member for member in self.all if member.is_alive]

    def _check(self, member: Member, before: ClusterSnapshot, after: ClusterSnapshot) -> None:
        view, last = member.cluster.view, self._seen.get(member.process)
        self._seen[member.process] = view
        self._world.trace(member.name, "= view %d of %s, %s", view.version, sorted(view.ids), member.cluster.serving)
        known = self._views.setdefault((view.version, self._sender_of(view)), view)
        assert known == view, f"{member.name} has another view {view.version} than others"
        if last is None or not last.owners:
            return
        assert view.version >= last.version, f"{member.name}: version {view.version} after {last.version}"
        for slot, owner in enumerate(last.owners):
            epoch = view.epochs[slot]
            assert epoch >= last.epochs[slot], f"{member.name}: epoch {epoch} of slot {slot} after {last.epochs[slot]}"
            changed = view.owners[slot] != owner
            assert not changed or epoch > last.epochs[slot], f"{member.name}: slot {slot} has a new owner and no epoch"

    @staticmethod
    def _sender_of(view: ClusterView) -> str:
        return str(view.leader.sender) if view.leader else ""

    def trouble(self) -> str:
        """What is not yet as it must be when all is well; empty: nothing."""
        names = sorted(member.name for member in self.alive)
        for member in self.alive:
            cluster = member.cluster
            here = sorted(one.name for one in cluster.view.members.values())
            if here != names:
                return f"{member.name} knows {here} as members, alive are {names}"
            if cluster.view != self.alive[0].cluster.view:
                return f"{member.name} has view {cluster.view.version}"
            if cluster.serving is not Serving.SERVE:
                return f"{member.name} does not serve"
            led = len(cluster.snapshot.led_by(cluster.node_id))
            if not SLOTS // len(names) <= led <= SLOTS // len(names) + 1:
                return f"{member.name} leads {led} slots"
        return ""

    async def agree(self, seconds: float) -> None:
        """Within so many seconds all is as it must be."""
        until = self._world.now + seconds
        while trouble := self.trouble():
            assert self._world.now < until, f"after {seconds:g} s: {trouble}"
            await asyncio.sleep(0.1)

    async def end(self) -> None:
        """All are killed."""
        for member in self.alive:
            await member.kill()
