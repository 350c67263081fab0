"""Finds topics by name in Pulsar: callers that look for the same name at the same time share one look-up."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.runtime.futures import loop_time, retrieve_exception, wait_shared
from bridge.storage.topics.negative_cache import NegativeCache
from bridge.storage.topics.topic import Topic
from bridge.storage.topics.topic_lookup import TopicLookup

_MANY_LOOKUPS = 32
"""In a second: of more names one list of all topics tells which exist."""


class TopicFinder:
    """The look-ups of one namespace."""

    def __init__(self, lookup: TopicLookup, register: Callable[[Topic], Topic]) -> None:
        """`register` takes a topic in that was found, and returns the one that stands for its name from now on."""
        self._lookup = lookup
        self._register = register
        self._missing = NegativeCache()
        self._finding: dict[str, asyncio.Future[Topic | None]] = {}
        self._outdated: set[str] = set()  # created or deleted since Pulsar was asked
        self._deleting: Counter[str] = Counter()  # by deletions under way in this process
        self._is_closed = False
        self._second = 0.0
        self._asked = 0  # in this second

    async def find(self, name: str) -> Topic | None:
        """The topic as Pulsar has it, or None if there is none; all callers go on in the order in which they came."""
        if name in self._missing:
            return None
        if self._is_closed:
            raise _closed()
        finding = self._finding.get(name)
        if finding is None:
            self._count()
            if self._are_many and (listed := self._lookup.listed()) is not None and name not in listed:
                return None  # without a task, and without a place in memory
            finding = asyncio.ensure_future(self._find(name))
            self._finding[name] = finding
            finding.add_done_callback(partial(self._done, name))
        return await wait_shared(finding, _closed())

    def _count(self) -> None:
        now = loop_time()
        if now - self._second >= 1.0:
            self._second, self._asked = now, 0
        self._asked += 1

    @property
    def _are_many(self) -> bool:
        return self._asked > _MANY_LOOKUPS or len(self._finding) > _MANY_LOOKUPS

    def may_exist(self, name: str | None) -> None:
        """A topic of this name may exist from now on."""
        self._missing.discard(name)

    def changed(self, name: str) -> None:
        """A topic of this name was created or deleted here: an answer on its way may be from before that."""
        self._lookup.changed()
        if name in self._finding:
            self._outdated.add(name)

    @contextmanager
    def deleting(self, name: str) -> Iterator[None]:
        """Find no topic of this name meanwhile: opening a producer while it is deleted would create it again."""
        self._deleting[name] += 1
        try:
            yield
        finally:
            self._deleting[name] -= 1
            self._deleting += Counter()  # drops the names that count 0

    def close(self) -> None:
        """Cancel what is under way; nothing is looked up any more."""
        self._is_closed = True
        for finding in self._finding.values():
            finding.cancel()

    def _done(self, name: str, finding: "asyncio.Future[Topic | None]") -> None:
        self._finding.pop(name, None)
        retrieve_exception(finding)

    async def _find(self, name: str) -> Topic | None:
        """Ask Pulsar, and again where the topic was created or deleted here meanwhile."""
        while True:
            self._outdated.discard(name)
            asked_at = loop_time()
            found = await self._lookup.find(name) if await self._is_listed(name) else None
            topic = None
            if found is not None and not self._deleting[name]:
                partitions, properties = found
                topic_id = await self._lookup.id_of(name, properties)
                topic = Topic(name, partitions or 1, partitions > 0, topic_id, loop_time(), properties)
            if name not in self._outdated:
                if topic is not None and not self._deleting[name]:
                    return self._register(topic)
                self._missing.add(name, asked_at)
                return None

    async def _is_listed(self, name: str) -> bool:
        """Whether it is worth asking: of many names asked for at once, as by scanners, one list tells which exist."""
        if self._are_many:
            with suppress(KafkaError):  # this login may not list them
                return name in await self._lookup.recent_names()
        return True


def _closed() -> KafkaError:
    return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this node stops")
