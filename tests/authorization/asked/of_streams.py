"""Streams groups and their members."""

from __future__ import annotations

from typing import Any

from bridge.apis import streams_group_describe, streams_group_heartbeat
from tests.authorization.asked.row import Row
from tests.authorization.world import GROUPS, MISSING, STREAMS, TOPICS, World, topology

NO_GROUPS = ("mine-no-group", "other-no-group")
BEAT, DESCRIBE = streams_group_heartbeat.API, streams_group_describe.API


def _beat(group: str) -> Any:
    """Of a member that the group does not have, so that nothing changes."""
    return streams_group_heartbeat.Request(
        group_id=group, member_id="unknown", member_epoch=5, endpoint_information_epoch=0
    )


def _join(*topics: str) -> Any:
    """With another topology than the group's, so that nothing changes."""
    return streams_group_heartbeat.Request(
        group_id=STREAMS[0], member_id="new", member_epoch=0, endpoint_information_epoch=0, rebalance_timeout_ms=1000,
        process_id="p", topology=topology(9, *topics), active_tasks=[], standby_tasks=[], warmup_tasks=[],
    )  # fmt: skip


def _describe(world: World) -> Any:
    return streams_group_describe.Request(group_ids=[*STREAMS, *NO_GROUPS, *GROUPS], include_authorized_operations=True)


ROWS = [
    Row(BEAT, "unknown member", lambda w: _beat(STREAMS[0])),
    Row(BEAT, "unknown group", lambda w: _beat(NO_GROUPS[0])),
    Row(BEAT, "a topic that it may see", lambda w: _join(TOPICS[0])),
    Row(BEAT, "one that it may not see", lambda w: _join(*TOPICS)),
    Row(BEAT, "topics that are not there", lambda w: _join(*MISSING)),
    Row(DESCRIBE, "with operations", _describe),
]
