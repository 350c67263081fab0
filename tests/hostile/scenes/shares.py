"""Abuse of share groups and streams groups: sessions, ranges and members beyond their bounds, made-up epochs."""

from __future__ import annotations

import secrets
import uuid
from collections import Counter
from collections.abc import Iterator

from bridge.apis import (
    create_topics,
    produce,
    share_acknowledge,
    share_fetch,
    share_group_heartbeat,
    streams_group_heartbeat,
)
from bridge.codec import Rebuild, Record, build_batch
from bridge.groups.share.coordinator import MOST_SHARE_MEMBERS
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import with_defaults
from bridge.kafka.produce_wire import Request as Produced
from bridge.kafka.produce_wire import RequestPartition, RequestTopic
from bridge.kafka.share_messages import AcknowledgementBatch
from bridge.kafka.streams_messages import TopicInfo
from bridge.shares.sessions import MOST_SESSIONS
from bridge.shares.state import ACCEPT
from tests.apis.configs import configure_group
from tests.apis.wire import Connection
from tests.hostile.scene import Seen, Target, again, few

_WINDOW = 4000
"""Records that are not done: share.partition.max.record.locks at its largest."""
_RANGES, _SESSIONS, _SUBTOPOLOGIES = 100_000, 3000, 10_000


class _Topic:
    """One partition."""

    def __init__(self, connection: Connection, records: int) -> None:
        self.name = f"shared-{secrets.token_hex(3)}"
        wanted = create_topics.RequestTopic(
            name=self.name, num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        (made,) = connection.ask(create_topics.API, create_topics.Request(topics=[wanted])).topics
        self.id: uuid.UUID = made.topic_id
        if records:
            made = build_batch([Record(n, 0, None, b"v", ()) for n in range(records)], Rebuild(0, records, 0, own=True))
            partition = with_defaults(RequestPartition, index=0, records=bytes(made))
            topics = [with_defaults(RequestTopic, name=self.name, partition_data=[partition])]
            connection.ask(produce.API, with_defaults(Produced, acks=-1, timeout_ms=5000, topic_data=topics), 7)


def _fetch(topic: _Topic, group: str, member: str, epoch: int) -> share_fetch.Request:
    part = share_fetch.FetchPartition(partition_index=0, acknowledgement_batches=[])
    return share_fetch.Request(
        group_id=group, member_id=member, share_session_epoch=epoch, max_wait_ms=100, min_bytes=1,
        max_records=_WINDOW, batch_size=_WINDOW, forgotten_topics_data=[],
        topics=[share_fetch.FetchTopic(topic_id=topic.id, partitions=[part])],
    )  # fmt: skip


def _heartbeat(topic: _Topic, group: str, member: str, epoch: int = 0) -> share_group_heartbeat.Request:
    names = [topic.name] if not epoch else None
    return share_group_heartbeat.Request(
        group_id=group, member_id=member, member_epoch=epoch, subscribed_topic_names=names
    )


def ranges(target: Target) -> Seen:
    """Groups that accept every other record of all that they may have, and keep the rest."""
    wanted, seen = few(target, _RANGES, 2 * _WINDOW) // _WINDOW, Counter[str]()
    with Connection(target.plaintext) as connection:
        topic = _Topic(connection, _WINDOW)
        for _ in range(wanted):
            seen[_fragment(target, connection, topic)] += 1
    told = ", ".join(f"{count:,} groups {what}" for what, count in sorted(seen.items()))
    return Seen(told, seen.keys() == {f"with {_WINDOW:,} ranges"})


def _fragment(target: Target, connection: Connection, topic: _Topic) -> str:
    group = f"fragments-{secrets.token_hex(3)}"
    configs = {"share.auto.offset.reset": "earliest", "share.partition.max.record.locks": str(_WINDOW)}
    configure_group(target.plaintext, group, configs)
    if connection.ask(share_group_heartbeat.API, _heartbeat(topic, group, "m")).error_code:
        return "refused"
    for epoch in range(30):  # its leader learns first that its state counts
        answer = connection.ask(share_fetch.API, _fetch(topic, group, "m", epoch), 1)
        had = [one for topic in answer.responses for part in topic.partitions for one in part.acquired_records]
        if had:
            break
    said = [AcknowledgementBatch(first_offset=at, last_offset=at, acknowledge_types=[ACCEPT])
            for at in range(1, _WINDOW, 2)]  # fmt: skip
    part = share_acknowledge.AcknowledgePartition(partition_index=0, acknowledgement_batches=said)
    request = share_acknowledge.Request(
        group_id=group, member_id="m", share_session_epoch=epoch + 1,
        topics=[share_acknowledge.AcknowledgeTopic(topic_id=topic.id, partitions=[part])],
    )  # fmt: skip
    answer = connection.ask(share_acknowledge.API, request, 1)
    code = answer.error_code or answer.responses[0].partitions[0].error_code
    return f"told {ErrorCode(code).name}" if code else f"with {_WINDOW:,} ranges"


def sessions(target: Target) -> Seen:
    """More sessions than a node has, each of a member that no group knows."""
    wanted, codes = few(target, _SESSIONS, MOST_SESSIONS + 10), Counter[int]()
    with Connection(target.plaintext) as connection:
        topic = _Topic(connection, 0)
        for number in range(wanted):
            request = _fetch(topic, "sessions", f"m{number}", 0)
            request.max_wait_ms = 0
            codes[connection.ask(share_fetch.API, request, 1).error_code] += 1
    opened, refused = codes[ErrorCode.NONE], codes[ErrorCode.SHARE_SESSION_LIMIT_REACHED]
    return Seen(f"{opened:,} opened, {refused:,} refused", (opened, refused) == (MOST_SESSIONS, wanted - MOST_SESSIONS))


def members_and_epochs(target: Target) -> Seen:
    """Members beyond those that a group may have, and epochs that nobody has been given."""
    codes, strange = Counter[int](), Counter[int]()
    group = f"full-{secrets.token_hex(3)}"
    with Connection(target.plaintext) as connection:
        topic = _Topic(connection, 0)
        for number in range(MOST_SHARE_MEMBERS + 20):
            codes[connection.ask(share_group_heartbeat.API, _heartbeat(topic, group, f"m{number}")).error_code] += 1
        for number in again(target):
            for epoch in (-3, -2, 2**31 - 1, number + 1000):
                beat = _heartbeat(topic, group, "m0", epoch)
                strange[connection.ask(share_group_heartbeat.API, beat).error_code] += 1
                strange[connection.ask(share_fetch.API, _fetch(topic, group, "m0", epoch), 1).error_code] += 1
    refused = {ErrorCode.INVALID_REQUEST, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.SHARE_SESSION_NOT_FOUND}
    told = ", ".join(f"{count:,} error {code}" for code, count in sorted(strange.items()))
    is_full = codes == {ErrorCode.NONE: MOST_SHARE_MEMBERS, ErrorCode.GROUP_MAX_SIZE_REACHED: 20}
    return Seen(f"{codes[0]:,} members; {told}", is_full and strange.keys() <= refused)


def topologies(target: Target) -> Seen:
    """Applications of 10,000 subtopologies, each with a source that is not there and a changelog, or all with one."""
    codes = Counter[int]()
    count = few(target, _SUBTOPOLOGIES, 500)
    with Connection(target.plaintext) as connection:
        topic = _Topic(connection, 0)
        for _ in again(target):
            for request in _applications(topic, count):
                codes[connection.ask(streams_group_heartbeat.API, request).error_code] += 1
    told = ", ".join(f"{number:,} error {code}" for code, number in sorted(codes.items()))
    taken = {ErrorCode.NONE, ErrorCode.INVALID_REQUEST, ErrorCode.STREAMS_INVALID_TOPOLOGY}
    return Seen(told, codes.keys() <= taken)


def _applications(topic: _Topic, count: int) -> Iterator[streams_group_heartbeat.Request]:
    api = streams_group_heartbeat
    for is_there in (False, True):  # no changelog where it could be made
        subtopologies = [
            with_defaults(
                api.Subtopology, subtopology_id=str(number),
                source_topics=[topic.name if is_there else f"none-{number}"],
                state_changelog_topics=[] if is_there else [with_defaults(TopicInfo, name=f"log-{number}")],
            )
            for number in range(count)
        ]  # fmt: skip
        topology = with_defaults(api.Topology, epoch=0, subtopologies=subtopologies)
        yield with_defaults(
            api.Request, group_id=f"app-{secrets.token_hex(3)}", member_id=secrets.token_hex(8), member_epoch=0,
            rebalance_timeout_ms=60_000, topology=topology, process_id="p", active_tasks=[], standby_tasks=[],
            warmup_tasks=[],
        )  # fmt: skip
