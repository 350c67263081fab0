"""A right counts for the topic that is asked for, by whatever it is named, and however often its group is."""

import itertools
import uuid
from typing import Any, cast

from bridge.access.security_store.store import SecurityStore
from bridge.apis import metadata, offset_commit, offset_fetch
from bridge.kafka.error_codes import ErrorCode
from bridge.relay.questions import decoded
from bridge.requests.api import Api
from bridge.requests.authorization import AclAuthorization, Checks
from bridge.requests.session import Session
from bridge.security.acls import AccessControlEntry, Operation, PatternType, Permission, ResourceType
from bridge.security.authorizer import Authorizer
from bridge.telemetry.metrics import SecurityMetrics
from tests.schedules.explorer import schedules
from tests.schedules.world import Bridge, World

TOPICS = ("mine", "secret")
GROUP = "g"


class Entries:
    """All may describe the topic `mine` and the group, and nothing else."""

    authorizer = Authorizer(
        AccessControlEntry(kind, name, PatternType.LITERAL, "User:*", "*", Operation.DESCRIBE, Permission.ALLOW)
        for kind, name in ((ResourceType.TOPIC, "mine"), (ResourceType.GROUP, GROUP))
    )


async def asked(bridge: Bridge, api: Api, request: Any, version: int, *, elsewhere: bool = False) -> Any:
    """What a client is told that may do no more; `elsewhere`: another node behind the same address answers."""
    session = Session(1, "/10.0.0.9:1", "PLAINTEXT", api_version=version)
    authorization = AclAuthorization(cast(SecurityStore, Entries()), SecurityMetrics())
    assert api.rights.check is not None

    async def rest(body: Any) -> Any:
        answer = await api.handle(body, bridge.handlers, session)
        return decoded(api, memoryview(b"".join(api.encode(answer, version))), version) if elsewhere else answer

    return await api.rights.check(request, Checks(authorization, bridge.handlers, session, api), rest)


@schedules(2)
async def test_a_topic_asked_for_by_its_id_is_the_one_that_has_it_whatever_name_is_beside(world: World) -> None:
    bridge = await world.started()
    ids = {name: (await bridge.topics.create(name, 1)).id for name in TOPICS}
    told = {}
    for beside in (None, "", *TOPICS, "none"):
        for name in TOPICS:
            wanted = metadata.RequestTopic(topic_id=ids[name], name=beside)
            answer = await asked(bridge, metadata.API, metadata.Request(topics=[wanted]), metadata.BY_ID)
            told[beside, name] = [(one.error_code, one.name, one.topic_id) for one in answer.topics]
    for (beside, name), topics in told.items():
        denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, ids[name]
        assert topics == [(0, "mine", ids["mine"]) if name == "mine" else denied], beside


async def committed(bridge: Bridge) -> dict[str, uuid.UUID]:
    """The ids of both topics, of which the group has committed offsets."""
    ids = {name: (await bridge.topics.create(name, 1)).id for name in TOPICS}
    of_partition = [offset_commit.RequestPartition(partition_index=0, committed_offset=5)]
    commit = offset_commit.Request(
        group_id=GROUP, topics=[offset_commit.RequestTopic(name=name, partitions=of_partition) for name in TOPICS]
    )
    stored: Any = await offset_commit.handle(commit, bridge.handlers, Session(2, "/10.0.0.9:1", "PLAINTEXT"))
    assert not any((await stored.future).values())
    return ids


@schedules(2)
async def test_who_asks_for_all_topics_of_a_group_is_told_of_those_that_it_may_describe(world: World) -> None:
    bridge = await world.started(groups=True)
    ids = await committed(bridge)
    for version, elsewhere in itertools.product((8, offset_commit.BY_ID), (False, True)):
        request = offset_fetch.Request(groups=[offset_fetch.RequestGroup(group_id=GROUP, topics=None)])
        answer = await asked(bridge, offset_fetch.API, request, version, elsewhere=elsewhere)
        told = [one.topic_id if version >= offset_commit.BY_ID else one.name for one in answer.groups[0].topics]
        assert told == [ids["mine"] if version >= offset_commit.BY_ID else "mine"], (version, elsewhere)


@schedules(2)
async def test_a_group_named_twice_shows_no_topic_that_the_client_may_not_describe(world: World) -> None:
    bridge = await world.started(groups=True)
    await committed(bridge)
    of_all = offset_fetch.RequestGroup(group_id=GROUP, topics=None)
    of_secret = offset_fetch.RequestGroup(
        group_id=GROUP, topics=[offset_fetch.Topic(name="secret", partition_indexes=[0])]
    )
    of_none = offset_fetch.RequestGroup(group_id=GROUP, topics=[])
    for groups in ([of_all], [of_all, of_secret], [of_secret, of_all], [of_all, of_none]):
        answer = await asked(bridge, offset_fetch.API, offset_fetch.Request(groups=list(groups)), 8)
        told = [
            [(topic.name, one.committed_offset, one.error_code) for topic in group.topics for one in topic.partitions]
            for group in answer.groups
        ]
        denied = ("secret", -1, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        assert told == [
            [("mine", 5, 0)] if group is of_all else [denied] if group is of_secret else [] for group in groups
        ]
