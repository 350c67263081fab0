"""Kafka's topics in Pulsar: found, listed, created, deleted and watched; each with its partition logs."""

import asyncio
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Protocol

from bridge.cluster.membership.records import TopicEvent
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import PulsarError
from bridge.runtime.fairness import Places
from bridge.runtime.futures import SharedQuery, gathered, loop_time
from bridge.storage import names, topic_properties
from bridge.storage.append.producer_ids import ProducerIds
from bridge.storage.error_mapping import translated
from bridge.storage.names import Names
from bridge.storage.partition import PartitionLog
from bridge.storage.services import Storage
from bridge.storage.topics.administration import Administration
from bridge.storage.topics.creation import PartitionLimit, check_new_topic, translate_refusal
from bridge.storage.topics.negative_cache import NegativeCache
from bridge.storage.topics.partition_logs import PartitionLogs
from bridge.storage.topics.topic import NO_ID, UUID_PROPERTY, Topic, new_id, topic_id
from bridge.storage.topics.topic_finder import TopicFinder, TopicLookup
from bridge.telemetry import log

_log = log.get(__name__)

_REFRESH_SECONDS = 5.0
"""The age at which what is known of a topic is asked again, in the background."""
_SWEEP_SECONDS = 10.0


class Lead(Protocol):
    """Which partitions this node leads (`cluster.view_changes.ViewFollower`, or all of them)."""

    def leads(self, topic: str, partition: int) -> bool:
        """Whether this node leads a partition."""

    def has_moved(self, topic: str, partition: int) -> bool:
        """Whether another node led it within the last minute."""


class LeadsAll:
    """A node that leads everything: there is no other."""

    def leads(self, topic: str, partition: int) -> bool:
        """Always."""
        return True

    def has_moved(self, topic: str, partition: int) -> bool:
        """Never."""
        return False


