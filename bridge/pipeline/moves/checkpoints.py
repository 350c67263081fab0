"""How far a copy has come: checkpoints, which are committed at its target as the offsets of a group.

A checkpoint of a target partition says that its records before an offset are the source's before another one. What is
behind it was written later. If this copy was killed, that is the beginning of the chunk it was at, whose end the
checkpoint has, too.
"""

import json
from typing import NamedTuple

from bridge.pipeline.endpoint import Committed
from bridge.pipeline.errors import DataLoss, Usage
from bridge.pipeline.plan import Bounds
from bridge.pipeline.ranges import Partition


class Checkpoint(NamedTuple):
    """The target's records before `target` are the source's before `source`; the chunk begun there ends at `until`."""

    target: int
    source: int
    until: int


def group_of(cluster: str | None) -> str:
    """The group in which a target keeps the checkpoints of what comes of a cluster."""
    return f"bridge-pipeline.{cluster or 'unknown'}"


def committed_of(source: Partition, checkpoint: Checkpoint) -> Committed:
    """A checkpoint as a group commits it, for the target's partition of the same number."""
    told = {"topic": source.topic, "offset": checkpoint.source, "until": checkpoint.until}
    return Committed(checkpoint.target, json.dumps(told))


def checkpoint_of(source: Partition, committed: Committed | None) -> Checkpoint | None:
    """The checkpoint that was committed; None where there is none of this source."""
    if committed is None:
        return None
    try:
        told = json.loads(committed.metadata)
        topic, offset, until = told["topic"], int(told["offset"]), int(told["until"])
    except (ValueError, TypeError, KeyError):
        return None
    return Checkpoint(committed.offset, offset, until) if topic == source.topic else None


def from_here(
    target: Partition, held: Bounds, first: Checkpoint, own: Checkpoint | None, back: Checkpoint | None
) -> Checkpoint | None:
    """From where on both logs are to be compared; None for a target that has never had a record.

    `own` is of this copy, `back` of one in the other direction: a copy there is a way home from where it ended. The
    later one counts. With neither, logs are compared from `first` on, their beginnings. DataLoss or Usage where the
    target does not have what is behind that place any more.
    """
    if held.latest == 0:  # whatever was committed for another topic of that name
        return None
    turned = None if back is None else Checkpoint(back.source, back.target, first.until)
    place = max((each for each in (own, turned) if each is not None), default=None)
    if place is None:
        if held.earliest > first.target:
            raise Usage(f"{target} has lost its first records, and no checkpoint tells where to go on")
        return first
    if held.latest < place.target:
        raise DataLoss(f"{target} was written up to {place.target} and ends at {held.latest} now: is it another topic?")
    if held.latest > place.target < held.earliest:
        raise DataLoss(f"{target} was written up to {place.target} and begins at {held.earliest} now")
    return place
