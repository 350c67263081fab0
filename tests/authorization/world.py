"""The topics, groups and transactional ids that the requests are about, and the names that they have in the answers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from uuid import UUID

from bridge.apis import (
    consumer_group_heartbeat,
    create_acls,
    create_topics,
    describe_cluster,
    find_coordinator,
    init_producer_id,
    metadata,
    offset_commit,
    produce,
    share_group_heartbeat,
    streams_group_heartbeat,
)
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.schema import ZERO_UUID
from bridge.requests.api import Api
from tests.authorization.login import LoggedIn
from tests.authorization.rights import Right
from tests.clients.model import attempts
from tests.clients.refusals import batches, consumer_groups, groups, offsets, records, topics
from tests.clients.refusals.transactions import begin

TOPICS = ("mine-topic", "other-topic")
MISSING = ("mine-none", "other-none")
GROUPS = ("mine-group", "other-group")
"""With offsets of both topics, and without members."""
CONSUMERS = ("mine-consumers", "other-consumers")
"""Each with a member of the new protocol."""
SHARES = ("mine-shares", "other-shares")
"""Share groups that have read both topics, and have no members."""
STREAMS = ("mine-streams", "other-streams")
"""Streams groups that read both topics, and have no members."""
TRANSACTIONAL_IDS = ("mine-txn", "other-txn")
USER = "mine-user"
NOWHERE = UUID(int=12345)
_FRESH = re.compile(r"-\d+$")
_ENTRIES_OF_A_REQUEST = 200


def topology(epoch: int, *sources: str) -> streams_group_heartbeat.Topology:
    """One of these topics, each read on its own."""
    parts = [
        streams_group_heartbeat.Subtopology(
            subtopology_id=f"{number}", source_topics=[name], source_topic_regex=[], state_changelog_topics=[],
            repartition_sink_topics=[], repartition_source_topics=[], copartition_groups=[],
        )
        for number, name in enumerate(sources)
    ]  # fmt: skip
    return streams_group_heartbeat.Topology(epoch=epoch, subtopologies=parts)


@dataclass(slots=True)
class World:
    """A server with an authorizer, as its super user sees it."""

    admin: LoggedIn
    node: int = -1
    ids: dict[str, UUID] = field(default_factory=dict)
    fresh: dict[str, str] = field(default_factory=dict)
    """Names that only the request of now is about, and what they are called in its answer."""
    victims: dict[str, str] = field(default_factory=dict)
    """What there is to be deleted, by what it is called."""
    _numbers: Any = field(default_factory=count)

    def ask(self, api: Api, request: Any, version: int | None = None) -> Any:
        """What the super user is told."""
        return self.admin.ask(api, request, version)

    def new(self, name: str) -> str:
        """A name that was never there."""
        made = f"{name}-{next(self._numbers)}"
        self.fresh[made] = name
        return made

    def called(self, name: str) -> str | None:
        """What a name is called in the answers; None for one that they leave out."""
        if name in self.fresh:
            return self.fresh[name]
        if name == str(self.node):
            return "broker"
        return name if name.startswith(("mine-", "other-", "kafka-")) and not _FRESH.search(name) else None

    def called_by_id(self, topic_id: UUID) -> str:
        """What a topic's id is called."""
        return next((name for name, one in self.ids.items() if one == topic_id), "?")

    def topic_to_delete(self, name: str) -> str:
        """A topic that is there, and that the request of now may delete."""
        if name not in self.victims:
            self.victims[name] = f"{name}-{next(self._numbers)}"
            self.create(self.victims[name], name)
        self.fresh[self.victims[name]] = name
        return self.victims[name]

    def group_to_delete(self, name: str) -> str:
        """A group that is there, and that the request of now may delete."""
        if name not in self.victims:
            self.victims[name] = f"{name}-{next(self._numbers)}"
            self._commit(self.victims[name])
        self.fresh[self.victims[name]] = name
        return self.victims[name]

    def deleted(self, name: str) -> None:
        """It is there no longer."""
        self.victims.pop(name, None)

    def set_up(self) -> None:
        """Make what the requests are about."""
        cluster = self.ask(describe_cluster.API, describe_cluster.Request(include_cluster_authorized_operations=False))
        self.node = cluster.brokers[0].broker_id
        for name in TOPICS:
            self.create(name, name)
        for kind in (0, 1):
            self._find_coordinator(kind)
        for name in GROUPS:
            self._commit(name)
        for name in CONSUMERS:
            self._join(name)
        for name in SHARES:
            self._share(name)
        for name in STREAMS:
            self._stream(name)
        for name in TRANSACTIONAL_IDS:
            self._begin(name)

    def grant(self, rights: Sequence[Right]) -> None:
        """Create the entries of all rights; the caller waits until the last one counts."""
        wanted = [
            create_acls.Creation(
                resource_type=entry.type, resource_name=entry.name, resource_pattern_type=entry.pattern,
                principal=f"User:{right.name}", host=entry.host, operation=entry.operation,
                permission_type=entry.permission,
            )
            for right in rights
            for entry in right.entries
        ]  # fmt: skip
        for first in range(0, len(wanted), _ENTRIES_OF_A_REQUEST):
            part = wanted[first : first + _ENTRIES_OF_A_REQUEST]
            results = self.ask(create_acls.API, create_acls.Request(creations=part)).results
            assert not [one for one in results if one.error_code]

    def create(self, name: str, called: str) -> None:
        """A topic with one record, which has the value v."""
        (made,) = self.ask(create_topics.API, topics.create(name)).topics
        assert made.error_code == 0, made.error_message
        self.ids[called] = made.topic_id
        for _ in attempts("a leader"):
            answer = self.ask(produce.API, records.write(name, batches.plain()))
            (one,) = answer.responses[0].partition_responses
            if one.error_code == ErrorCode.NONE:
                return
            assert ErrorCode(one.error_code).retriable, one

    def _find_coordinator(self, kind: int) -> None:
        """Kafka sets coordinators up when they are first asked for."""
        for _ in attempts("a coordinator"):
            answer = self.ask(find_coordinator.API, groups.find(GROUPS[0], kind=kind))
            if answer.coordinators[0].error_code == ErrorCode.NONE:
                return

    def _commit(self, group: str) -> None:
        request = offsets.commit(group, TOPICS[0])
        request.topics += offsets.commit(group, TOPICS[1]).topics
        for _ in attempts("a group's coordinator"):
            answer = self.ask(offset_commit.API, request, 9)
            codes = {one.error_code for topic in answer.topics for one in topic.partitions}
            if codes == {ErrorCode.NONE}:
                return
            assert all(not code or ErrorCode(code).retriable for code in codes), codes

    def _join(self, group: str) -> None:
        request = consumer_groups.beat(group, f"member-of-{group}", subscribed_topic_names=list(TOPICS))
        for _ in attempts("a group of the new protocol"):
            answer = self.ask(consumer_group_heartbeat.API, request)
            if answer.error_code == ErrorCode.NONE:
                return
            assert ErrorCode(answer.error_code).retriable, answer

    def _share(self, group: str) -> None:
        epoch = 0
        for _ in attempts("a share group"):
            request = share_group_heartbeat.Request(
                group_id=group, member_id="m", member_epoch=epoch, subscribed_topic_names=list(TOPICS)
            )
            answer = self.ask(share_group_heartbeat.API, request)
            assert answer.error_code == ErrorCode.NONE or ErrorCode(answer.error_code).retriable, answer
            epoch = answer.member_epoch
            # Kafka assigns partitions some time later, when it has made their states
            if answer.assignment is not None and len(answer.assignment.topic_partitions) == len(TOPICS):
                leave = share_group_heartbeat.Request(group_id=group, member_id="m", member_epoch=-1)
                assert self.ask(share_group_heartbeat.API, leave).error_code == ErrorCode.NONE
                return

    def _stream(self, group: str) -> None:
        for _ in attempts("a streams group"):
            request = streams_group_heartbeat.Request(
                group_id=group, member_id="m", member_epoch=0, endpoint_information_epoch=0, rebalance_timeout_ms=1000,
                process_id="p", topology=topology(1, *TOPICS), active_tasks=[], standby_tasks=[], warmup_tasks=[],
            )  # fmt: skip
            answer = self.ask(streams_group_heartbeat.API, request)
            assert answer.error_code == ErrorCode.NONE or ErrorCode(answer.error_code).retriable, answer
            if answer.error_code == ErrorCode.NONE:
                leave = streams_group_heartbeat.Request(
                    group_id=group, member_id="m", member_epoch=-1, endpoint_information_epoch=0
                )
                assert self.ask(streams_group_heartbeat.API, leave).error_code == ErrorCode.NONE
                return

    def _begin(self, transactional_id: str) -> None:
        for _ in attempts("a coordinator of transactions"):
            answer = self.ask(init_producer_id.API, begin(transactional_id), 5)
            # the bridge has no transactions
            if answer.error_code in (ErrorCode.NONE, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED):
                return
            assert ErrorCode(answer.error_code).retriable, answer


def may_see(client: LoggedIn, topic: str) -> bool:
    """Whether a client is told of a topic."""
    answer = client.ask(metadata.API, topics.ask_for(topic))
    return bool(answer.topics[0].topic_id != ZERO_UUID)
