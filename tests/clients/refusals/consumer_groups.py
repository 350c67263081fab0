"""Groups of the new consumer protocol (KIP-848)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from bridge.apis import consumer_group_describe, consumer_group_heartbeat
from tests.clients.refusals.case import Case

PIN: list[str] = []
NOWHERE = UUID(int=12345)


def beat(group: str, member: str = "m", epoch: int = 0, **fields: Any) -> Any:
    """A ConsumerGroupHeartbeat; of a member that joins, if not said otherwise."""
    joining = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    values = {**(joining if epoch == 0 else {}), **fields}
    return consumer_group_heartbeat.Request(group_id=group, member_id=member, member_epoch=epoch, **values)


def owns(topic_id: UUID, *partitions: int) -> dict[str, Any]:
    """What a member says to own."""
    return {
        "topic_partitions": [consumer_group_heartbeat.TopicPartitions(topic_id=topic_id, partitions=list(partitions))]
    }


def describe(*groups: str) -> Any:
    """A ConsumerGroupDescribe."""
    return consumer_group_describe.Request(group_ids=list(groups), include_authorized_operations=False)


BEAT, DESCRIBE = consumer_group_heartbeat.API, consumer_group_describe.API

CASES = [
    Case("no group", BEAT, lambda w: beat(""), PIN),
    Case("group of blanks", BEAT, lambda w: beat("  "), PIN),
    Case("no member", BEAT, lambda w: beat("g", ""), PIN),
    Case("no member, v0, not joining", BEAT, lambda w: beat("g", "", 1), PIN, version=0),
    Case("empty instance", BEAT, lambda w: beat("g", instance_id=""), PIN),
    Case("empty rack", BEAT, lambda w: beat("g", rack_id=""), PIN),
    Case("no rebalance timeout", BEAT, lambda w: beat("g", rebalance_timeout_ms=-1), PIN),
    Case("owns something while joining", BEAT, lambda w: beat("g", **owns(NOWHERE, 0)), PIN),
    Case("does not say what it owns while joining", BEAT, lambda w: beat("g", topic_partitions=None), PIN),
    Case("subscribes to nothing", BEAT, lambda w: beat("g", subscribed_topic_names=None), PIN),
    Case("subscribes to nothing, v0", BEAT, lambda w: beat("g", subscribed_topic_names=None), PIN, version=0),
    Case("leaves as static without an instance", BEAT, lambda w: beat("g", epoch=-2), PIN),
    Case("epoch -3", BEAT, lambda w: beat("g", epoch=-3), PIN),
    Case("unknown assignor", BEAT, lambda w: beat("g", server_assignor="elsewhere"), PIN),
    Case("bad pattern", BEAT, lambda w: beat("g", subscribed_topic_names=None, subscribed_topic_regex="("), PIN),
    Case("unknown group", BEAT, lambda w: beat(w.missing, epoch=5), PIN),
    Case("unknown group, leaving", BEAT, lambda w: beat(w.missing, epoch=-1), PIN),
    Case("unknown member", BEAT, lambda w: beat(w.consumers, "nobody", 5), PIN),
    Case("unknown member, leaving", BEAT, lambda w: beat(w.consumers, "nobody", -1), PIN),
    Case("epoch of the future", BEAT, lambda w: beat(w.consumers, w.consumer, 99), PIN),
    Case("unknown static member", BEAT, lambda w: beat(w.consumers, "nobody", 5, instance_id="unheard-of"), PIN),
    Case("classic group with members", BEAT, lambda w: beat(w.group), PIN),
    Case("classic group, not joining", BEAT, lambda w: beat(w.group, "nobody", 5), PIN),
    #
    Case("no group", DESCRIBE, lambda w: describe(""), PIN),
    Case("unknown group", DESCRIBE, lambda w: describe(w.missing), PIN),
    Case("classic group", DESCRIBE, lambda w: describe(w.group), PIN),
    Case("named twice", DESCRIBE, lambda w: describe(w.missing, w.missing), PIN),
]  # fmt: skip
