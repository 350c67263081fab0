"""Internal topics of a streams group are made on the right of the member that asks for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from bridge.apis import streams_group_heartbeat
from bridge.groups.streams.topology import StatusCode
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.streams_messages import TopicInfo
from bridge.security.acls import Operation, ResourceType
from tests.apis.wire import unique
from tests.authorization.login import LoggedIn
from tests.authorization.rights import LITERAL, SUPER, Entry, Right
from tests.authorization.servers import bridge
from tests.authorization.world import World, topology
from tests.clients.model import attempts
from tests.support.pulsar import PulsarAddress

USER = "streams"


@pytest.fixture(scope="module")
def address(pulsar: PulsarAddress) -> Iterator[str]:
    with bridge(pulsar, [Right(SUPER), Right(USER)]) as running:
        yield running


def test_a_member_that_may_not_create_topics_is_told_so_until_it_may(address: str) -> None:
    group, source = unique("streams"), unique("source")
    log = f"{group}-changelog"
    told = topology(0, source)
    told.subtopologies[0].state_changelog_topics = [
        TopicInfo(name=log, partitions=0, replication_factor=1, topic_configs=[])
    ]

    def entry(kind: ResourceType, operation: Operation, name: str) -> Entry:
        return Entry(kind, operation, name=name, pattern=LITERAL)

    with closing(LoggedIn(address, SUPER)) as admin, closing(LoggedIn(address, USER)) as member:
        world = World(admin)
        world.create(source, source)
        topics = [entry(ResourceType.TOPIC, Operation.DESCRIBE, name) for name in (source, log)]
        world.grant([Right(USER, [entry(ResourceType.GROUP, Operation.READ, group), *topics])])

        def beat(epoch: int) -> Any:
            fields: dict[str, Any] = {"endpoint_information_epoch": 0}
            if not epoch:
                fields |= {"rebalance_timeout_ms": 1000, "process_id": "p", "topology": told}
                fields |= {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
            request = streams_group_heartbeat.Request(group_id=group, member_id="m", member_epoch=epoch, **fields)
            return member.ask(streams_group_heartbeat.API, request)

        for _ in attempts("rights"):
            answer = beat(0)
            if answer.error_code == ErrorCode.NONE:
                break
        for _ in range(2):
            (status,) = [one for one in answer.status if one.status_code == StatusCode.MISSING_INTERNAL_TOPICS]
            assert status.status_detail.endswith(f"; Unauthorized to CREATE on topics {log}.")
            answer = beat(answer.member_epoch)
        world.grant([Right(USER, [entry(ResourceType.TOPIC, Operation.CREATE, log)])])
        for _ in attempts("the topic"):
            if answer.active_tasks:
                break
            answer = beat(answer.member_epoch)
        assert [one.partitions for one in answer.active_tasks] == [[0]]
