"""Users and permissions over the model Pulsar: nodes that change the same keys agree, and what was acknowledged counts.

Compaction is no part of the model: tests/access/security_store has it on a real Pulsar.
"""

import asyncio

from bridge.access.security_store.security_log import CHANGE_SECONDS, TOPIC, SecurityUnavailable
from tests.access.security_store.nodes import SecurityNode, gone, node, user
from tests.schedules import faults
from tests.schedules.broker import ModelAdmin
from tests.schedules.explorer import schedules
from tests.schedules.site import Site
from tests.schedules.world import NAMESPACE, World
from tests.support.state import among_data

_PAUSES = 5.0
"""What the event loop's pauses may add."""
_LOG = among_data(NAMESPACE).state_topic(TOPIC)


def site_of(world: World) -> Site:
    settings = world.settings().pulsar
    return Site(NAMESPACE, settings, ModelAdmin(settings, world.broker), [])


async def close(site: Site, *nodes: SecurityNode) -> None:
    for one in nodes:
        await one.log.close()
    for client in site.clients:
        await client.close()
    await site.admin.close()


class Administrator:
    """Changes one user through one node, one change after another."""

    def __init__(self, world: World, through: SecurityNode, name: str, *, is_alone: bool = True) -> None:
        self.possible: set[str | None] = {None}
        """What the user's password may be now, as far as answers tell."""
        self._world, self._node, self._name = world, through, name
        self._is_alone = is_alone

    async def change(self, times: int) -> None:
        for _ in range(times):
            await self._world.sleep(0, 1.0)
            word = self._world.chance.choice(("a", "b", "c", None))
            asked = self._world.now
            try:
                await self._node.log.append([gone(self._name) if word is None else user(self._name, word)])
                self.possible = {word}
            except SecurityUnavailable:
                self.possible.add(word)
            late = self._world.now - asked - CHANGE_SECONDS
            assert late <= _PAUSES, f"a change is answered {late:.2f} s late"
            self.check(self._node, "read by the node that answered")

    def check(self, at: SecurityNode, when: str) -> None:
        found = at.users.get(self._name)
        assert found in self.possible or not self._is_alone, (
            f"{self._name} is {found!r}, possible is {self.possible}: {when}"
        )


@schedules(25)
async def test_what_was_acknowledged_counts_on_all_nodes_whatever_befalls_pulsar(world: World) -> None:
    site = site_of(world)
    nodes = [await node(site) for _ in range(2)]
    administrators = [Administrator(world, each, f"u{number}") for number, each in enumerate(nodes)]
    shared = [Administrator(world, each, "both", is_alone=False) for each in nodes]
    hurting = asyncio.ensure_future(faults.some(world, _LOG))
    await asyncio.gather(*(one.change(12) for one in administrators), *(one.change(12) for one in shared))
    await hurting
    await faults.heal(world)
    nodes.append(await world.within(60, node(site), "a node that starts later"))
    for each in nodes:
        await world.within(60, each.log.catch_up(), "a node that catches up")
        for one in administrators:
            one.check(each, "when all is well")
    assert nodes[0].users == nodes[1].users == nodes[2].users
    await close(site, *nodes)


@schedules(15)
async def test_without_pulsar_users_are_known_and_changes_fail_in_time(world: World) -> None:
    site = site_of(world)
    one, two = await node(site), await node(site)
    await one.log.append([user("alice", "a")])
    await two.log.catch_up()
    world.broker.freeze()
    changing = [asyncio.ensure_future(each.log.append([user("bob", "b")])) for each in (one, two)]
    await world.sleep(CHANGE_SECONDS + 0.5)
    for change in changing:
        assert isinstance(change.exception(), SecurityUnavailable)
    assert one.users["alice"] == two.users["alice"] == "a"
    assert one.metrics.changes["failed"].value == 1
    world.broker.crash(world.chance.choice((0.1, 30.0)))
    await faults.heal(world)
    for each in (one, two):
        await each.log.catch_up()
    assert one.users == two.users
    await close(site, one, two)


@schedules(25)
async def test_a_change_is_on_the_other_nodes_within_a_second(world: World) -> None:
    site = site_of(world)
    one, two = await node(site), await node(site)
    for word in ("a", "b", "c"):
        await one.log.append([user("alice", word)])
        await world.sleep(1.0)
        assert two.users == {"alice": word}
    await close(site, one, two)
