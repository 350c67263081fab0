"""Whether a new topic is allowed, with the errors of Kafka's ReplicationControlManager."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from bridge.config import KafkaSettings
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.admin import AdminError, Conflict
from bridge.runtime.futures import Cached
from bridge.storage import names
from bridge.storage.error_mapping import translated

_MAX_SINGLE_CHECKS = 3
_COUNT_LIFETIME_SECONDS = 10.0
_REFUSALS = {
    406: ErrorCode.INVALID_PARTITIONS,  # maxNumPartitionsPerPartitionedTopic
    412: ErrorCode.POLICY_VIOLATION,  # maxTopicsPerNamespace, a namespace of other clusters
}


class ExistingTopics(Protocol):
    """What a new topic is compared with (`storage.topics.topics.Topics`)."""

    async def exists(self, name: str) -> bool:
        """Whether there is a topic of this name."""

    async def names(self) -> list[str]:
        """The names of all topics."""


async def check_new_topic(name: str, topics: ExistingTopics) -> None:
    """Raise the KafkaError with which a new topic of this name is refused, if it is."""
    names.check(name)
    if names.PARTITION_MARK in name:
        text = f"Pulsar creates no topic with {names.PARTITION_MARK} in its name, which is for partitions"
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, text)
    if name in names.INTERNAL:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
    if await topics.exists(name):
        raise _already_exists(name)
    other = await _colliding(name, topics)
    if other is not None:
        text = f"Topic '{name}' collides with existing topic: {other}"
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, text)


class PartitionLimit:
    """How many partitions there may be: each takes memory of Pulsar, and enough of them take all that it has."""

    def __init__(self, settings: KafkaSettings, ask: Callable[[], Awaitable[int]]) -> None:
        """`ask` returns how many there are."""
        self._settings = settings
        self._ask = ask
        self._there = Cached(self._count, _COUNT_LIFETIME_SECONDS)
        self._since = 0  # new ones since they were counted

    async def check(self, partitions: int, more: int, *, only: bool = False, automatic: bool = False) -> None:
        """Raise KafkaError if a topic may not have so many partitions, `more` of them new.

        INVALID_PARTITIONS above the limit of one topic, POLICY_VIOLATION above that of all. `only`: none is created.
        `automatic`: no administrator has asked for it; the last tenth is left to them.
        """
        most = self._settings.max_partitions_per_topic
        if partitions > most:
            text = f"{partitions} partitions are above kafka.max_partitions_per_topic = {most}"
            raise KafkaError(ErrorCode.INVALID_PARTITIONS, text)
        limit = self._settings.max_partitions
        most = limit - limit // 10 if automatic else limit
        try:
            with translated():
                there = await self._there.get() + self._since
        except KafkaError:
            return  # the login may not count them
        if there + more > most:
            what = "what kafka.max_partitions leaves to automatic creation:" if automatic else "kafka.max_partitions ="
            text = f"{there} partitions and {more} more are above {what} {most}"
            raise KafkaError(ErrorCode.POLICY_VIOLATION, text)
        if not only:
            self._since += more

    async def _count(self) -> int:
        count = await self._ask()
        self._since = 0
        return count


@contextmanager
def translate_refusal(name: str) -> Iterator[None]:
    """Raise TOPIC_ALREADY_EXISTS if another client or node has created the topic at the same time, and what Kafka says
    where Pulsar's limits or policies do not allow it."""
    try:
        yield
    except Conflict as error:
        raise _already_exists(name) from error
    except AdminError as error:
        code = _REFUSALS.get(error.status)
        if code is None:
            raise
        raise KafkaError(code, error.reason) from error


async def _colliding(name: str, topics: ExistingTopics) -> str | None:
    """A topic whose name differs from this one only in dots and underscores."""
    marks = name.count(".") + name.count("_")
    if marks <= _MAX_SINGLE_CHECKS:  # most names: a question for each is quicker than a list of all
        others = list(names.colliding(name))
        found = await asyncio.gather(*map(topics.exists, others))
        return next((other for other, exists in zip(others, found, strict=True) if exists), None)
    return next((other for other in await topics.names() if names.collides(name, other)), None)


def _already_exists(name: str) -> KafkaError:
    return KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
