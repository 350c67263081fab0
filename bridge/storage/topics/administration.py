"""Administration of existing topics: more partitions, configs, deleted records, sizes."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.admin import AdminError
from bridge.runtime.futures import Cached, gathered
from bridge.storage import topic_properties
from bridge.storage.error_mapping import translated
from bridge.storage.names import Names
from bridge.storage.partition import PartitionLog
from bridge.storage.services import Storage
from bridge.storage.topics import configs
from bridge.storage.topics.configs import ConfigEntry, Policies, TopicDefaults
from bridge.storage.topics.namespace_defaults import NamespaceDefaults
from bridge.storage.topics.topic import NO_ID, Topic, topic_id
from bridge.storage.topics.topic_policies import OwnPolicies, TopicPolicyCache
from bridge.telemetry import log

_log = log.get(__name__)

ConfigChange = Callable[[Mapping[str, str], Callable[[str], str | None]], Mapping[str, str | None]]
"""Returns the configs that a topic or group should have, from those it has and the defaults of all."""

_POLICY_TIMEOUT_SECONDS = 10.0
_SIZES_LIFETIME_SECONDS = 1.0
_MAX_TRIES = 5  # to write what no other node overwrites at the same moment
_POLICY_POLL_SECONDS = 0.1
# HTTP statuses of Pulsar: topics cannot have policies of their own, or not this one
_POLICIES_DISABLED: Final = 405
_POLICY_REFUSED: Final = 412


@dataclass(frozen=True, slots=True)
class TopicConfigs:
    """A topic's configs as they are kept with it, and its policies in Pulsar."""

    kept: dict[str, str]
    properties: Mapping[str, str]
    """Those of the topic, which have them."""
    actual: Policies
    defaults: TopicDefaults


