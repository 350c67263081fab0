"""Brings one member of a streams group nearer to its target assignment (Kafka's CurrentAssignmentBuilder).

| state      | leaves it                                               | for                                 |
|------------|---------------------------------------------------------|-------------------------------------|
| STABLE     | there is a newer target                                 | the next step                       |
| UNREVOKED  | the member no longer names the tasks it has to give back | the next step, its epoch one higher |
| UNRELEASED | at each heartbeat                                       | the next step                       |

The next step: what is not in the target must be given back first (UNREVOKED, the epoch stays). Then the member gets
what is free, and the target's epoch: UNRELEASED while others have yet to give back the rest, else STABLE.

| a task that is to be | is free when                                                                                |
|----------------------|---------------------------------------------------------------------------------------------|
| active               | no other member has it as active, and none of the same process as standby or warm-up        |
| standby or warm-up   | no other member of the same process has it in any role                                      |

For the members of a process share a state directory, and one of them alone can hold the lock of a task's state. What a
member still has to give back is its own.
"""

from collections.abc import Iterable
from dataclasses import replace

from bridge.groups.consumer.model import MemberState
from bridge.groups.streams.model import NO_TASKS, StreamsMember, Task, Tasks


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
    if member.reconciled(target_epoch):
        return member
    epoch = member.epoch
    if member.state is MemberState.UNREVOKED:
        if _holds(owned, member.revoking):
            return member
        epoch += 1
    following = _step(member, epoch, target, target_epoch, others, owned)
    # the previous epoch moves along at each step, which is no news by itself
    same = replace(following, previous_epoch=member.previous_epoch) == member
    return member if same else following


def _step(
    member: StreamsMember,
    epoch: int,
    target: Tasks,
    target_epoch: int,
    others: Iterable[StreamsMember],
    owned: Tasks | None,
) -> StreamsMember:
    kept = member.assigned & target
    revoking = member.assigned - kept
    if not revoking.is_empty and _holds(owned, revoking):
        state, assigned = MemberState.UNREVOKED, kept
    else:
        missing, epoch, revoking = target - kept, target_epoch, NO_TASKS
        taken = _taken(member, missing, others)
        state = MemberState.STABLE if taken.is_empty else MemberState.UNRELEASED
        assigned = kept | (missing - taken)
    since = {task: member.since.get(task, member.epoch) for task in (kept | revoking).active}
    return replace(
        member,
        state=state,
        epoch=epoch,
        previous_epoch=member.epoch,
        assigned=assigned,
        revoking=revoking,
        since=dict.fromkeys(assigned.active, target_epoch) | since,
    )


def _holds(owned: Tasks | None, revoking: Tasks) -> bool:
    """Whether the member still has any of these; it must say what it has to be believed that it has not."""
    return owned is None or owned.overlaps(revoking)


def _taken(member: StreamsMember, wanted: Tasks, others: Iterable[StreamsMember]) -> Tasks:
    """Those of the tasks that are not free."""
    if wanted.is_empty:
        return NO_TASKS
    active: set[Task] = set()
    in_process: set[Task] = set()
    for other in others:
        for held in (other.assigned, other.revoking):
            active |= wanted.active & held.active
            if other.process_id == member.process_id:
                in_process |= held.all
    return Tasks(
        frozenset(active | (wanted.active & in_process)), wanted.standby & in_process, wanted.warmup & in_process
    )
