"""Abuse of groups and of producers' ids: times below zero, huge names, members that are not there, made-up epochs."""

from __future__ import annotations

import secrets
import struct
from collections import Counter

from bridge.apis import heartbeat, join_group, leave_group, offset_commit, sync_group
from bridge.codec import Rebuild, Record, build_batch
from bridge.kafka.message import with_defaults
from tests.faults.topics import create
from tests.fuzz import wire
from tests.fuzz.inputs import with_checksum
from tests.hostile.clients import frame
from tests.hostile.scene import Seen, Target, again, few

_GROUPS = 100_000


def _join(group: str, member: str = "", session_ms: int = 10_000, metadata: int = 10) -> bytes:
    protocols = [with_defaults(join_group.Protocol, name="range", metadata=bytes(metadata))]
    request = with_defaults(join_group.Request,
        group_id=group, session_timeout_ms=session_ms, rebalance_timeout_ms=1000, member_id=member,
        protocol_type="consumer", protocols=protocols,
    )  # fmt: skip
    return frame(join_group.API, 3, request)


def _ghosts(group: str) -> list[bytes]:
    """Requests of members that no group has."""
    member = {"group_id": group, "generation_id": 7, "member_id": "ghost"}
    partition = with_defaults(offset_commit.RequestPartition, partition_index=0, committed_offset=5)
    topics = [with_defaults(offset_commit.RequestTopic, name="none", partitions=[partition])]
    commit = {"group_id": group, "generation_id_or_member_epoch": 7, "member_id": "ghost", "topics": topics}
    return [
        frame(heartbeat.API, 0, with_defaults(heartbeat.Request, **member)),
        frame(leave_group.API, 0, with_defaults(leave_group.Request, group_id=group, member_id="ghost")),
        frame(sync_group.API, 0, with_defaults(sync_group.Request, **member, assignments=[])),
        frame(offset_commit.API, 2, with_defaults(offset_commit.Request, **commit)),
    ]


def groups(target: Target) -> Seen:
    """Sessions of no length, 30 KB of name, 8 MiB of metadata, ghosts."""
    asked = answered = 0
    for number in again(target):
        group = f"abused-{number % 100}"
        bad = [_join(group, session_ms=ms) for ms in (-1, 0, -(2**31), 2**31 - 1)]
        bad += [_join(group, "ghost"), _join("g" * 30_000, "ghost"), _join(group, "ghost", metadata=8 << 20)]
        for one in (*bad, *_ghosts(group)):
            asked += 1
            answered += wire.ask(target.plaintext, one) is not None
    return Seen(f"{answered:,} of {asked:,} answered", answered == asked)


def many_groups(target: Target) -> Seen:
    """Names of 100,000 groups, each asked for by a member that is not there."""
    count, each, answered = few(target, _GROUPS, 1000), 100, 0
    with wire.connect(target.plaintext, 60) as opened:
        for first in range(0, count, each):
            ghost = {"generation_id": 7, "member_id": "ghost"}
            names = (f"group-{number}" for number in range(first, first + each))
            opened.sendall(
                b"".join(
                    frame(heartbeat.API, 0, with_defaults(heartbeat.Request, group_id=name, **ghost)) for name in names
                )
            )
            answered += sum(wire.receive(opened) is not None for _ in range(each))
    return Seen(f"{answered:,} of {count:,} answered", answered == count)


def producer_ids(target: Target) -> Seen:
    """A gap, an older epoch, a batch again."""
    codes: Counter[tuple[str, int]] = Counter()
    stored: set[int] = set()
    for _ in again(target):
        topic = f"producers-{secrets.token_hex(3)}"
        create(target.plaintext, topic)
        for name, epoch, sequence in (
            ("first", 1, 0), ("again", 1, 0), ("gap", 1, 9), ("older epoch", 0, 1), ("next", 1, 1),
        ):  # fmt: skip
            answer = wire.ask(target.plaintext, wire.produce(topic.encode(), _batch(epoch, sequence)))
            if answer is None:
                codes[name, -2] += 1
                continue
            error, offset = wire.produce_answer(answer)
            codes[name, error] += 1
            stored |= {offset} if not error else set()
    as_kafka = codes.keys() == {("first", 0), ("again", 0), ("gap", 45), ("older epoch", 47), ("next", 0)}
    told = ", ".join(f"{name}: {code}" for name, code in sorted(codes))
    return Seen(f"{told}; offsets {sorted(stored)}", as_kafka and stored == {0, 1})


def _batch(epoch: int, sequence: int) -> bytes:
    records = [Record(0, 1_700_000_000_000, b"k", b"v", [])]
    made = bytearray(build_batch(records, Rebuild(0, 1, 0, own=True)))
    made[43:57] = struct.pack(">qhi", 4711, epoch, sequence)
    return with_checksum(made)
