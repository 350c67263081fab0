"""The roles that clients act for in Pulsar, each with connections of its own while it is asked about."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from bridge.pulsar.role_probe import RoleProbe
from bridge.runtime.futures import loop_time
from bridge.telemetry.metrics import PermissionMetrics

MAX_ROLES: Final = 256
"""With open connections. Of more, those that were not asked about for longest are closed."""
IDLE_SECONDS: Final = 120.0
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Role:
    """A principal as Pulsar knows it: by its own token, or by the word of the bridge's proxy role."""

    name: str
    token: str | None = field(default=None, repr=False)


class _Open:
    __slots__ = ("probe", "used_at", "users")

    def __init__(self, probe: RoleProbe) -> None:
        self.probe = probe
        self.users = 0
        self.used_at = 0.0


class Roles:
    """`use` while a role is asked about; `start`, then `close`."""

    def __init__(self, make: Callable[[Role], RoleProbe], metrics: PermissionMetrics, most: int = MAX_ROLES) -> None:
        self._metrics = metrics
        self._make = make
        self._most = most
        self._open: OrderedDict[Role, _Open] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._open)

    async def ask(self, role: Role, question: Callable[[RoleProbe], Awaitable[_T]]) -> _T:
        """What the question says, over the role's connections."""
        found = self._open.get(role)
        if found is None:
            found = self._open[role] = _Open(self._make(role))
            self._metrics.roles.inc()
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._close_idle)
        self._open.move_to_end(role)
        found.users += 1
        try:
            self._make_room()
            return await question(found.probe)
        finally:
            found.users -= 1
            found.used_at = loop_time()

    async def close(self) -> None:
        """Close all connections."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for role in list(self._open):
            self._close(role)
        await asyncio.gather(*self._closing)

    def _make_room(self) -> None:
        for role in list(self._open)[: max(0, len(self._open) - self._most)]:
            if not self._open[role].users:
                self._close(role)

    def _close_idle(self) -> None:
        now = loop_time()
        for role, one in list(self._open.items()):
            if not one.users and now - one.used_at >= IDLE_SECONDS:
                self._close(role)
        self._timer = None
        if self._open:
            self._timer = asyncio.get_running_loop().call_later(IDLE_SECONDS / 2, self._close_idle)

    def _close(self, role: Role) -> None:
        self._metrics.roles.dec()
        self._closing.add(task := asyncio.get_running_loop().create_task(self._open.pop(role).probe.close()))
        task.add_done_callback(self._closing.discard)
