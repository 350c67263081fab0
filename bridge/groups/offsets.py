"""Committed offsets: the checks of a commit, what a fetch sees, and when they expire."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from bridge.config import GroupSettings
from bridge.errors import KafkaError
from bridge.groups.coordinator import GroupCoordinator
from bridge.groups.retention import OffsetRetention
from bridge.groups.settling import Settling
from bridge.groups.store.records import (
    Key,
    OffsetKey,
    PendingKey,
    StoredGroup,
    StoredOffset,
    encode_offset,
    encode_pending,
    offset_key,
    pending_key,
)
from bridge.groups.store.store import GroupStore
from bridge.groups.store.visible import (
    TopicPartition,
    confirm_decided,
    decided_keys,
    open_offsets,
    stored_for,
    visible_offsets,
)
from bridge.kafka.error_codes import ErrorCode
from bridge.runtime.futures import gathered, gathered_for, in_turns
from bridge.storage.topics.topic import NO_ID, Topic
from bridge.storage.topics.topics import Topics
from bridge.storage.visibility import Transaction
from bridge.telemetry import log
from bridge.telemetry.metrics import GroupMetrics, Pending

_log = log.get("groups.offsets")

_CHECK_SECONDS: Final = 600.0  # Kafka's offsets.retention.check.interval.ms
_COUNT_SECONDS: Final = 5.0
_MINUTE_MS: Final = 60_000
_DELETION_DELAY_SECONDS: Final = 0.5


class Committer(NamedTuple):
    """The member that commits; without an id and with generation -1 where a group has no members."""

    id: str = ""
    instance_id: str | None = None
    generation: int = -1
    """Or its epoch, in the new protocol."""
    version: int = 8
    """Of the OffsetCommit: what it can be told depends on it."""


class Offsets:
    """The committed offsets of all groups of this node."""

    def __init__(
        self,
        store: GroupStore,
        membership: GroupCoordinator,
        topics: Topics,
        settings: GroupSettings,
        metrics: GroupMetrics,
        wall: Callable[[], float] = time.time,
        namespace: str = "",
    ) -> None:
        self._store = store
        self._outcomes = store.outcomes
        self._membership = membership
        self._topics = topics
        self._settings = settings
        self._metrics = metrics
        self._wall = wall
        self._namespace = namespace
        self._settling = Settling(store)
        self._checker: asyncio.Task[None] | None = None
        self._counter: asyncio.Task[None] | None = None
        self._maybe_deleted: set[str] = set()  # topics that may have been deleted
        self._deletion_check: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Look for expired offsets, for those of deleted topics, and for decided ones, from now on."""
        self._settling.start(self._coordinated())
        self._topics.on_removed.append(self._removed)
        self._checker = asyncio.get_running_loop().create_task(self._keep_checking(), name="offsets expiry")
        self._counter = asyncio.get_running_loop().create_task(self._keep_counting(), name="pending offsets")

    async def close(self) -> None:
        """Stop looking."""
        for task in (self._checker, self._counter, self._deletion_check):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        await self._settling.close()

    async def commit(
        self, group_id: str, member: Committer, wanted: Mapping[TopicPartition, StoredOffset]
    ) -> "asyncio.Future[dict[TopicPartition, ErrorCode]]":
        """Commit offsets: they have their place in the order when this returns, are stored when its result is done.

        The time of the commit is filled in. Raises KafkaError for all of them.
        """
        errors = await self._check(wanted)
        good = [where async for where, error in in_turns(errors.items()) if error is ErrorCode.NONE]
        if not good:
            return _done(errors)
        now = self._now()
        records: dict[Key, bytes | None] = {
            offset_key(group_id, *where): encode_offset(wanted[where], now, self._known_id(where[0]))
            async for where in in_turns(good)
        }
        await self._membership.check_commit(group_id, *member, good)  # last: it must still be one when they are stored
        return self._submit(group_id, records, errors)

    async def commit_in_transaction(
        self,
        group_id: str,
        member: Committer,
        transaction: Transaction,
        wanted: Mapping[TopicPartition, StoredOffset],
        still_valid: Callable[[], ErrorCode],
    ) -> "asyncio.Future[dict[TopicPartition, ErrorCode]]":
        """As `commit`, of offsets that count once the transaction is committed; it names the group already.

        `still_valid`: what forbids that it commits them now, asked in the step in which they get their place in the
        order. The group's members are looked at in the same step.
        """
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        errors = await self._check(wanted)
        now = self._now()
        records: dict[Key, bytes | None] = {
            pending_key(group_id, *where, transaction.identity): encode_pending(
                wanted[where], transaction.slot, now, self._known_id(where[0])
            )
            async for where, error in in_turns(errors.items())
            if error is ErrorCode.NONE
        }
        partitions = [where for where, error in errors.items() if error is ErrorCode.NONE]
        await self._membership.check_commit_in_transaction(
            group_id, member.id, member.instance_id, member.generation, partitions
        )
        forbidden = still_valid()
        if forbidden is not ErrorCode.NONE:
            raise KafkaError(forbidden)
        return self._submit(group_id, records, errors) if records else _done(errors)

    async def fetch(
        self, group_id: str, *, require_stable: bool = False
    ) -> "dict[TopicPartition, StoredOffset | None]":
        """The committed offsets of a group, none if there is no such group.

        With `require_stable` it is None for those that an open transaction may still change. Those of topics
        that were deleted are left out, also where no deletion was noticed: as on Kafka they are gone.
        """
        group = await self._store.load(group_id)
        if group.pendings:
            await confirm_decided(group, self._outcomes)
        offsets = visible_offsets(group, self._outcomes.outcome)
        ids = await self._ids({name for name, _ in stored_for(group)})
        # topics that were committed to meanwhile exist
        found: dict[TopicPartition, StoredOffset | None] = {
            where: stored for where, stored in offsets.items() if not _is_stale(stored, ids.get(where[0], ""))
        }
        for where in group.pendings if require_stable else ():
            still_open = open_offsets(group, where, self._outcomes.outcome)
            if not all(_is_stale(one.offset, ids.get(where[0], "")) for one in still_open):
                found[where] = None
        return found

    async def delete(self, group_id: str, unwanted: Iterable[TopicPartition]) -> dict[TopicPartition, ErrorCode]:
        """Forget committed offsets of topics that the group's members do not subscribe to (KIP-496)."""
        errors = await self._check(dict.fromkeys(unwanted))
        await confirm_decided(await self._store.load(group_id), self._outcomes)
        # from here on nothing waits: no member joins, subscribes and commits between the look and the write
        retention = await self._membership.retention(group_id)
        stored = await self._store.load(group_id, confirmed=False)
        if not retention.has_offsets or not (retention.exists or stored):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group_id}")
        if retention.members and not retention.consumer:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"group {group_id} has members")
        for where, error in errors.items():
            if error is ErrorCode.NONE and _subscribes(retention, where[0]):
                errors[where] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        if keys := self._decided(group_id, (where for where, error in errors.items() if error is ErrorCode.NONE)):
            await self._store.submit(group_id, dict.fromkeys(keys))
        return errors

    async def forget_topic(self, topic: str) -> None:
        """A topic was deleted: as on Kafka, no group has offsets there any more. What cannot be is left to expiry."""
        try:
            await self._forget_stale({topic: None})
        except KafkaError as error:
            _log.warning("! offsets of a deleted topic stay", extra={"topic": topic, "reason": str(error)})

    def _removed(self, topic: str) -> None:
        """Something of a topic has gone, past the bridge; perhaps the topic."""
        self._maybe_deleted.add(topic)
        if self._deletion_check is None or self._deletion_check.done():
            self._deletion_check = asyncio.get_running_loop().create_task(self._check_maybe_deleted())

    async def _check_maybe_deleted(self) -> None:
        while self._maybe_deleted:
            await asyncio.sleep(_DELETION_DELAY_SECONDS)  # deletions seldom come alone, and all groups are looked at
            names, self._maybe_deleted = self._maybe_deleted, set()
            try:
                await self._forget_stale(await self._ids(names))
            except KafkaError as error:
                _log.warning("! offsets of deleted topics stay", extra={"topics": len(names), "reason": str(error)})

    async def _forget_stale(self, ids: "Mapping[str, str | None]") -> None:
        """Forget what was committed for topics that had these names before; None: there is none of that name now.

        Raises KafkaError where that cannot be in some group, having done it in all others.
        """

        def stale(group_id: str) -> list[Key]:
            group = self._store.known(group_id)
            return [key for key, one in _every(group_id, group) if self._is_forgotten(group_id, key[2:4], one, ids)]

        async def forget(group_id: str) -> None:
            if gone := stale(group_id):
                _log.info("= offsets of a deleted topic", extra={"group": group_id, "offsets": len(gone)})
                await self._store.submit(group_id, dict.fromkeys(gone))

        await _each([group_id async for group_id in in_turns(self._coordinated()) if stale(group_id)], forget)
        await self._forget_share_states()

    async def _forget_share_states(self) -> None:
        """Those of deleted topics, which are stored by their ids."""
        groups = [group_id async for group_id in in_turns(self._coordinated()) if self._store.known(group_id).shares]
        await _each(groups, self._membership.forget_deleted_topics)

    def _coordinated(self) -> list[str]:
        return [group_id for group_id in self._store.groups() if self._store.coordinates(group_id)]

    def _is_forgotten(
        self, group_id: str, where: TopicPartition, stored: StoredOffset, ids: "Mapping[str, str | None]"
    ) -> bool:
        """Whether an offset is of a former topic; `ids` may be older than the topic that is here now."""
        name = where[0]
        if name not in ids or (group_id, *where) in self._store.under_way:
            return False
        return _is_stale(stored, ids[name] if self._topics.cached(name) is None else self._known_id(name))

    # --- expiry ---------------------------------------------------------------------------------------------------

    async def expire(self) -> None:
        """Forget what has expired, and groups that have nothing left; KafkaError where that cannot be in some group,
        when it is done in all others."""

        def may_expire(group_id: str) -> bool:
            """Of most groups none does, and their members need not be asked for."""
            offsets = self._store.stored(group_id)
            return not offsets or any(self._is_old(one) for one in offsets.values())

        await _each(
            [group_id async for group_id in in_turns(self._coordinated()) if may_expire(group_id)], self._expire
        )

    async def _expire(self, group_id: str) -> None:
        retention = await self._membership.retention(group_id)
        offsets = self._store.stored(group_id)
        gone = [where for where, one in offsets.items() if self._is_expired(group_id, where, one, retention)]
        if gone:
            _log.info("= offsets expired", extra={"group": group_id, "partitions": len(gone)})
            await self._store.submit(group_id, dict.fromkeys(self._decided(group_id, gone)))
            self._metrics.expired_offsets.inc(len(gone))
        if retention.exists and not retention.members:
            left = await self._store.load(group_id, confirmed=False)
            if not left.offsets and not left.pendings:
                await self._membership.forget(group_id)

    async def _keep_checking(self) -> None:
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            try:
                await self.expire()
                await self._forget_share_states()
            except KafkaError as error:
                _log.warning("! offsets not checked for expiry", extra={"reason": str(error)})
            await self._settling.look_at(self._coordinated())

    async def count_pending(self) -> None:
        """Show how many offsets are pending in transactions."""
        count, oldest = await self._settling.pending()
        seconds = 0.0 if oldest is None else max(self._now() - oldest, 0) / 1000
        self._metrics.show_pending(self._namespace, Pending(count, seconds))

    async def _keep_counting(self) -> None:
        while True:
            await asyncio.sleep(_COUNT_SECONDS)
            await self.count_pending()

    def _is_old(self, stored: StoredOffset, since_ms: int = 0) -> bool:
        if stored.expires_at_ms >= 0:
            return self._now() >= stored.expires_at_ms
        since = max(stored.committed_at_ms, since_ms)
        return self._now() - since >= self._settings.offsets_retention_minutes * _MINUTE_MS

    def _is_expired(
        self, group_id: str, where: TopicPartition, stored: StoredOffset, retention: OffsetRetention
    ) -> bool:
        if _subscribes(retention, where[0]) or (retention.members and not retention.consumer):
            return False
        if not self._is_old(stored, retention.empty_since_ms) or (group_id, *where) in self._store.under_way:
            return False
        return not open_offsets(self._store.known(group_id), where, self._outcomes.outcome)  # as on Kafka

    # --- within ---------------------------------------------------------------------------------------------------

    def _decided(self, group_id: str, partitions: Iterable[TopicPartition]) -> list[Key]:
        """The records without which a group has no offsets of these partitions but those of open transactions."""
        group = self._store.known(group_id)
        return [key for where in partitions for key in decided_keys(group_id, group, where, self._outcomes.outcome)]

    def _submit(
        self, group_id: str, records: Mapping[Key, bytes | None], errors: dict[TopicPartition, ErrorCode]
    ) -> "asyncio.Future[dict[TopicPartition, ErrorCode]]":
        """Store what is committed; the result is the error of each partition."""
        # callbacks, not a task: commits are many
        saving = asyncio.ensure_future(self._store.submit(group_id, records))
        outcome: asyncio.Future[dict[TopicPartition, ErrorCode]] = asyncio.get_running_loop().create_future()
        saving.add_done_callback(partial(self._saved, len(records), errors, outcome))
        return outcome

    def _saved(
        self,
        count: int,
        errors: dict[TopicPartition, ErrorCode],
        outcome: "asyncio.Future[dict[TopicPartition, ErrorCode]]",
        saving: "asyncio.Future[None]",
    ) -> None:
        error = None if saving.cancelled() else saving.exception()
        if error is None and not saving.cancelled():
            self._metrics.commits.inc(count)
        if outcome.done():
            return
        if saving.cancelled():
            outcome.cancel()
        elif error is None:
            outcome.set_result(errors)
        elif isinstance(error, KafkaError):
            failed = ErrorCode(error.code)
            outcome.set_result({where: code or failed for where, code in errors.items()})
        else:
            outcome.set_exception(error)

    async def _check(self, asked: Mapping[TopicPartition, StoredOffset | None]) -> dict[TopicPartition, ErrorCode]:
        """What is wrong with each partition, and with what is to be committed for it."""
        names = dict.fromkeys([name async for name, _ in in_turns(asked)])
        unknown = [name for name in names if self._topics.cached(name) is None]
        found = await gathered_for(unknown, self._find)
        return {where: self._judge(where, stored, found) async for where, stored in in_turns(asked.items())}

    def _judge(
        self, where: TopicPartition, stored: StoredOffset | None, found: Mapping[str, Topic | ErrorCode]
    ) -> ErrorCode:
        if stored is not None and _java_length(stored.metadata) > self._settings.max_offset_metadata_bytes:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        name, partition = where
        topic = self._topics.cached(name) or found.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if isinstance(topic, ErrorCode):
            return topic
        return ErrorCode.NONE if 0 <= partition < topic.partitions else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    async def _find(self, name: str) -> Topic | ErrorCode:
        try:
            return await self._topics.get(name) or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        except KafkaError as error:
            if error.code == ErrorCode.INVALID_TOPIC_EXCEPTION:
                return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return ErrorCode.COORDINATOR_NOT_AVAILABLE  # Pulsar does not say; clients try again

    def _known_id(self, name: str) -> str:
        """The id of a topic that was just looked for; empty where it has none."""
        topic = self._topics.cached(name)
        return "" if topic is None or topic.id == NO_ID else topic.id.hex

    async def _ids(self, names: set[str]) -> dict[str, str | None]:
        """As `_id`, of each; no task for those that are known, which are most."""
        known = {name: self._known_id(name) for name in names if self._topics.cached(name) is not None}
        return {**known, **await gathered_for(names - known.keys(), self._id)}

    async def _id(self, name: str) -> str | None:
        """The id of the topic of this name; None where there is none, empty where it is not known."""
        try:
            topic = self._topics.cached(name) or await self._topics.get(name)
        except KafkaError:
            return ""
        return None if topic is None else self._known_id(name)

    def _now(self) -> int:
        return int(self._wall() * 1000)


