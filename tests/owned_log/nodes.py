"""Processes that own slots of one log, on a Pulsar that is real or not."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from bridge.config import PulsarSettings
from bridge.owned_log import OwnedLog, OwnedLogError, Record, SlotUnavailable
from bridge.pulsar import Admin, PulsarClient
from bridge.telemetry.metrics import GroupMetrics
from tests.owned_log.following import Following
from tests.schedules.site import Site
from tests.support.waiting import until

COMPACT_AFTER: Final = 1000


@dataclass
class State:
    """An `OwnedState` that keeps values and notes what it is told."""

    values: dict[int, dict[str, bytes]] = field(default_factory=dict)
    replayed: int = 0
    taken: list[int] = field(default_factory=list)
    losses: list[int] = field(default_factory=list)

    def reset(self, slot: int) -> None:
        self.values[slot] = {}

    def apply(self, slot: int, key: str, value: bytes | None, *, replaying: bool) -> None:
        self.replayed += replaying
        if value is None:
            self.values[slot].pop(key, None)
        else:
            self.values[slot][key] = value

    def live_records(self, slot: int) -> int:
        return len(self.values[slot])

    def owned(self, slot: int) -> None:
        self.taken.append(slot)

    def lost(self, slot: int) -> None:
        assert not self.values[slot]
        self.losses.append(slot)


@dataclass
class LogNode:
    """One process."""

    client: PulsarClient
    log: OwnedLog
    state: State
    metrics: GroupMetrics

    async def put(self, name: str, value: bytes | None) -> None:
        await self.log.write(self.log.slot_of(name), [Record(name, value)])

    def get(self, name: str) -> bytes | None:
        return self.state.values[self.log.slot_of(name)].get(name)

    def owns(self, slot: int = 0) -> bool:
        try:
            self.log.check(slot)
        except OwnedLogError:
            return False
        return True

    async def vanish(self) -> None:
        """As a killed process: its sockets are gone, nothing was said or stored before."""
        for slot in self.log.slots:
            if slot._runner is not None:
                slot._runner.cancel()
        await self.client._pool.close()


@dataclass
class LogSite(Site):
    """A Pulsar, and what is to be closed there in the end, before its clients."""

    logs: list[OwnedLog] = field(default_factory=list)
    followings: list[Following] = field(default_factory=list)


LogScript = Callable[[LogSite], Awaitable[None]]


@asynccontextmanager
async def site(namespace: str, settings: PulsarSettings, admin: Admin) -> AsyncIterator[LogSite]:
    """A Pulsar for one script."""
    found = LogSite(namespace, settings, admin, [])
    await admin.start()
    try:
        yield found
    finally:
        for following in found.followings:
            await following.follower.close()
        for log in found.logs:
            await log.close()
        for client in found.clients:
            await client.close()
        await admin.close()


async def start(
    site: LogSite, topic: str, slots: int = 1, compact_after: int = COMPACT_AFTER, *, assigned: bool = True
) -> LogNode:
    """A process that takes all slots, also from another, unless it is assigned none; it may not own them yet."""
    client, metrics, state = await site.client(), GroupMetrics(), State()
    log = OwnedLog(
        client, site.admin, topic, state, slots=slots, owner=f"node-{secrets.token_hex(3)}",
        compact_after=compact_after, max_pending_bytes=16 << 20, metrics=metrics,
    )  # fmt: skip
    await log.start()
    if assigned:
        log.assign(range(len(log.slots)), orphaned=range(len(log.slots)))
    site.logs.append(log)
    return LogNode(client, log, state, metrics)


async def owner(site: LogSite, topic: str, slots: int = 1, compact_after: int = COMPACT_AFTER) -> LogNode:
    """A process that owns all slots, though it may have to throw out another one that lives and comes back."""
    node = await start(site, topic, slots, compact_after)
    await until(lambda: all(node.owns(slot) for slot in range(len(node.log.slots))))
    return node


async def follow(site: LogSite, partition: str) -> Following:
    """A process that follows a slot; it may not have loaded it yet."""
    following = Following(partition, await site.client(), site.admin)
    site.followings.append(following)
    return following


async def confirmed(following: Following, seconds: float = 100.0) -> None:
    """Have the follower confirm, again where it cannot say in time."""
    async with asyncio.timeout(seconds):
        while True:
            with suppress(SlotUnavailable):
                return await following.follower.confirm()
            await asyncio.sleep(0.05)
