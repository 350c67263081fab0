"""Asks Pulsar which topics there are, finds them by name, and gives each its id.

Callers that look for the same name at the same time share one look-up.
"""

import asyncio
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.admin import Admin, AdminError, NotFound
from bridge.pulsar.client import PulsarClient
from bridge.runtime.futures import Cached, SharedQuery, in_turns, loop_time, retrieve_exception, wait_shared
from bridge.storage.error_mapping import translated
from bridge.storage.names import Names
from bridge.storage.topics.negative_cache import NegativeCache
from bridge.storage.topics.topic import NO_ID, UUID_PROPERTY, Topic, digest_in, name_digest, new_id, topic_id
from bridge.telemetry import log

_log = log.get(__name__)

_RECENT_SECONDS = 1.0
_MANY_LOOKUPS = 32
"""In a second: of more names one list of all topics tells which exist."""


class TopicLookup:
    """Questions about the topics of one namespace."""

    def __init__(self, client: PulsarClient, admin: Admin, names: Names) -> None:
        self._client = client
        self._admin = admin
        self._names = names
        self._stored = SharedQuery(self._ask_stored)
        self._partitioned = SharedQuery(lambda: self._admin.partitioned_topics(names.namespace))
        self._shown = SharedQuery(self._ask_shown)
        self._digests = SharedQuery(self._ask_digests)
        self._recent = Cached(self._shown.look, _RECENT_SECONDS)

    async def find(self, name: str) -> tuple[int, dict[str, str]] | None:
        """Partitions (0: not partitioned) and properties; None if there is no such topic."""
        with translated():
            return await self._find(name)

    async def names(self) -> frozenset[str]:
        """The names of all topics that Kafka clients may see; concurrent callers share one question."""
        with translated():
            return await self._shown.look()

    async def recent_names(self) -> frozenset[str]:
        """The same as of a moment ago, but with all changes made here."""
        with translated():
            return await self._recent.get()

    def listed(self) -> frozenset[str] | None:
        """The same, if no question is needed."""
        return self._recent.latest()

    async def names_by_id(self, one: uuid.UUID) -> list[str] | None:
        """The names of those topics that may have this id; None if the id does not tell."""
        digest = digest_in(one)
        return None if digest is None else (await self._digests.look()).get(digest, [])

    async def _ask_digests(self) -> dict[bytes, list[str]]:
        found: dict[bytes, list[str]] = {}
        async for name in in_turns(sorted(await self.names())):
            found.setdefault(name_digest(name), []).append(name)
        return found

    def changed(self) -> None:
        """A topic was created or deleted here."""
        self._recent.forget()

    async def count(self) -> int:
        """How many partitions there are, of all topics."""
        return len(await self._stored.look())

    async def id_of(self, name: str, partitions: int, properties: dict[str, str]) -> uuid.UUID:
        """The id in the properties of what `find` found, which is put there if there is none; it is deleted with the
        topic."""
        known = topic_id(properties)
        if known is not None:
            return known
        full = self._names.pulsar(name)
        try:
            first = self._names.partition(name, 0, partitioned=partitions > 0)
            made = new_id(name, await self._first_ledger(first))
            await self._admin.update_topic_properties(full, {UUID_PROPERTY: str(made)})
            # read back: what is there counts
            metadata = await self._admin.partitioned_metadata(full)
            now = metadata.properties if metadata.partitions else await self._admin.topic_properties(full)
            return topic_id(now) or NO_ID
        except AdminError as error:
            _log.warning("! topic without an id", extra={"topic": name, "error": str(error)})
            return NO_ID  # Kafka's zero id: clients then use the name

    async def _first_ledger(self, partition: str) -> int | None:
        """That of a partition; None where Pulsar does not say."""
        with suppress(AdminError):
            for ledger in await self._admin.ledgers(partition):
                return ledger.ledger_id
        return None

    async def _find(self, name: str) -> tuple[int, dict[str, str]] | None:
        full = self._names.pulsar(name)
        try:
            metadata = await self._admin.partitioned_metadata(full)
            if metadata.partitions > 0:
                return metadata.partitions, metadata.properties
        except NotFound:
            return None
        if full not in await self._stored.look():
            return None
        return 0, await self._admin.topic_properties(full)

    async def _ask_shown(self) -> frozenset[str]:
        partitioned, stored = await asyncio.gather(self._partitioned.look(), self._stored.look())
        return frozenset(name for full in (*partitioned, *stored) if (name := self._names.kafka(full)) is not None)

    async def _ask_stored(self) -> frozenset[str]:
        """The full names of all topics without partitions, and of all partitions."""
        return frozenset(await self._client.topics_of_namespace(self._names.namespace))


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
                one = await self._lookup.id_of(name, partitions, properties)
                topic = Topic(name, partitions or 1, partitions > 0, one, loop_time(), properties)
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
