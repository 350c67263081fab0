"""What permissions add to a Produce and a Fetch, in microseconds: `python -m bench.rights`."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

from bridge.access.security_store.store import SecurityStore
from bridge.apis import fetch, produce
from bridge.fetch.partitions import denied_topics
from bridge.kafka import fetch_wire
from bridge.kafka.message import with_defaults
from bridge.requests.api import Broker
from bridge.requests.authorization import AclAuthorization, checks_of
from bridge.requests.rights import are_checked
from bridge.requests.session import Session
from bridge.security.acls import Operation, PatternType, Permission, ResourceType, valid_entry
from bridge.security.authorizer import Authorizer
from bridge.security.principal import user
from bridge.telemetry.metrics import SecurityMetrics

TOPICS = (1, 10)
_ROUNDS, _CALLS = 20, 2000
_OTHERS = 1000
"""Entries that are about other topics."""


def _authorization() -> AclAuthorization:
    names = [f"topic-{number}" for number in range(max(TOPICS))] + [f"other-{number}" for number in range(_OTHERS)]
    entries = [
        valid_entry(ResourceType.TOPIC, name, PatternType.LITERAL, "User:alice", "*", operation, Permission.ALLOW)
        for name in names
        for operation in (Operation.READ, Operation.WRITE)
    ]
    store = SimpleNamespace(authorizer=Authorizer(entries))
    return AclAuthorization(cast(SecurityStore, store), SecurityMetrics())


def _of_produce(topics: int, broker: Broker, session: Session) -> Callable[[], Awaitable[Any]]:
    names = [f"topic-{number}" for number in range(topics)]

    async def look() -> None:
        are_checked(produce.API, broker)
        checks = checks_of(broker, session)
        if checks is not None:
            await produce.denied_topics(checks, names)

    return look


def _of_fetch(topics: int, broker: Broker, session: Session) -> Callable[[], Awaitable[Any]]:
    wanted = [with_defaults(fetch_wire.RequestTopic, topic=f"topic-{number}") for number in range(topics)]
    request = with_defaults(fetch_wire.Request, replica_id=-1, topics=wanted)

    async def look() -> None:
        are_checked(fetch.API, broker)
        await denied_topics(request, broker, session, by_id=False)

    return look


async def _microseconds(look: Callable[[], Awaitable[Any]]) -> float:
    """The best of some rounds: what disturbs only adds."""
    best = float("inf")
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        for _ in range(_CALLS):
            await look()
        best = min(best, time.perf_counter() - began)
    return best / _CALLS * 1e6


async def main() -> None:
    """Print a table."""
    session = Session(id=1, peer="10.0.0.1:4711", listener="CLIENT", principal=user("alice"))
    for authorization in (None, _authorization()):
        broker = cast(Broker, SimpleNamespace(authorization=authorization))
        for name, make in (("Produce", _of_produce), ("Fetch", _of_fetch)):
            for topics in TOPICS:
                took = await _microseconds(make(topics, broker, session))
                print(f"{'kafka' if authorization else 'none':6} {name:8} {topics:3} topics {took:6.2f} µs", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
