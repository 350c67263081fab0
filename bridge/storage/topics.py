"""Kafka's topics as Pulsar holds them: found, listed, created, deleted, watched; each with its partition logs."""

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from bridge import log
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.admin import AdminError, NotFound
from bridge.storage import kept, names
from bridge.storage.administration import Administration
from bridge.storage.creation import check_new, taken
from bridge.storage.faults import translated
from bridge.storage.names import Names
from bridge.storage.partition import PartitionLog
from bridge.storage.producer_ids import ProducerIds
from bridge.storage.services import Storage

_log = log.get(__name__)

UUID_PROPERTY = "kafkaTopicUUID"
"""Where KoP kept the topic id, and where the bridge keeps it."""
_FRESH = 5.0  # seconds that what is known of a topic is taken for true; then it is asked anew in the background
_SWEEP = 10.0
_AT_ONCE = 16
_ZERO = uuid.UUID(int=0)


@dataclass(slots=True, eq=False)
class Topic:
    """A topic and its partition logs, opened when used."""

    name: str
    partitions: int
    partitioned: bool
    id: uuid.UUID
    known_at: float
    properties: Mapping[str, str] = field(default_factory=dict)
    logs: dict[int, PartitionLog] = field(default_factory=dict)
    refreshing: "asyncio.Task[None] | None" = None
    changing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def learn(self, properties: Mapping[str, str]) -> None:
        """Take over what is kept with the topic: its configs, and where its logs start."""
        self.properties = properties
        for partition, partition_log in self.logs.items():
            self.tell(partition, partition_log)

    def tell(self, partition: int, partition_log: PartitionLog) -> None:
        """Let one log know what of this is its own."""
        partition_log.raise_start(kept.log_start(self.properties, partition))
        partition_log.learn(kept.configs(self.properties))


