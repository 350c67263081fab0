"""A view as JSON for operators: the page /cluster."""

from collections import Counter

from bridge.cluster.membership.view import ClusterView


def describe(view: ClusterView) -> dict[str, object]:
    """The view's members with what they lead."""
    led, groups = Counter(view.owners), Counter(view.groups)
    return {
        "version": view.version,
        "controller": view.controller,
        "slots": len(view.owners),
        "group_slots": len(view.groups),
        "members": [
            {
                "id": id_,
                "name": node.name,
                "state": node.state,
                "endpoints": [f"{listener}://{host}:{port}" for listener, host, port in node.endpoints],
                "rack": node.rack,
                "weight": node.weight,
                "slots_led": led[id_],
                "group_slots_held": groups[id_],
                "since": node.since,
                "software": node.software,
            }
            for id_, node in sorted(view.members.items())
        ],
    }
