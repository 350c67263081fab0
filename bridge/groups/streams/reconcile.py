"""Brings one member of a streams group nearer to its target assignment (Kafka's CurrentAssignmentBuilder)."""

from collections.abc import Iterable

from bridge.groups.streams.model import StreamsMember, Tasks


def reconcile(
    member: StreamsMember,
    target: Tasks,
    target_epoch: int,
    others: Iterable[StreamsMember],
    owned: Tasks | None,
) -> StreamsMember:
    """The member's next state; the same object if it stays where it is.

    `others`: all other members of the group, of any process. `owned`: what the member says it has, None: unsaid.
    The tasks to give to the member are `assigned` of the answer, those to be given back are `revoking`.
    """
    raise NotImplementedError