class Topics:
    """All topics of one namespace."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.threads, self.conversion_memory = storage.threads, storage.conversion_memory
        self._names = Names(storage.settings.pulsar.full_namespace)
        self._known: dict[str, Topic] = {}
        self._ids: dict[uuid.UUID, Topic] = {}  # of `_known`
        self._missing_ids = NegativeCache()
        self._everything = SharedQuery(self.all)
        self._lookup = TopicLookup(storage.client, storage.admin, self._names)
        self._finder = TopicFinder(self._lookup, self._register)
        self.partition_limit = PartitionLimit(storage.settings.kafka, self._lookup.count)
        self._opening = Places(16, seconds=1.0, most_seconds=60.0, most_slow=1024)  # for partitions of new topics
        self._tasks: set[asyncio.Task[None]] = set()
        self._lead: Lead = LeadsAll()
        self._logs = PartitionLogs(storage, self._names, self.forget, self.leads, self.has_moved)
        self.on_removed: list[Callable[[str], None]] = []
        """Called with the name of each topic that was deleted, or lost a partition."""
        self._stopped = False
        self.on_changed: list[Callable[[str, uuid.UUID, TopicEvent], None]] = []
        """Called when Pulsar holds what this node has done to a topic: its name, its id, and what it was."""
        self._changed_elsewhere_at = float("-inf")
        self.administration = Administration(storage, self._names, partial(self._call_on_changed, TopicEvent.CHANGED))
        self.producer_ids = ProducerIds(storage.client, storage.admin, storage.settings.pulsar)

    async def start(self) -> None:
        """Watch the namespace, if the broker supports that, and sweep what is idle."""
        self._tasks.add(asyncio.get_running_loop().create_task(self._sweep(), name="storage sweeper"))
        await self._storage.client.watch_topics(self._names.namespace, self._namespace_changed)

    async def close(self) -> None:
        """Close every partition log; no log is opened any more."""
        self._stopped = True
        for task in self._tasks:
            task.cancel()
        self._finder.close()
        for name in list(self._known):
            self._forget(name, flush=False)
        await self.producer_ids.close()
        await self.administration.close()
        await self._logs.wait_closed()

    # --- finding ---

    def known(self) -> Collection[Topic]:
        """All that is known, for those who only look: copy it before an await."""
        return self._known.values()

    def cached(self, name: str) -> Topic | None:
        """The topic if it is known already, possibly some seconds old."""
        topic = self._known.get(name)
        if topic is not None and loop_time() - topic.refreshed_at > _REFRESH_SECONDS:
            self._refresh(topic)
        return topic

    async def get(self, name: str) -> Topic | None:
        """The topic, or None if there is none."""
        topic = self.cached(name)
        if topic is not None:
            return topic
        return await self._finder.find(name) if names.is_shown(name) else None

    async def current(self, name: str) -> Topic | None:
        """The topic as Pulsar has it from now on, whatever is known here, or None.

        Administrative requests ask for it: Kafka's controller knows all that was done through any broker.
        """
        topic = self._known.get(name)
        if topic is not None:
            await asyncio.wait((self._refresh(topic, ask_again=True),))
        else:
            self._ask_again(name)
        return await self.get(name)

    async def exists(self, name: str) -> bool:
        """Whether Pulsar has a topic of this name now; costs it next to nothing."""
        try:
            return await self._storage.client.partitions(self._names.pulsar(name)) >= 0
        except PulsarError as error:
            # other errors: a broker that does not answer this question
            return error.code != pb.TopicNotFound and await self.current(name) is not None

    def cached_by_id(self, topic_id: uuid.UUID) -> Topic | None:
        """The topic with this id if it is known already."""
        return self._ids.get(topic_id)

    async def by_id(self, topic_id: uuid.UUID) -> Topic | None:
        """The topic with this id."""
        if topic_id == NO_ID or topic_id in self._missing_ids:
            return None
        if topic_id not in self._ids:
            asked_at = loop_time()
            names = await self._lookup.names_by_id(topic_id)
            await (self._everything.look() if names is None else gathered(map(self.current, names)))
            if topic_id not in self._ids and asked_at > self._changed_elsewhere_at:
                self._missing_ids.add(topic_id, asked_at)
        return self._ids.get(topic_id)

    async def names(self) -> list[str]:
        """The names of all topics that Kafka clients may see, in order."""
        started = loop_time()
        found = await self._lookup.names()
        for name in self._known.keys() - found:
            # deleted, or created after the list was asked for: what was learnt since then is newer than the list
            if self._known[name].refreshed_at < started:
                self._refresh(self._known[name])
        return sorted(found)

    async def all(self) -> list[Topic]:
        """Every topic that Kafka clients may see, by name; KafkaError if nothing is known of one."""
        topics = await gathered(map(self.get, await self.names()))
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
        return self._logs.open(topic, partition) if log is None else log

    def opened(self, name: str, partition: int) -> PartitionLog | None:
        """A partition's log if it is open already; asks Pulsar nothing."""
        topic = self._known.get(name)
        return None if topic is None else topic.logs.get(partition)

    def note_missing_batch(self, name: str, partition: int, producer: tuple[int, int, int]) -> None:
        """A batch of an idempotent producer (id, epoch, sequence) was received and not appended."""
        self._logs.note_missing_batch(name, partition, producer)

    def forget(self, topic: Topic) -> None:
        """What is known of the topic is wrong: the next request for it asks Pulsar again."""
        self._forget(topic.name, topic)

    # --- changing ---

    async def create(
        self, name: str, partitions: int, configs: Mapping[str, str | None] | None = None, *, is_new: bool = False
    ) -> Topic:
        """Create a topic and wait until a produce to each partition would work; KafkaError otherwise.

        `is_new`: `check_new_topic` was called already.
        """
        if not is_new:
            await check_new_topic(name, self)
        topic_id = new_id(name)
        properties = {UUID_PROPERTY: str(topic_id)}
        if not configs:
            await self._create(name, partitions, properties)
        else:
            wanted, defaults = await self.administration.validate_configs(configs)
            properties |= topic_properties.with_configs(wanted)
            await self._create(name, partitions, properties)
            try:
                await self.administration.set_policies(name, wanted, defaults)
            except KafkaError:
                made = Topic(name, partitions, True, topic_id, loop_time(), properties)
                await self.administration.undo_creation(made)
                self._forget(name)
                raise
        topic = self._register_created(Topic(name, partitions, True, topic_id, loop_time(), properties))
        self._call_on_changed(TopicEvent.CREATED, topic)
        await self.wait_writable(topic)
        return topic

    async def _create(self, name: str, partitions: int, properties: Mapping[str, str]) -> None:
        with translated(), translate_refusal(name):
            await self._storage.admin.create_partitioned(self._names.pulsar(name), partitions, properties)

    def _register_created(self, topic: Topic) -> Topic:
        """Register a topic that was just created; what was known of its name before is about another topic."""
        known = self._known.get(topic.name)
        if known is not None and known.id == topic.id:
            return known  # another request has found it meanwhile
        self._forget(topic.name)
        topic = self._register(topic)
        for partition in range(topic.partitions):
            if self.leads(topic.name, partition):
                self.log(topic, partition).mark_empty()
        return topic

    def _register(self, topic: Topic) -> Topic:
        """Register a topic; one that another request has registered meanwhile stays."""
        if self._stopped:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this node stops")
        self._finder.may_exist(topic.name)
        self._missing_ids.discard(topic.id)
        known = self._known.setdefault(topic.name, topic)
        if known.id != NO_ID:
            self._ids[known.id] = known
        return known

    async def create_if_absent(self, name: str) -> Topic:
        """The topic, created with the default number of partitions if there is none (automatic creation)."""
        partitions = self._storage.settings.kafka.default_partitions
        try:
            await self.partition_limit.check(partitions, partitions, automatic=True)
            return await self.create(name, partitions)
        except KafkaError as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        topic = await self.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"topic {name} was created and deleted meanwhile")
        return topic

    async def wait_writable(self, topic: Topic) -> None:
        """Wait until a produce to each partition would work; clients do not expect a new topic to refuse the first."""

        async def one(partition: int) -> None:
            async with await self._opening.take():
                if self.leads(topic.name, partition):
                    log = self.log(topic, partition)
                    try:
                        await log.writable()
                        return
                    except KafkaError:
                        if topic.forgotten or topic.logs.get(partition) is log:
                            raise
                # another node leads it, perhaps since a moment ago
                await self._logs.load(topic, partition)

        with translated():
            await gathered(map(one, range(topic.partitions)))

    async def delete(self, topic: Topic) -> None:
        """Delete a topic and its records."""
        full = self._names.pulsar(topic.name)
        with self._finder.deleting(topic.name):
            # our own producers and readers are closed first: they must not see the topic deleted while they use it
            closing = self._forget(topic.name)
            if closing:
                await asyncio.wait(closing)
            with translated():
                if topic.partitioned:
                    await self._storage.admin.delete_partitioned(full, force=True)
                else:
                    await self._storage.admin.delete_non_partitioned(full, force=True)
        self._forget(topic.name)
        self._call_on_changed(TopicEvent.DELETED, topic)

    async def add_partitions(self, topic: Topic, partitions: int) -> None:
        """Give a topic more partitions and wait until a produce to each would work."""
        await self.administration.add_partitions(topic, partitions)
        await self.wait_writable(topic)

    # --- other nodes ---

    def lead_by(self, lead: Lead) -> None:
        """Go by this from now on: until then this node leads everything."""
        self._lead = lead

    def leads(self, topic: str, partition: int) -> bool:
        """Whether this node leads a partition. What it does not lead it opens no producer for."""
        return self._lead.leads(topic, partition)

    def has_moved(self, topic: str, partition: int) -> bool:
        """Whether another node led it within the last minute: its clients may still wait for answers of that one."""
        return self._lead.has_moved(topic, partition)

    def note_change(self, name: str, topic_id: uuid.UUID, event: TopicEvent) -> None:
        """Another node has told its `on_changed`: what is known here is asked again, and no older answer counts."""
        self._ask_again(name)
        self._missing_ids.discard(topic_id)
        self._changed_elsewhere_at = loop_time()
        topic = self._known.get(name)
        if topic is None:
            return
        if event is TopicEvent.DELETED and topic.id == topic_id:
            self.forget(topic)
            self._call_on_removed(name)
        elif event is not TopicEvent.DELETED or topic.id == NO_ID:
            self.administration.note_change(topic)
            self._refresh(topic, ask_again=True)

    def hand_over(self, is_lost: Callable[[str, int], bool], *, flush: bool) -> "asyncio.Task[None]":
        """Other nodes lead these partitions (topic, number) from now on: nothing of them stays open or in memory here.

        With `flush`, what is on its way to Pulsar has its outcome first, for two seconds at most; without, this node is
        cut off, and all that has none fails. What is not on its way is never sent. Names of idempotent producers are
        free as soon as nothing under them is on its way. The task is done when no such partition takes an append; the
        rest is closed in the background.
        """
        return self._logs.hand_over(list(self._known.values()), is_lost, flush=flush)

    def hold(self) -> None:
        """Open no producer and send nothing again: this node does not know whether it leads what it led."""
        self._logs.hold()

    def proceed(self) -> None:
        """It knows again: what is left after the hand-overs that were begun is sent."""
        self._logs.proceed()

    # --- within ---

    def _ask_again(self, name: str) -> None:
        """No answer counts that is older than this."""
        self._finder.may_exist(name)
        self._finder.changed(name)

    def _refresh(self, topic: Topic, *, ask_again: bool = False) -> "asyncio.Task[None]":
        """Ask Pulsar about the topic; `ask_again`: an answer on its way is too old."""
        topic.change_count += ask_again
        if topic.refresh_task is None or topic.refresh_task.done():
            topic.refresh_task = asyncio.get_running_loop().create_task(self._refresh_now(topic))
            self._tasks.add(topic.refresh_task)  # a topic may be forgotten meanwhile
            topic.refresh_task.add_done_callback(self._tasks.discard)
        return topic.refresh_task

    async def _refresh_now(self, topic: Topic) -> None:
        changes = -1
        while topic.change_count != changes:  # else the answer may be from before the change
            changes = topic.change_count
            try:
                found = await self._lookup.find(topic.name)
            except KafkaError as error:
                _log.warning("! topic not refreshed", extra={"topic": topic.name, "error": str(error)})
                topic.refreshed_at = loop_time()
                return
        if found is None or topic.id not in (topic_id(found[1]), NO_ID):  # deleted, or another topic of the same name
            self._forget(topic.name, topic)
            self._call_on_removed(topic.name)
            return
        partitions, properties = found
        if topic.partitioned and partitions < topic.partitions:
            self._forget(topic.name, topic)
            return
        topic.partitions = max(partitions, 1)
        topic.set_properties(properties)
        topic.refreshed_at = loop_time()

    def _namespace_changed(self, added: Sequence[str], removed: Sequence[str]) -> None:
        """The namespace changed: topics that may be deleted are refreshed, new ones are found when asked for."""
        for full in added:
            name = self._names.owner(full)
            self._finder.may_exist(name)
            if name in self._known and names.partition_number(full) >= self._known[name].partitions:
                self._refresh(self._known[name], ask_again=True)
        for name in {name for full in removed if (name := self._names.owner(full)) is not None}:
            if name in self._known:
                self._refresh(self._known[name])
            self._call_on_removed(name)

    def _call_on_changed(self, event: TopicEvent, topic: Topic) -> None:
        for callback in self.on_changed:
            callback(topic.name, topic.id, event)

    def _call_on_removed(self, name: str) -> None:
        for callback in self.on_removed:
            callback(name)

    def _forget(self, name: str, which: Topic | None = None, *, flush: bool = True) -> "list[asyncio.Task[None]]":
        """Forget a topic; returns the tasks that close its logs. `flush`: appends under way have their outcome first.

        The producers of old and new have one name, so that the broker lets the new one in when the old one has left.
        """
        if which is None:
            self._finder.changed(name)
        topic = self._known.get(name)
        if topic is None or (which is not None and topic is not which):
            return []
        del self._known[name]
        self._ids.pop(topic.id, None)
        topic.forgotten = True
        return self._logs.close(topic, flush=flush)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            await self._logs.sweep(list(self._known.values()))
