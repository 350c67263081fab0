"""Asks Pulsar about topics: whether one exists, which exist, and the id that is kept with each."""

import asyncio
import uuid

from bridge.pulsar.admin import AdminError, NotFound
from bridge.runtime.futures import Cached, SharedQuery, in_turns
from bridge.storage.error_mapping import translated
from bridge.storage.names import Names
from bridge.storage.services import Storage
from bridge.storage.topics.topic import NO_ID, UUID_PROPERTY, digest_in, name_digest, new_id, topic_id
from bridge.telemetry import log

_log = log.get(__name__)

_RECENT_SECONDS = 1.0


class TopicLookup:
    """Questions about the topics of one namespace."""

    def __init__(self, storage: Storage, names: Names) -> None:
        self._client = storage.client
        self._admin = storage.admin
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

    async def id_of(self, name: str, properties: dict[str, str]) -> uuid.UUID:
        """The id in the topic's properties, which is put there if there is none; it is deleted with the topic."""
        known = topic_id(properties)
        if known is not None:
            return known
        full = self._names.pulsar(name)
        try:
            await self._admin.update_topic_properties(full, {UUID_PROPERTY: str(new_id(name))})
            # read back: another node may have put one there at the same time, and the last one counts
            metadata = await self._admin.partitioned_metadata(full)
            now = metadata.properties if metadata.partitions else await self._admin.topic_properties(full)
            return topic_id(now) or NO_ID
        except AdminError as error:
            _log.warning("! topic without an id", extra={"topic": name, "error": str(error)})
            return NO_ID  # Kafka's zero id: clients then use the name

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
