"""A right that is taken away counts for the next request: permutes the change, Produce and Fetches that wait.

Kafka looks at a Fetch when it comes (`KafkaApis.handleFetchRequest`), and a Fetch that waits is answered as if nothing
had changed. So does the bridge.
"""

import asyncio
from dataclasses import replace
from typing import cast

from bridge.access.security_store.store import SecurityStore
from bridge.kafka.error_codes import ErrorCode
from bridge.requests.authorization import AclAuthorization
from bridge.security.acls import AccessControlEntry, Operation, PatternType, Permission, ResourceType
from bridge.security.authorizer import Authorizer
from bridge.telemetry.metrics import SecurityMetrics
from tests.schedules.explorer import schedules
from tests.schedules.kafka import NOW_MS, Client, Fetched, batch
from tests.schedules.world import Bridge, World

MAX_WAIT = 60.0
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


class Entries:
    """Who may read and write `t`, until it is taken away."""

    def __init__(self) -> None:
        self.authorizer = Authorizer([self._may(Operation.READ), self._may(Operation.WRITE)])

    def take_away(self) -> None:
        """From now on clients may only write."""
        self.authorizer = Authorizer([self._may(Operation.WRITE)])

    @staticmethod
    def _may(operation: Operation) -> AccessControlEntry:
        topic = ResourceType.TOPIC
        return AccessControlEntry(topic, "t", PatternType.LITERAL, "User:*", "*", operation, Permission.ALLOW)


async def deciding(world: World) -> tuple[Bridge, Entries]:
    """A node that asks these entries, and a topic."""
    bridge, entries = await world.started(), Entries()
    authorization = AclAuthorization(cast(SecurityStore, entries), SecurityMetrics())
    bridge.handlers = replace(bridge.handlers, authorization=authorization)
    await bridge.topics.create("t", 1)
    return bridge, entries


@schedules(100)
async def test_a_fetch_that_waits_is_answered_and_the_next_is_refused(world: World) -> None:
    bridge, entries = await deciding(world)
    reader, other, writer = (Client(world, bridge, name) for name in ("reader", "other", "writer"))
    waiting = asyncio.ensure_future(reader.fetch("t", 0, max_wait=MAX_WAIT))
    await world.sleep(5, 5)
    assert not waiting.done()
    entries.take_away()
    late: asyncio.Future[Fetched] = asyncio.ensure_future(other.fetch("t", 0, max_wait=MAX_WAIT))
    await world.sleep(0, world.chance.choice((0.0, 0.01, 0.3)))
    asked = world.now
    produced = await writer.produce("t", batch([b"secret"], [NOW_MS]))
    assert produced.error == 0
    first, second, third = await asyncio.gather(waiting, late, reader.fetch("t", 0, max_wait=MAX_WAIT))
    assert (first.error, [record.value for record in first.records]) == (0, [b"secret"])
    for refused in (second, third):
        assert (refused.error, refused.records) == (DENIED, [])
    assert third.at < asked + MAX_WAIT / 2, "a refusal does not wait"


@schedules(30)
async def test_who_may_not_read_waits_for_nothing(world: World) -> None:
    bridge, entries = await deciding(world)
    entries.take_away()
    asked = world.now
    found = await Client(world, bridge).fetch("t", 0, max_wait=MAX_WAIT)
    assert (found.error, found.records) == (DENIED, [])
    assert world.now < asked + 1