class Administration:
    """Changes topics through Pulsar's admin API."""

    def __init__(self, storage: Storage, names: Names, on_changed: Callable[[Topic], None]) -> None:
        """`on_changed` is called with each topic that was changed here, when Pulsar holds that."""
        self._storage = storage
        self._on_changed = on_changed
        self._names = names
        self._defaults = NamespaceDefaults(storage.admin, storage.settings)
        self.policies = TopicPolicyCache(storage.client, storage.admin, names.namespace)

    async def close(self) -> None:
        """Stop following changes of policies."""
        await self.policies.close()

    async def add_partitions(self, topic: Topic, partitions: int) -> None:
        """Give a topic more partitions; `Topics.wait_writable` waits until a produce to them would work."""
        try:
            with translated():
                await self._storage.admin.update_partitions(self._names.pulsar(topic.name), partitions)
        except KafkaError as error:
            cause = error.__cause__
            if isinstance(cause, AdminError) and cause.status in (406, 409, 412, 422):
                # fewer than there are now, or more than the broker or a replicated cluster allows
                raise KafkaError(ErrorCode.INVALID_PARTITIONS, cause.reason) from None
            raise
        topic.apply_change(partitions=partitions)
        self._on_changed(topic)

    def note_change(self, topic: Topic) -> None:
        """Another node has changed this topic."""
        self.policies.changed(self._names.pulsar(topic.name))

    async def sizes(self, topic: Topic) -> list[int]:
        """The stored bytes of each partition, as they were a moment ago."""
        if topic.sizes is None:
            topic.sizes = Cached(partial(self._sizes, topic), _SIZES_LIFETIME_SECONDS)
        return await topic.sizes.get()

    async def _sizes(self, topic: Topic) -> list[int]:
        full = [
            self._names.partition(topic.name, index, partitioned=topic.partitioned) for index in range(topic.partitions)
        ]
        admin = self._storage.admin
        with translated():
            if not topic.partitioned:
                return [(await admin.internal_stats(full[0])).total_size]
            sizes = await admin.partition_sizes(self._names.pulsar(topic.name))
        return [sizes.get(name, 0) for name in full]

    async def delete_records(self, topic: Topic, partition: int, partition_log: PartitionLog, offset: int) -> int:
        """Delete the records before `offset` (−1: the end) for Kafka clients; the first offset that is left."""
        if topic_properties.configs(topic.properties).get("cleanup.policy") == "compact":
            raise KafkaError(ErrorCode.POLICY_VIOLATION, "each key's last record is kept: cleanup.policy is compact")
        start = await partition_log.start_from(offset)
        if start > partition_log.known_start:
            await self.move_start(topic, partition, start)
            partition_log.raise_start(start)  # in case the topic was forgotten meanwhile
        else:  # another node may have deleted more
            async with topic.change_lock:
                with translated():
                    await self._raise_start(topic, partition, start)
        return partition_log.known_start

    async def is_current(self, topic: Topic) -> bool:
        """Whether Pulsar has this topic, and not another one of its name that was created elsewhere."""
        try:
            with translated():
                return _is_of(topic, await self._storage.admin.topic_properties(self._names.pulsar(topic.name)))
        except KafkaError as error:
            if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return False
            raise

    async def undo_creation(self, topic: Topic) -> None:
        """Delete a topic whose policies could not be set, unless another one has its name by now, or a client has found
        it meanwhile and has written to it or is about to: Pulsar deletes none with producers without force."""
        with suppress(KafkaError):
            if await self.is_current(topic):
                with translated():
                    if not await self._is_written(topic):
                        await self._storage.admin.delete_partitioned(self._names.pulsar(topic.name), force=False)

    async def _is_written(self, topic: Topic) -> bool:
        admin = self._storage.admin
        parts = (self._names.partition(topic.name, one, partitioned=True) for one in range(topic.partitions))
        return any(stats.last_confirmed.entry >= 0 for stats in await gathered(map(admin.internal_stats, parts)))

    async def move_start(self, topic: Topic, partition: int, offset: int) -> None:
        """Store that a partition starts at `offset` or later, and have Pulsar delete the ledgers that it can."""
        async with topic.change_lock:
            with translated():
                await self._raise_start(topic, partition, offset)
        self._on_changed(topic)
        try:
            await self._storage.admin.trim(self._names.partition(topic.name, partition, partitioned=topic.partitioned))
        except AdminError as error:  # Pulsar trims by itself when the ledger is full
            _log.info("= not trimmed", extra={"topic": topic.name, "partition": partition, "reason": error.reason})

    async def _raise_start(self, topic: Topic, partition: int, offset: int) -> None:
        """Never lowers it, whatever other nodes store at the same moment."""
        full, admin = self._names.pulsar(topic.name), self._storage.admin
        properties = await admin.topic_properties(full)
        if not _is_of(topic, properties):  # `offset` is of the old one, and would hide records of the new one forever
            if partition in topic.logs:
                topic.logs[partition].on_recreated()
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"topic {topic.name} was deleted and created again")
        if topic_properties.log_starts(properties).get(partition, 0) < offset:
            raised = topic_properties.with_log_start(partition, offset)
            await admin.update_topic_properties(full, raised)
            properties = {**await admin.topic_properties(full), **raised}
        topic.apply_change(properties=properties)
        for outdated in topic_properties.outdated_log_starts(properties, partition):
            try:
                await admin.remove_topic_property(full, outdated)
            except AdminError as error:  # it does no harm, and the next one to raise the start removes it
                _log.info("= outdated property not removed", extra={"topic": topic.name, "reason": error.reason})

    # --- configs ---

    async def describe(self, topic: Topic) -> list[ConfigEntry]:
        """The topic's configs with their true values; a change made elsewhere a moment ago may not show yet."""
        with translated():
            defaults, own = await asyncio.gather(
                self._defaults.get(), self.policies.get(self._names.pulsar(topic.name))
            )
        return configs.describe(topic_properties.configs(topic.properties), own.policies, _defaults_of(defaults, own))

    async def alter(self, topic: Topic, change: ConfigChange, *, validate_only: bool) -> None:
        """Change the topic's configs, and the policies that implement them."""
        async with topic.change_lock:
            with translated():
                for _ in range(_MAX_TRIES):
                    configured = await self._read_configs(topic)
                    present = configs.current_configs(configured.kept, configured.actual, configured.defaults)
                    wanted = configs.validate(change(present, configured.defaults.value), configured.defaults, present)
                    if validate_only:
                        return
                    # the policies first: if Pulsar refuses one, nothing has changed
                    policies = configs.to_policies(wanted, configured.defaults)
                    await self._set_policies(topic.name, policies, configured.actual)
                    stored = await self._store_configs(topic, configured.properties, wanted)
                    if stored == wanted:
                        self._on_changed(topic)
                        return
                    # another node has changed others: a policy is of several configs, and what was set is without them
                    merged = configs.to_policies(stored, configured.defaults)
                    await self._set_policies(topic.name, merged, policies)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "other nodes change this topic's configs at the same time")

    async def validate_configs(self, asked: Mapping[str, str | None]) -> tuple[dict[str, str], TopicDefaults]:
        """The configs to keep with a new topic; INVALID_CONFIG for those that are not supported."""
        with translated():
            defaults = await self._defaults.get()
        return configs.validate(asked, defaults), defaults

    async def set_policies(self, name: str, wanted: dict[str, str], defaults: TopicDefaults) -> None:
        """Set the policies of a new topic."""
        with translated():
            await self._set_policies(name, configs.to_policies(wanted, defaults), Policies())

    async def _store_configs(
        self, topic: Topic, properties: Mapping[str, str], wanted: dict[str, str]
    ) -> dict[str, str]:
        """Store the configs that `properties` have not, and tell what the topic has then: other nodes store, too."""
        full, admin = self._names.pulsar(topic.name), self._storage.admin
        changed = topic_properties.with_changes(properties, wanted)
        if changed:
            await admin.update_topic_properties(full, changed)
        properties = await admin.topic_properties(full)
        topic.apply_change(properties=properties)
        return topic_properties.kept_configs(properties)

    async def _set_policies(self, name: str, wanted: Policies, actual: Policies) -> None:
        """Change the topic's policies from `actual` to `wanted`, and wait until the broker applies them."""
        if wanted == actual:
            return
        admin, full = self._storage.admin, self._names.pulsar(name)
        self.policies.changed(full)
        try:
            if wanted.retention != actual.retention:
                if wanted.retention is None:
                    await admin.set_topic_policy(full, "retention", None)
                else:
                    await admin.set_topic_retention(full, wanted.retention)
            if wanted.compaction_threshold != actual.compaction_threshold:
                await admin.set_topic_policy(full, "compactionThreshold", wanted.compaction_threshold)
        except AdminError as error:
            if error.status == _POLICIES_DISABLED:
                text = "topics of this Pulsar cannot have policies of their own (topicLevelPoliciesEnabled)"
                raise KafkaError(ErrorCode.INVALID_CONFIG, text) from None
            if error.status == _POLICY_REFUSED:
                raise KafkaError(ErrorCode.INVALID_CONFIG, f"Pulsar refuses the policy: {error.reason}") from None
            raise
        # brokers read changes of policies from a topic, a little later
        async with asyncio.timeout(_POLICY_TIMEOUT_SECONDS):
            while (await self.policies.ask(full)).policies != wanted:  # noqa: ASYNC110 — there is no event to wait for
                await asyncio.sleep(_POLICY_POLL_SECONDS)

    async def _read_configs(self, topic: Topic) -> TopicConfigs:
        """The present state, for a change."""
        full, admin = self._names.pulsar(topic.name), self._storage.admin
        changes = topic.change_count
        properties, own, defaults = await asyncio.gather(
            admin.topic_properties(full), self.policies.ask(full), self._defaults.get()
        )
        if topic.change_count == changes:
            topic.set_properties(properties)
        kept = topic_properties.configs(properties)
        return TopicConfigs(kept, properties, own.policies, _defaults_of(defaults, own))


def _is_of(topic: Topic, properties: Mapping[str, str]) -> bool:
    return topic.id in (topic_id(properties), NO_ID)


def _defaults_of(defaults: TopicDefaults, own: OwnPolicies) -> TopicDefaults:
    """The defaults of one topic: its ack quorum may differ from the namespace's."""
    return defaults if own.ack_quorum is None else replace(defaults, ack_quorum=max(own.ack_quorum, 1))
