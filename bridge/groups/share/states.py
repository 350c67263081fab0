"""The states of share groups' partitions at the groups' coordinator, where partitions' leaders read and write them.

It is what Kafka calls the persister (KIP-932). A partition is initialized before it is assigned to a member; its leader
then reads the state, begins where that says, and writes the whole of it whenever records are done or given back.

    await states.initialize(group, topic_id, partition)                  # new: start −1. Nothing where it is there
    await states.alter(group, topic_id, partition, start)                # an administrator's offset: the epoch grows
    await states.delete(group, [(topic_id, partition), …])
    state = await states.read(group, topic_id, partition, leader_epoch)  # fences leaders before it
    await states.write(group, topic_id, partition, ShareWrite(…))
    await states.check(group, topic_id, partition, state_epoch, leader_epoch)  # whether it could write
    summary = await states.summary(group, topic_id, partition)           # None: not initialized

Topic ids are `uuid.UUID`. A call returns when what it says is stored. KafkaErrors: COORDINATOR_NOT_AVAILABLE,
COORDINATOR_LOAD_IN_PROGRESS and NOT_COORDINATOR as the store; FENCED_LEADER_EPOCH and FENCED_STATE_EPOCH where another
leader has read it, or the offset was altered; UNKNOWN_TOPIC_OR_PARTITION where it is not initialized.

A state that is made begins at a random epoch: a write of the deleted one before it, still on its way, is fenced.

Calls for one partition are executed one after another, so that each is judged by what is stored.

A group is deleted within `deleting`: its records go with the group's own, in one write.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from bridge.errors import KafkaError
from bridge.groups.share.state_records import (
    ShareState,
    ShareWrite,
    check_epochs,
    decode,
    encode,
    led_by,
    written,
)
from bridge.groups.store.records import Key, StoredGroup, share_key
from bridge.groups.store.saving import readable
from bridge.groups.store.store import GroupStore
from bridge.kafka.error_codes import ErrorCode

__all__ = ["Place", "ShareState", "ShareStates", "ShareWrite", "Summary"]

Place: TypeAlias = tuple[UUID, int]
"""A topic's id, and a partition."""
_FIRST_EPOCHS: Final = 1 << 30
"""Half of what an int32 has: enough are left for all alterations."""
_NOT_INITIALIZED: Final = "the partition is not of this share group"


class Summary(NamedTuple):
    """What is told of a partition without its batches (ReadShareGroupStateSummary)."""

    start: int
    """−1: no leader has begun yet."""
    done: int
    """How many records at or beyond the start are done."""
    state_epoch: int
    leader_epoch: int


