"""The table: which rights each API needs, and the guard that sees to it."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from bridge.guards import of_cluster, of_groups, of_topics
from bridge.guards.guard import Guard
from bridge.requests.api import Api, Broker, Session
from bridge.requests.authorization import EVERYTHING, Checks, checks_of

GUARDS: Final[Mapping[int, Guard]] = of_topics.GUARDS | of_groups.GUARDS | of_cluster.GUARDS
"""By the APIs' keys."""


def has_guard(api: Api, broker: Broker) -> bool:
    """Whether requests of the API go through a guard."""
    if broker.authorization is None:
        guard = GUARDS.get(api.key)
        return guard is not None and guard.run is not None and guard.tells_operations is not None
    return GUARDS[api.key].run is not None  # an API that the table lacks is refused


async def guarded(
    api: Api, request: Any, broker: Broker, session: Session, handle: Callable[[Any], Awaitable[Any]]
) -> Any:
    """The result of the API's handler, behind its guard if there is one."""
    checks = checks_of(broker, session)
    guard = GUARDS[api.key]
    if checks is None and guard.tells_operations is not None and guard.tells_operations(request):
        checks = Checks(EVERYTHING, broker, session)
    if checks is None or guard.run is None:
        return await handle(request)
    return await guard.run(request, checks, handle)
