"""What an operator may order: the view that a tool proposes, by the rule that all views go by.

A tool reads the view log, appends the record, and reads it back: if another view came first, the record is void, and
the tool asks again with the view that came. No controller has to act on it: one that hangs can be removed, too.

* Remove: the node is out at once, as if it had died, and this life of it is not admitted again. A restart brings it
  back.
* Drain: the node leads nothing from then on, whatever weight it tells; its slots move in steps. It stays a member, and
  stays drained over restarts, until it is no longer wanted so. It leads again when no other node is left.
"""

from dataclasses import replace
from enum import StrEnum

from bridge.cluster.membership.planning import NextMembers, next_view, weights
from bridge.cluster.membership.records import ViewRecord
from bridge.cluster.membership.view import NO_NODE, ClusterView, NodeState, Sender
from bridge.cluster.membership.view_log import view_record
from bridge.errors import BridgeError


class Order(StrEnum):
    """What an operator wants done with a node."""

    REMOVE = "remove"
    DRAIN = "drain"
    UNDRAIN = "undrain"


class OrderRefused(BridgeError):
    """An operator's order that cannot be carried out, or has been already."""


def ordered(view: ClusterView, sender: Sender, order: Order, name: str) -> ViewRecord:
    """The record to append; `OrderRefused` says why there is none."""
    if name not in view.ids.keys() | view.drained:
        raise OrderRefused(f"there is no node {name!r}")
    after = _removed(view, name) if order is Order.REMOVE else _drained(view, name, order is Order.DRAIN)
    return view_record(sender, view, next_view(after, 0)[0], f"{order}: {name}, by an operator")


def _removed(view: ClusterView, name: str) -> ClusterView:
    version = view.version + 1
    members = NextMembers(view)
    member = members.named(name)
    if member is None:
        raise OrderRefused(f"{name!r} is not a member")
    members.remove(member.id)
    if not any(other.state is NodeState.UP for other in members.members.values()):
        raise OrderRefused(f"{name!r} is the only node")
    members.removed[name] = member.incarnation
    controller = view.controller if view.controller != member.id else _successor(members)
    return members.made(version, controller)


def _drained(view: ClusterView, name: str, on: bool) -> ClusterView:
    if (name in view.drained) == on:
        raise OrderRefused(f"{name!r} is{'' if on else ' not'} drained")
    drained = view.drained | {name} if on else view.drained - {name}
    after = replace(view, version=view.version + 1, drained=drained)
    member = view.member(name)
    if on and member and weights(after)[member.id]:
        raise OrderRefused(f"no other node could lead what {name!r} leads")
    return after


def _successor(members: NextMembers) -> int:
    """The member that has been here longest; if it has died, the others succeed it in their order."""
    up = [member for member in members.members.values() if member.state is NodeState.UP]
    return min(up, key=lambda member: (member.since, member.id)).id if up else NO_NODE