class ShareStates:
    """The states of the share partitions of all groups that this node coordinates."""

    def __init__(
        self, store: GroupStore, first_epoch: Callable[[], int] = lambda: secrets.randbelow(_FIRST_EPOCHS)
    ) -> None:
        """`first_epoch`: the state epoch of a state that is made."""
        self._store = store
        self._first_epoch = first_epoch
        self._turns: dict[tuple[str, UUID, int], tuple[asyncio.Lock, int]] = {}
        self.on_changed: list[Callable[[str, UUID, int], None]] = []
        """Called with group, topic id and partition when a state was changed, and not by its leader."""

    async def initialize(self, group_id: str, topic_id: UUID, partition: int) -> None:
        """Make the state of a partition; nothing where there is one."""
        async with self._turn(group_id, topic_id, partition):
            present = _state(await self._store.load(group_id, confirmed=False), group_id, topic_id, partition)
            if present is None:
                await self._put(group_id, topic_id, partition, ShareState(self._first_epoch()))
                self._changed(group_id, topic_id, partition)

    async def alter(self, group_id: str, topic_id: UUID, partition: int, start: int) -> None:
        """Begin again at an offset, or where the group's configs say (−1); makes the state where there is none."""
        async with self._turn(group_id, topic_id, partition):
            present = _state(await self._store.load(group_id), group_id, topic_id, partition)
            epoch = self._first_epoch() if present is None else present.state_epoch + 1
            await self._put(group_id, topic_id, partition, ShareState(epoch, start=start))
            self._changed(group_id, topic_id, partition)

    @asynccontextmanager
    async def deleting(self, group_id: str, places: Collection[Place] | None = None) -> AsyncIterator[dict[Key, None]]:
        """`async with states.deleting(group) as records:` stores these records in its body, with others of the group.

        `places`: None for all of the group. No leader writes meanwhile, and each is told afterwards.
        """
        gone = sorted(set(self.known(group_id) if places is None else places))
        async with AsyncExitStack() as turns:
            for topic_id, partition in gone:
                await turns.enter_async_context(self._turn(group_id, topic_id, partition))
            yield {share_key(group_id, topic.hex, number): None for topic, number in gone}
            for topic_id, partition in gone:
                self._changed(group_id, topic_id, partition)

    async def delete(self, group_id: str, places: Collection[Place]) -> None:
        """Forget these partitions; nothing where they are not there."""
        async with self.deleting(group_id, places) as records:
            if records:
                await self._store.write(group_id, records)

    async def read(self, group_id: str, topic_id: UUID, partition: int, leader_epoch: int) -> ShareState:
        """The state, for the leader of this epoch: earlier ones cannot write any more when this returns."""
        async with self._turn(group_id, topic_id, partition):
            present = await self._present(group_id, topic_id, partition)
            led = led_by(present, leader_epoch)
            if led != present:
                await self._put(group_id, topic_id, partition, led)
            return led

    async def write(self, group_id: str, topic_id: UUID, partition: int, write: ShareWrite) -> None:
        """Store a leader's state; a write that is repeated changes nothing."""
        async with self._turn(group_id, topic_id, partition):
            present = await self._present(group_id, topic_id, partition, confirmed=False)
            following = written(present, write)
            if following is not present:
                await self._put(group_id, topic_id, partition, following)

    async def check(self, group_id: str, topic_id: UUID, partition: int, state_epoch: int, leader_epoch: int) -> None:
        """Raise as `write` where the leader that has read the state of these epochs may not write any more."""
        check_epochs(await self._present(group_id, topic_id, partition), state_epoch, leader_epoch)

    async def summary(self, group_id: str, topic_id: UUID, partition: int) -> Summary | None:
        """What is stored of a partition; None: it is not initialized."""
        found = _state(await self._store.load(group_id), group_id, topic_id, partition)
        return None if found is None else Summary(found.start, found.done, found.state_epoch, found.leader_epoch)

    def known(self, group_id: str) -> list[Place]:
        """The partitions that are initialized, as far as it is stored; none where the group's slot is not owned."""
        return [(UUID(topic), number) for topic, number in self._store.known(group_id).shares if _is_id(topic)]

    async def _present(self, group_id: str, topic_id: UUID, partition: int, *, confirmed: bool = True) -> ShareState:
        found = _state(await self._store.load(group_id, confirmed=confirmed), group_id, topic_id, partition)
        if found is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _NOT_INITIALIZED)
        return found

    async def _put(self, group_id: str, topic_id: UUID, partition: int, state: ShareState) -> None:
        await self._store.write(group_id, {share_key(group_id, topic_id.hex, partition): encode(state)})

    def _changed(self, group_id: str, topic_id: UUID, partition: int) -> None:
        for callback in self.on_changed:
            callback(group_id, topic_id, partition)

    @asynccontextmanager
    async def _turn(self, group_id: str, topic_id: UUID, partition: int) -> AsyncIterator[None]:
        """One call for a partition after another."""
        place = group_id, topic_id, partition
        lock, users = self._turns.get(place, (asyncio.Lock(), 0))
        self._turns[place] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            users = self._turns[place][1] - 1
            if users:
                self._turns[place] = lock, users
            else:
                del self._turns[place]


def _state(stored: StoredGroup, group_id: str, topic_id: UUID, partition: int) -> ShareState | None:
    value = stored.shares.get((topic_id.hex, partition))
    if value is None:
        return None
    with readable(group_id):
        return decode(value)


def _is_id(text: str) -> bool:
    return len(text) == 32
