"""Which nodes coordinate which groups."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from tests.support.bridges import BridgeThread
from tests.support.waiting import until

if TYPE_CHECKING:
    from bridge.groups.store.store import GroupStore
    from bridge.owned_log.slot import Slot


def wait_until_shared(*bridges: BridgeThread) -> None:
    """Return when each group slot is owned by one of these nodes, and each node has some; else say how they stand."""

    def are_shared() -> bool:
        owned = [bridge.server.store.owned_slots() for bridge in bridges]
        return all(owned) and sorted(chain(*owned)) == list(range(bridges[0].server.store.slots))

    try:
        bridges[0].call(until(are_shared))
    except TimeoutError:
        raise AssertionError(f"group slots: {[_standing(bridge) for bridge in bridges]}") from None


async def until_owned(store: GroupStore) -> None:
    """Return when it owns the slots that it was assigned. A request waits three seconds, and clients ask again."""
    await until(lambda: all(slot.is_owned for slot in store._log.slots if slot.assigned))


def _standing(bridge: BridgeThread) -> str:
    cluster = bridge.server.cluster
    assert cluster is not None
    given = [slot for slot, owner in enumerate(cluster.view.groups) if owner == cluster.node_id]
    slots = [text for slot in bridge.server.store._log.slots if (text := _state(slot))]
    return f"node {cluster.node_id} {cluster.serving.value} at {cluster.view.version}: given {given}, has {slots}"


def _state(slot: Slot) -> str:
    is_ending = slot._ending is not None and not slot._ending.done()
    if not slot.assigned and not is_ending:
        return ""
    return f"{slot.index} {slot._name}{' (a former holding still ends)' if is_ending else ''}"