async def _each(group_ids: Iterable[str], work: Callable[[str], Coroutine[Any, Any, None]]) -> None:
    """Do it with each group: one that fails keeps no other from it. Raises the first KafkaError at the end."""

    async def tried(group_id: str) -> KafkaError | None:
        try:
            await work(group_id)
        except KafkaError as error:
            return error
        return None

    for error in await gathered(map(tried, group_ids)):
        if error is not None:
            raise error


def _every(group_id: str, group: StoredGroup) -> Iterator[tuple[OffsetKey | PendingKey, StoredOffset]]:
    """All offsets of a group, plain and pending ones."""
    for where, stored in group.offsets.items():
        yield offset_key(group_id, *where), stored
    for where, pendings in group.pendings.items():
        for one in pendings:
            yield pending_key(group_id, *where, one.transaction.identity), one.offset


def _subscribes(retention: OffsetRetention, topic: str) -> bool:
    """Whether members of a group of consumers may be reading the topic (Kafka's isSubscribedToTopic)."""
    return (
        retention.members > 0 and retention.consumer and (retention.subscribed is None or topic in retention.subscribed)
    )


def _is_stale(stored: StoredOffset, topic_id: str | None) -> bool:
    """Whether an offset was committed for a topic that is no more: there is none of its name, or another one."""
    return topic_id is None or bool(topic_id and stored.topic_id and stored.topic_id != topic_id)


def _done(errors: dict[TopicPartition, ErrorCode]) -> "asyncio.Future[dict[TopicPartition, ErrorCode]]":
    future: asyncio.Future[dict[TopicPartition, ErrorCode]] = asyncio.get_running_loop().create_future()
    future.set_result(errors)
    return future


def _java_length(text: str) -> int:
    """As Kafka counts: offset.metadata.max.bytes is compared with a `String.length`, in units of UTF-16."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
