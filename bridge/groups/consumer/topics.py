"""What the topics that a consumer group subscribes to are like now."""

import asyncio
from collections.abc import Collection, Sequence
from typing import Final, Protocol
from uuid import UUID

from bridge.errors import KafkaError
from bridge.futures import gathered
from bridge.groups.budget import PATTERN_BYTES
from bridge.groups.consumer.model import TopicFacts, View
from bridge.groups.consumer.patterns import Patterns
from bridge.kafka.error_codes import ErrorCode

_NAMES_ARE_FRESH: Final = 5.0
_ZERO: Final = UUID(int=0)


class Topic(Protocol):
    """A topic."""

    id: UUID
    partitions: int


class Topics(Protocol):
    """What is asked of the topics (`storage.topics.Topics`)."""

    async def get(self, name: str) -> Topic | None:
        """The topic, or None if there is none; KafkaError for a name that can be no topic's."""

    async def names(self) -> Sequence[str]:
        """The names of all topics."""


class Catalogue:
    """The topics as the groups of this node see them."""

    def __init__(self, topics: Topics, pattern_bytes: int = PATTERN_BYTES) -> None:
        self._topics = topics
        self._patterns = Patterns(max_bytes=pattern_bytes)
        self._names_at = float("-inf")
        self._listing: asyncio.Task[None] | None = None

    async def check(self, pattern: str) -> None:
        """Raise KafkaError(INVALID_REGULAR_EXPRESSION) if it is no pattern."""
        await self._patterns.check(pattern)

    async def view(self, names: Collection[str], patterns: Collection[str], fresh: bool) -> View:
        """The topics of these names and patterns; `fresh`: also those made a moment ago. KafkaError: not known."""
        resolved: dict[str, frozenset[str]] = {}
        if patterns:
            await self._look(fresh)
            resolved = await self._patterns.fits(patterns)
        wanted = sorted(frozenset(names).union(*resolved.values()))
        facts = await gathered(map(self._facts, wanted))
        return View({name: one for name, one in zip(wanted, facts, strict=True) if one is not None}, resolved)

    async def _facts(self, name: str) -> TopicFacts | None:
        try:
            topic = await self._topics.get(name)
        except KafkaError as error:
            if error.code == ErrorCode.INVALID_TOPIC_EXCEPTION:
                return None
            raise
        # members are told topics by id; one that has none cannot be told
        return None if topic is None or topic.id == _ZERO else TopicFacts(topic.id, topic.partitions)

    async def _look(self, fresh: bool) -> None:
        """At every name, for all groups that ask at the same time at once."""
        now = asyncio.get_running_loop().time()
        if fresh or now - self._names_at > _NAMES_ARE_FRESH:
            if self._listing is None or self._listing.done():
                self._listing = asyncio.get_running_loop().create_task(self._list())
            await asyncio.shield(self._listing)

    async def _list(self) -> None:
        self._patterns.set_names(await self._topics.names())
        self._names_at = asyncio.get_running_loop().time()