class Topics:
    """All topics of the bridge's namespace."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._names = Names(storage.settings.pulsar.full_namespace)
        self._known: dict[str, Topic] = {}
        self._finding: dict[str, asyncio.Future[Topic | None]] = {}
        self._limit = asyncio.Semaphore(_AT_ONCE)
        self._sweeper: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self.administration = Administration(storage, self._names)
        self.producer_ids = ProducerIds(storage.client, storage.admin, self._names)

    async def start(self) -> None:
        """Watch the namespace where the broker offers it, and close what nobody uses."""
        self._sweeper = asyncio.get_running_loop().create_task(self._sweep(), name="storage sweeper")
        await self._storage.client.watch_topics(self._names.namespace, self._changed)

    async def close(self) -> None:
        """Close every partition log."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        for name in list(self._known):
            self._forget(name, flush=False)
        await self.producer_ids.close()
        await self._storage.catchups.close()
        while self._closing:
            await asyncio.wait(self._closing)

    # --- finding ---

    def cached(self, name: str) -> Topic | None:
        """The topic if it is known already: no waiting, possibly some seconds old."""
        topic = self._known.get(name)
        if topic is not None and _now() - topic.known_at > _FRESH:
            self._refresh(topic)
        return topic

    async def get(self, name: str) -> Topic | None:
        """The topic, or None if there is none."""
        topic = self.cached(name)
        if topic is not None:
            return topic
        if not names.is_shown(name):
            return None
        # asked for many times at once, it is looked for once, and all go on in the order they came
        finding = self._finding.get(name)
        if finding is None:
            finding = asyncio.ensure_future(self._find(name))
            self._finding[name] = finding
            finding.add_done_callback(lambda _: self._finding.pop(name, None))
        return await asyncio.shield(finding)

    async def by_id(self, topic_id: uuid.UUID) -> Topic | None:
        """The topic with this id."""
        if topic_id == _ZERO:
            return None
        for topic in self._known.values():
            if topic.id == topic_id:
                return topic
        return next((topic for topic in await self.all() if topic.id == topic_id), None)

    async def names(self) -> list[str]:
        """The names of all topics that Kafka clients may see, in order."""
        namespace = self._names.namespace
        with translated():
            partitioned, stored = await asyncio.gather(
                self._storage.admin.partitioned_topics(namespace), self._storage.client.topics_of_namespace(namespace)
            )
        return sorted({name for full in (*partitioned, *stored) if (name := self._names.kafka(full)) is not None})

    async def all(self) -> list[Topic]:
        """Every topic that Kafka clients may see, by name."""
        found = await self.names()
        for name in self._known.keys() - set(found):
            self._forget(name)
        topics = await asyncio.gather(*map(self.get, found))
        return [topic for topic in topics if topic is not None]

    async def partition(self, name: str, partition: int) -> PartitionLog:
        """A partition's log by name; UNKNOWN_TOPIC_OR_PARTITION if there is none."""
        topic = await self.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return self.log(topic, partition)

    def log(self, topic: Topic, partition: int) -> PartitionLog:
        """A partition's log; UNKNOWN_TOPIC_OR_PARTITION if the topic has no such partition."""
        log = topic.logs.get(partition)
        if log is None:
            if not 0 <= partition < topic.partitions:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            full = self._names.partition(topic.name, partition, partitioned=topic.partitioned)
            log = topic.logs[partition] = PartitionLog(full, self._storage, lambda: self._forget(topic.name, topic))
            self._storage.metrics.open_partitions.inc()
            topic.tell(partition, log)
        return log

    def opened(self, name: str, partition: int) -> PartitionLog | None:
        """A partition's log if somebody uses it already; asks Pulsar nothing."""
        topic = self._known.get(name)
        return None if topic is None else topic.logs.get(partition)

    def forget(self, topic: Topic) -> None:
        """What is known of this topic has proved wrong: ask anew when somebody wants it."""
        self._forget(topic.name, topic)

    # --- changing ---

    async def create(
        self, name: str, partitions: int, configs: Mapping[str, str | None] | None = None, *, is_new: bool = False
    ) -> Topic:
        """Create a topic and wait until a produce to each partition would work; KafkaError otherwise.

        `is_new`: `check_new` has been asked already.
        """
        if not is_new:
            await check_new(name, self)
        properties = {UUID_PROPERTY: str(uuid.uuid4())}
        admin, full = self._storage.admin, self._names.pulsar(name)
        if not configs:
            with translated(), taken(name):
                await admin.create_partitioned(full, partitions, properties)
        else:
            wanted, facts = await self.administration.check(configs)
            with translated(), taken(name):
                await admin.create_partitioned(full, partitions, properties | kept.with_configs(wanted))
            try:
                await self.administration.carry(name, wanted, facts)
            except KafkaError:
                with suppress(AdminError):
                    await admin.delete_partitioned(full, force=True)
                raise
        topic = await self.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"topic {name} is created and not visible yet")
        await self.ready(topic)
        return topic

    async def create_if_absent(self, name: str) -> Topic:
        """The topic, created with the default number of partitions if there is none (automatic creation)."""
        try:
            return await self.create(name, self._storage.settings.kafka.default_partitions)
        except KafkaError as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        topic = await self.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"topic {name} appeared and went")
        return topic

    async def ready(self, topic: Topic) -> None:
        """Wait until a produce to each partition would work (clients do not expect a first refusal)."""

        async def one(partition: int) -> None:
            async with self._limit:
                await self.log(topic, partition).writable()

        await asyncio.gather(*map(one, range(topic.partitions)))

    async def delete(self, topic: Topic) -> None:
        """Delete a topic and its records."""
        full = self._names.pulsar(topic.name)
        # our own producers and readers go first: they must not find the topic going under their hands
        self._forget(topic.name)
        if self._closing:
            await asyncio.wait(self._closing)
        with translated():
            if topic.partitioned:
                await self._storage.admin.delete_partitioned(full, force=True)
            else:
                await self._storage.admin.delete_non_partitioned(full, force=True)
        self._forget(topic.name)

    async def grow(self, topic: Topic, partitions: int) -> None:
        """Give a topic more partitions and wait until a produce to each would work."""
        await self.administration.grow(topic, partitions)
        await self.ready(topic)

    async def delete_records(self, name: str, partition: int, offset: int) -> int:
        """Let nobody read what is before `offset` (−1: the end) any more; the first offset that is left."""
        topic = await self.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partition_log = self.log(topic, partition)
        if kept.configs(topic.properties).get("cleanup.policy") == "compact":
            raise KafkaError(ErrorCode.POLICY_VIOLATION, "each key's last record is kept: cleanup.policy is compact")
        start = await partition_log.start_from(offset)
        if start > partition_log.known_start:
            await self.administration.move_start(topic, partition, start)
            partition_log.raise_start(start)  # should the topic have been forgotten meanwhile
        return partition_log.known_start

    # --- within ---

    async def _find(self, name: str) -> Topic | None:
        async with self._limit:
            with translated():
                found = await self._ask(name)
        if found is None:
            return None
        partitions, properties = found
        topic = Topic(name, partitions or 1, partitions > 0, await self._topic_id(name, properties), _now(), properties)
        return self._known.setdefault(name, topic)

    async def _ask(self, name: str) -> tuple[int, dict[str, str]] | None:
        """Partitions (0: not partitioned) and properties; None if there is no such topic."""
        full = self._names.pulsar(name)
        try:
            metadata = await self._storage.admin.partitioned_metadata(full)
            if metadata.partitions > 0:
                return metadata.partitions, metadata.properties
        except NotFound:
            return None
        if full not in await self._storage.client.topics_of_namespace(self._names.namespace):
            return None
        return 0, await self._storage.admin.topic_properties(full)

    async def _topic_id(self, name: str, properties: dict[str, str]) -> uuid.UUID:
        """The id kept in the topic's properties, put there where there is none: it lives and dies with the topic."""
        known = _uuid(properties.get(UUID_PROPERTY))
        if known is not None:
            return known
        full = self._names.pulsar(name)
        admin = self._storage.admin
        try:
            await admin.update_topic_properties(full, {UUID_PROPERTY: str(uuid.uuid4())})
            # read back: another node may have had the same idea, and the last one counts
            metadata = await admin.partitioned_metadata(full)
            now = metadata.properties if metadata.partitions else await admin.topic_properties(full)
            return _uuid(now.get(UUID_PROPERTY)) or _ZERO
        except AdminError as error:
            _log.warning("! topic without an id", extra={"topic": name, "error": str(error)})
            return _ZERO  # no id, in Kafka's words; clients then go by the name

    def _refresh(self, topic: Topic) -> None:
        if topic.refreshing is None or topic.refreshing.done():
            topic.refreshing = asyncio.get_running_loop().create_task(self._ask_anew(topic))

    async def _ask_anew(self, topic: Topic) -> None:
        try:
            async with self._limit:
                with translated():
                    found = await self._ask(topic.name)
        except KafkaError as error:
            _log.warning("! topic not refreshed", extra={"topic": topic.name, "error": str(error)})
            topic.known_at = _now()
            return
        if found is None:
            self._forget(topic.name, topic)
            return
        partitions, properties = found
        known = _uuid(properties.get(UUID_PROPERTY))
        shrunk = topic.partitioned and partitions < topic.partitions
        if shrunk or topic.id not in (known, _ZERO):
            self._forget(topic.name, topic)  # another topic of the same name
            return
        topic.partitions = max(partitions, 1)
        topic.learn(properties)
        topic.known_at = _now()

    def _changed(self, added: Sequence[str], removed: Sequence[str]) -> None:
        """The namespace changed: topics that went are forgotten at once, new ones are found when asked for."""
        for full in removed:
            name = self._names.owner(full)
            if name is not None and name in self._known:
                self._refresh(self._known[name])

    def _forget(self, name: str, which: Topic | None = None, *, flush: bool = True) -> None:
        """Start anew with this topic when somebody wants it; `flush`: what is being appended has its outcome first.

        The producers of old and new have one name, so that the broker lets the new one in when the old one has left.
        """
        topic = self._known.get(name)
        if topic is None or (which is not None and topic is not which):
            return
        del self._known[name]
        for partition_log in topic.logs.values():
            self._storage.metrics.open_partitions.dec()
            task = asyncio.get_running_loop().create_task(partition_log.close(flush=flush))
            self._closing.add(task)
            task.add_done_callback(self._closed)
        topic.logs.clear()

    def _closed(self, task: "asyncio.Task[None]") -> None:
        self._closing.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.warning("! partition not closed cleanly", extra={"error": str(task.exception())})

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP)
            with suppress(KafkaError):
                await self._storage.catchups.sweep()
            for topic in list(self._known.values()):
                for partition_log in list(topic.logs.values()):
                    await partition_log.sweep()


def _uuid(text: str | None) -> uuid.UUID | None:
    try:
        return uuid.UUID(text) if text else None
    except ValueError:
        return None


def _now() -> float:
    return asyncio.get_running_loop().time()
