"""A share group (KIP-932) as a state machine: heartbeats, topics and `now` in, answers out.

| state  | means                                                    | leaves it          |
|--------|----------------------------------------------------------|--------------------|
| Empty  | no members; the states of its partitions stay            | a member joins     |
| Stable | members; each takes its part of the target by a heartbeat | the last one goes |

Rules (Kafka's GroupMetadataManager.shareGroupHeartbeat, ShareGroup and ShareGroupAssignmentBuilder):

1. A member chooses its id and joins with epoch 0, also a known one.
2. What raises the group epoch is as in a consumer group, and the next heartbeat computes the target for all members;
   not twice within the assignment interval. Until then a member has its part of the last target, and is told to come
   again when the interval is over. A member that loses a partition may drop what it has fetched of it, and nobody gets
   that until its locks end: many members that join together are one change.
3. Nobody waits for anybody: a member has its part of the target, and its epoch, with its next heartbeat.
4. Any other epoch than the member's fences it, but for the one before: the answer with the new one may have been lost.
"""

from dataclasses import replace

from bridge.groups.consumer.model import JOINING, NOTHING, ConsumerMember, GroupSnapshot, View
from bridge.groups.epochs.group import HeartbeatAnswer, MemberHeartbeat, SubscribedGroup, assigned, raised
from bridge.groups.share.assignor import simple


class ShareGroup(SubscribedGroup):
    """One share group."""

    kind = "share"

    def heartbeat(self, request: MemberHeartbeat, view: View | None, now: float) -> HeartbeatAnswer:
        """A heartbeat's answer, to be given when `snapshot` is stored; KafkaError at once. `view`: None as before."""
        if request.leaves:
            self._remove([self._member(request.member_id).id])
            return HeartbeatAnswer(request.member_id, request.epoch)
        before = self.snapshot
        self._check_room(request.member_id)
        member = self._known(request)
        updated = _updated(member, request)
        following = replace(before, members={**before.members, updated.id: updated})
        following = self._assigned(raised(following, member, view), now)
        target = following.targets.get(updated.id, NOTHING)
        if updated.epoch != following.assignment_epoch:
            updated = replace(updated, previous_epoch=updated.epoch, epoch=following.assignment_epoch, assigned=target)
            following = replace(following, members={**following.members, updated.id: updated})
        if following.epoch != before.epoch or before.members.get(updated.id) != updated:
            self.snapshot = following
        self._heard_of(updated.id, now)
        # one that names the epoch before has not got its last answer
        news = request.epoch != member.epoch or request.topics is not None or updated.assigned != member.assigned
        wait = 0.0 if following.epoch == following.assignment_epoch else self._next_target_at - now
        return HeartbeatAnswer(updated.id, updated.epoch, updated.assigned if news else None, wait)

    def _assigned(self, following: GroupSnapshot, now: float) -> GroupSnapshot:
        if now < self._next_target_at or following.epoch == following.assignment_epoch:
            return following
        self._assigned_at = now
        return assigned(following, simple)

    def _known(self, request: MemberHeartbeat) -> ConsumerMember:
        """The member that the request is of, as it was; a new one where it joins."""
        if request.epoch == JOINING:
            return self.snapshot.members.get(request.member_id) or ConsumerMember(request.member_id)
        member = self._member(request.member_id)
        if request.epoch not in (member.epoch, member.previous_epoch):
            more = f", and it does not match the previous member epoch ({member.previous_epoch})"
            raise self._fenced(member, request.epoch, more if request.epoch < member.epoch else "")
        return member


def _updated(member: ConsumerMember, request: MemberHeartbeat) -> ConsumerMember:
    return replace(
        member,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        topics=member.topics if request.topics is None else request.topics,
        client_id=request.client_id,
        client_host=request.client_host,
    )
