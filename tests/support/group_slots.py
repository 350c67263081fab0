"""Which nodes coordinate which groups."""

from itertools import chain

from bridge.owned_log.slot import Slot
from tests.support.bridges import BridgeThread
from tests.support.waiting import until


def wait_until_shared(*bridges: BridgeThread) -> None:
    """Return when each group slot is owned by one of these nodes, and each node has some; else say how they stand."""

    def are_shared() -> bool:
        owned = [bridge.server.store.owned_slots() for bridge in bridges]
        return all(owned) and sorted(chain(*owned)) == list(range(bridges[0].server.store.slots))

    try:
        bridges[0].call(until(are_shared))
    except TimeoutError:
        raise AssertionError(f"group slots: {[_standing(bridge) for bridge in bridges]}") from None


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
