"""The next view: who gets which id, and what changes hands."""

from dataclasses import replace

from bridge.cluster.membership.slots import needed_moves, rebalance
from bridge.cluster.membership.view import NO_NODE, ClusterView, NodeRegistration, NodeState, member_named, names_away


def weights(view: ClusterView) -> dict[int, int]:
    """What part of the slots each member is to have; that of drained ones if no others are left."""
    up = {id_: member.weight if member.state is NodeState.UP else 0 for id_, member in view.members.items()}
    wanted = {id_: 0 if view.members[id_].name in view.drained else weight for id_, weight in up.items()}
    return wanted if any(wanted.values()) else up


def is_balanced(view: ClusterView) -> bool:
    """Whether every member has its share."""
    wanted = weights(view)
    return not needed_moves(view.owners, wanted) and not needed_moves(view.groups, wanted)


def next_view(view: ClusterView, most_moves: float) -> tuple[ClusterView, int]:
    """`view` with the owners that fit to its members: it names the next version, but still has the former owners.

    Also how many slots move away from nodes that are still there, which are at most so many.
    """
    wanted = weights(view)
    owners = rebalance(view.owners, wanted, most_moves)
    epochs, moved = list(view.epochs), 0
    for slot, (before, after) in enumerate(zip(view.owners, owners, strict=True)):
        if before != after:
            epochs[slot] = view.version
            moved += before in wanted
    level = min((member.level for member in view.members.values()), default=view.level)
    groups = rebalance(view.groups, wanted)
    return replace(view, owners=owners, epochs=tuple(epochs), groups=groups, level=level), moved


class NextMembers:
    """The members and ids of the next view, while it is made up."""

    def __init__(self, view: ClusterView) -> None:
        self.view = view
        self.members = dict(view.members)
        self.ids = dict(view.ids)
        self.removed = dict(view.removed)

    @property
    def is_changed(self) -> bool:
        """Whether there is anything new."""
        return self.members != self.view.members or self.ids != self.view.ids

    def made(self, version: int, controller: int) -> ClusterView:
        """The view with these members, and the former owners."""
        return replace(
            self.view,
            version=version,
            controller=controller,
            members=self.members,
            ids=self.ids,
            away=names_away(self.view, self.members, self.ids, version),
            removed=self.removed,
        )

    def named(self, name: str) -> NodeRegistration | None:
        """The member of this name."""
        return member_named(self.members, self.ids, name)

    def remove(self, id_: int) -> None:
        """It is no longer a member; its name keeps its id."""
        self.members.pop(id_, None)

    def put(self, node: NodeRegistration, version: int) -> int | None:
        """Admit or change a member; None: another member has the id that it asks for."""
        known = self.named(node.name)
        id_ = self._id_of(node)
        if id_ is None:
            return None
        if known is not None and known.id != id_:
            del self.members[known.id]
        is_same = known is not None and known.incarnation == node.incarnation
        since = known.since if known is not None and is_same else version
        self.members[id_] = replace(node, id=id_, since=since)
        self.removed.pop(node.name, None)
        if self.ids.get(node.name) != id_:
            self.ids = {name: other for name, other in self.ids.items() if other != id_}
            self.ids[node.name] = id_
        return id_

    def drop_ids(self, most: int) -> None:
        """Forget the ids of the names that have been away for longest, when more than so many are away.

        A quarter more than needed: views that forget are written as a whole. Ids that own slots stay: no node was left
        to take them.
        """
        here = {member.name for member in self.members.values()}
        if len(self.ids) - len(here) <= most:
            return
        view = self.view
        owners = {*view.owners, *view.groups}
        away = [name for name, id_ in self.ids.items() if name not in here and id_ not in owners]
        away.sort(key=lambda name: view.away.get(name, view.version))
        for name in away[: len(self.ids) - len(here) - most + most // 4]:
            del self.ids[name]

    def _id_of(self, node: NodeRegistration) -> int | None:
        wanted = node.id if node.id != NO_NODE else self.ids.get(node.name, NO_NODE)
        holder = self.members.get(wanted)
        if wanted != NO_NODE and (holder is None or holder.name == node.name):
            return wanted
        if node.id != NO_NODE:
            return None
        taken = {*self.ids.values(), *self.members}
        return next(id_ for id_ in range(len(taken) + 1) if id_ not in taken)
