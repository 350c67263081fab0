"""Whether a topic of some name may be created, judged and refused as by Kafka's ReplicationControlManager."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.admin import Conflict
from bridge.storage import names

if TYPE_CHECKING:
    from bridge.storage.topics import Topics

_FEW_MARKS = 3


async def check_new(name: str, topics: "Topics") -> None:
    """Raise the KafkaError with which a new topic of this name is refused, if it is."""
    names.check(name)
    if names.PARTITION_MARK in name:
        text = f"Pulsar creates no topic with {names.PARTITION_MARK} in its name: its partitions are called so"
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, text)
    if name in names.INTERNAL:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
    if await topics.exists(name):
        raise _exists(name)
    other = await _colliding(name, topics)
    if other is not None:
        text = f"Topic '{name}' collides with existing topic: {other}"
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, text)


@contextmanager
def taken(name: str) -> Iterator[None]:
    """Somebody else may be quicker."""
    try:
        yield
    except Conflict as error:
        raise _exists(name) from error


async def _colliding(name: str, topics: "Topics") -> str | None:
    """A topic whose name differs from this one in nothing but dots and underscores."""
    marks = name.count(".") + name.count("_")
    if marks <= _FEW_MARKS:  # most names: asking for each is quicker than listing all there are
        others = list(names.colliding(name))
        found = await asyncio.gather(*map(topics.exists, others))
        return next((other for other, exists in zip(others, found, strict=True) if exists), None)
    return next((other for other in await topics.names() if names.collides(name, other)), None)


def _exists(name: str) -> KafkaError:
    return KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
