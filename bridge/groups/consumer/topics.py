"""What the topics that a consumer group subscribes to are like now."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from typing import Final, NamedTuple
from uuid import UUID

from bridge.errors import KafkaError
from bridge.groups.budget import PATTERN_BYTES
from bridge.groups.consumer.model import Pattern, TopicFacts, View
from bridge.groups.consumer.patterns import Patterns, check_count
from bridge.kafka.error_codes import ErrorCode
from bridge.runtime.futures import gathered
from bridge.storage.topics.topics import Topics

_NAMES_ARE_FRESH: Final = 5.0
_ZERO: Final = UUID(int=0)


class Viewer(NamedTuple):
    """The client of a member, who must not learn of topics that it may not describe."""

    name: str = ""
    """The same for clients with the same rights; empty where all may describe everything."""
    describable: Callable[[Collection[str]], Awaitable[Collection[str]]] | None = None
    """Those of some names that it may describe, asked now."""


ALL_CLIENTS: Final = Viewer()


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

    async def view(
        self,
        names: Collection[str],
        patterns: Collection[Pattern],
        fresh: bool,
        viewer: Viewer = ALL_CLIENTS,
        before: Mapping[Pattern, frozenset[str]] | None = None,
    ) -> View:
        """The topics of these names and patterns; `fresh`: also those made a moment ago. KafkaError: not known.

        `before`: what the patterns of other viewers did fit. They fit no more until their own clients ask.
        """
        resolved: dict[Pattern, frozenset[str]] = {}
        if patterns:
            await self._look(fresh)
            resolved = await self._resolved(patterns, viewer, before or {})
        wanted = sorted(frozenset(names).union(*resolved.values()))
        facts = await gathered(map(self._facts, wanted))
        return View({name: one for name, one in zip(wanted, facts, strict=True) if one is not None}, resolved)

    async def deleted(self, topic_ids: Collection[UUID]) -> set[UUID]:
        """Those of which there is no topic any more; none of which that is not known."""
        gone = set[UUID]()
        for topic_id in topic_ids:
            with suppress(KafkaError):
                if await self._topics.by_id(topic_id) is None:
                    gone.add(topic_id)
        return gone

    async def _resolved(
        self, patterns: Collection[Pattern], viewer: Viewer, before: Mapping[Pattern, frozenset[str]]
    ) -> dict[Pattern, frozenset[str]]:
        resolved: dict[Pattern, frozenset[str]] = {}
        shown, asked = set[str](), set[str]()
        for pattern in sorted(patterns):
            fitting, known = await self._patterns.fits(pattern.regex), before.get(pattern, frozenset())
            if pattern.viewer != viewer.name:
                fitting = known & fitting
            elif viewer.describable is not None:
                shown.update(await viewer.describable(fitting - asked))
                asked |= fitting
                fitting &= shown
            resolved[pattern] = known if known == fitting and viewer.name else fitting
            check_count(resolved)
        return resolved

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
