"""What administrators ask of an existing topic: more partitions, configs, deleted records, sizes."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bridge import log
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.admin import AdminError, Forbidden, Retention
from bridge.storage import configs, kept
from bridge.storage.configs import Entry, Facts, Policies
from bridge.storage.faults import translated
from bridge.storage.names import Names

if TYPE_CHECKING:
    from bridge.storage.services import Storage
    from bridge.storage.topic import Topic

_log = log.get(__name__)

Change = Callable[[dict[str, str], Facts], Mapping[str, str | None]]
"""From a topic's configs to those it should have."""

_BROKER_IS_FRESH = 60.0  # seconds; its configuration seldom changes
_POLICY_SECONDS = 10.0
_TRIES = 5  # to write what nobody else overwrites at the same moment
_POLICY_TRIES_EVERY = 0.1
# Pulsar's answers: topics cannot have policies of their own, or not this one
_DISABLED: Final = 405
_REFUSED: Final = 412


@dataclass(frozen=True, slots=True)
class State:
    """A topic's configs and policies as they are."""

    kept: dict[str, str]
    actual: Policies
    facts: Facts


class Administration:
    """Changes topics through Pulsar's admin API."""

    def __init__(self, storage: "Storage", names: Names) -> None:
        self._storage = storage
        self._names = names
        self._broker: Mapping[str, Any] = {}
        self._broker_known_at = float("-inf")

    async def grow(self, topic: "Topic", partitions: int) -> None:
        """Give a topic more partitions; `Topics.ready` tells when a produce to them would work."""
        try:
            with translated():
                await self._storage.admin.update_partitions(self._names.pulsar(topic.name), partitions)
        except KafkaError as error:
            cause = error.__cause__
            if isinstance(cause, AdminError) and cause.status in (406, 409, 412, 422):
                # fewer than there are by now, or more than the broker or a replicated cluster allows
                raise KafkaError(ErrorCode.INVALID_PARTITIONS, cause.reason) from None
            raise
        topic.changed(partitions=partitions)

    async def sizes(self, topic: "Topic") -> list[int]:
        """The stored bytes of each partition."""
        full = [
            self._names.partition(topic.name, index, partitioned=topic.partitioned) for index in range(topic.partitions)
        ]
        admin = self._storage.admin
        with translated():
            if not topic.partitioned:
                return [(await admin.internal_stats(full[0])).total_size]
            sizes = await admin.partition_sizes(self._names.pulsar(topic.name))
        return [sizes.get(name, 0) for name in full]

    async def move_start(self, topic: "Topic", partition: int, offset: int) -> None:
        """Keep that a partition starts at `offset` at least, and have Pulsar delete what it may."""
        async with topic.changing:
            with translated():
                await self._raise_start(topic, partition, offset)
        try:
            await self._storage.admin.trim(self._names.partition(topic.name, partition, partitioned=topic.partitioned))
        except AdminError as error:  # it trims by itself when the ledger is full
            _log.info("= not trimmed", extra={"topic": topic.name, "partition": partition, "reason": error.reason})

    async def _raise_start(self, topic: "Topic", partition: int, offset: int) -> None:
        """Never lower it: another node may have deleted more, or may be about to."""
        full, admin = self._names.pulsar(topic.name), self._storage.admin
        for _ in range(_TRIES):
            properties = await admin.topic_properties(full)
            if kept.log_start(properties, partition) >= offset:
                topic.changed(properties=properties)
                return
            await admin.update_topic_properties(full, {kept.log_start_property(partition): str(offset)})
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "others change where this partition starts at the same time")

    # --- configs ---

    async def describe(self, topic: "Topic") -> list[Entry]:
        """The topic's configs with their true values."""
        with translated():
            state = await self._state(topic)
        return configs.describe(state.kept, state.actual, state.facts)

    async def alter(self, topic: "Topic", change: Change, *, validate_only: bool) -> None:
        """Change the topic's configs, and the policies that carry them."""
        async with topic.changing:
            with translated():
                for _ in range(_TRIES):
                    state = await self._state(topic)
                    present = configs.current(state.kept, state.actual, state.facts)
                    wanted = configs.checked(change(present, state.facts), state.facts)
                    if validate_only:
                        return
                    # the policies first: where Pulsar refuses one, nothing else has changed either
                    await self._set(topic.name, configs.policies(wanted, state.facts), state.actual)
                    if await self._keep(topic, wanted):
                        return
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "others change this topic's configs at the same time")

    async def check(self, asked: Mapping[str, str | None]) -> tuple[dict[str, str], Facts]:
        """The configs to keep for a new topic; INVALID_CONFIG for what cannot be had."""
        with translated():
            facts = await self._facts(None)
        return configs.checked(asked, facts), facts

    async def carry(self, name: str, wanted: dict[str, str], facts: Facts) -> None:
        """Set the policies of a new topic."""
        with translated():
            await self._set(name, configs.policies(wanted, facts), Policies())

    async def _keep(self, topic: "Topic", wanted: dict[str, str]) -> bool:
        """Keep the configs with the topic; False where another node has written its own at the same moment."""
        full, admin = self._names.pulsar(topic.name), self._storage.admin
        await admin.update_topic_properties(full, kept.with_configs(wanted))
        properties = await admin.topic_properties(full)
        topic.changed(properties=properties)
        return properties.get(kept.CONFIGS) == kept.with_configs(wanted)[kept.CONFIGS]

    async def _set(self, name: str, wanted: Policies, actual: Policies) -> None:
        """Bring the topic's policies from `actual` to `wanted`, and wait until the broker goes by them."""
        if wanted == actual:
            return
        admin, full = self._storage.admin, self._names.pulsar(name)
        try:
            if wanted.retention != actual.retention:
                if wanted.retention is None:
                    await admin.set_topic_policy(full, "retention", None)
                else:
                    await admin.set_topic_retention(full, wanted.retention)
            if wanted.compaction_threshold != actual.compaction_threshold:
                await admin.set_topic_policy(full, "compactionThreshold", wanted.compaction_threshold)
        except AdminError as error:
            if error.status == _DISABLED:
                text = "this Pulsar lets no topic have policies of its own (topicLevelPoliciesEnabled)"
                raise KafkaError(ErrorCode.INVALID_CONFIG, text) from None
            if error.status == _REFUSED:
                raise KafkaError(ErrorCode.INVALID_CONFIG, f"Pulsar refuses the policy: {error.reason}") from None
            raise
        # the policies of a topic are themselves a log, which the brokers read a little later
        async with asyncio.timeout(_POLICY_SECONDS):
            while await self._policies(full) != wanted:  # noqa: ASYNC110 — the broker tells no event
                await asyncio.sleep(_POLICY_TRIES_EVERY)

    async def _state(self, topic: "Topic") -> State:
        full, admin = self._names.pulsar(topic.name), self._storage.admin
        changes = topic.changes
        properties, actual, facts = await asyncio.gather(
            admin.topic_properties(full), self._policies(full), self._facts(full)
        )
        if topic.changes == changes:
            topic.learn(properties)
        return State(kept.configs(properties), actual, facts)

    async def _policies(self, full: str) -> Policies:
        admin = self._storage.admin
        try:
            retention, threshold = await asyncio.gather(
                admin.topic_retention(full), admin.topic_policy(full, "compactionThreshold")
            )
        except AdminError as error:
            if error.status == _DISABLED:
                return Policies()
            raise
        return Policies(retention, int(threshold) if threshold else None)

    async def _facts(self, full: str | None) -> Facts:
        """What holds for a topic without configs of its own; None: one that is still to be made."""
        broker = await self._configuration()
        quorum = broker.get("managedLedgerDefaultAckQuorum")
        if full is not None:
            quorum = (await self._persistence(full)).get("bookkeeperAckQuorum", quorum)
        megabytes = broker.get("managedLedgerMaxSizePerLedgerMbytes")
        minutes = broker.get("managedLedgerMaxLedgerRolloverTimeMinutes")
        return Facts(
            retention=await self._inherited_retention(broker),
            max_message_bytes=self._storage.settings.kafka.max_request_bytes,
            ack_quorum=max(int(quorum or 1), 1),
            ledger_bytes=None if megabytes is None else int(megabytes) << 20,
            ledger_ms=None if minutes is None else int(minutes) * 60_000,
            entry_format=self._storage.settings.storage.entry_format,
        )

    async def _persistence(self, full: str) -> Mapping[str, Any]:
        try:
            return await self._storage.admin.topic_policy(full, "persistence", applied=True) or {}
        except AdminError as error:
            if error.status == _DISABLED or isinstance(error, Forbidden):
                return {}
            raise

    async def _inherited_retention(self, broker: Mapping[str, Any]) -> Retention:
        """The namespace's retention; the settings are the operator's word where this login may not ask."""
        own = self._storage.settings.retention
        try:
            found = await self._storage.admin.namespace_retention(self._names.namespace)
        except Forbidden:
            found = Retention(own.minutes, own.megabytes)
        if found is not None:
            return found
        return Retention(
            int(broker.get("defaultRetentionTimeInMinutes", 0)), int(broker.get("defaultRetentionSizeInMB", 0))
        )

    async def _configuration(self) -> Mapping[str, Any]:
        """The broker's configuration; nothing where this login may not read it."""
        now = asyncio.get_running_loop().time()
        if now - self._broker_known_at > _BROKER_IS_FRESH:
            try:
                self._broker = await self._storage.admin.runtime_config()
            except Forbidden:
                self._broker = {}
            self._broker_known_at = now
        return self._broker
