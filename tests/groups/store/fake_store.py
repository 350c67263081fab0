"""The store of groups in memory: the same promises as `groups.store.store.GroupStore`, see test_store_contract.py."""

import asyncio
from collections.abc import Callable, Iterable, Mapping

from bridge.errors import KafkaError
from bridge.groups.store.records import Key, StoredGroup, decode_offset, decode_pending
from bridge.groups.store.store import GroupStore
from bridge.groups.store.stored_groups import put_offset, put_pending
from tests.groups.fake_outcomes import FakeOutcomes


class FakeStore(GroupStore):
    """What is stored outlives a coordinator; writes end at once, or when a test says so."""

    outcomes: FakeOutcomes

    def __init__(self) -> None:
        self.on_owned, self.on_lost, self.on_stored = [], [], []
        self.held: dict[str, StoredGroup] = {}
        self.outcomes = FakeOutcomes()
        self.refuses: KafkaError | None = None
        """What every request gets, as when the slots are not held."""
        self.slow = False
        """Loading yields to others, as when the slot is not held yet."""
        self.holds_load: asyncio.Event | None = None
        """Loading waits for it, as when Pulsar is slow to tell the slot's end."""
        self.fails: BaseException | None = None
        """How every write ends."""
        self.held_back: list[tuple[Mapping[Key, bytes | None], asyncio.Future[None]]] | None = None
        """A list: writes wait in it for `release`."""
        self.writes = 0

    async def load(self, group_id: str, *, confirmed: bool = True) -> StoredGroup:
        self.check(group_id)
        if self.slow:
            await asyncio.sleep(0)
        if self.holds_load is not None and confirmed:
            await self.holds_load.wait()
        return self.held.get(group_id) or StoredGroup()

    async def confirm(self, group_id: str) -> None:
        self.check(group_id)

    def known(self, group_id: str) -> StoredGroup:
        return self.held.get(group_id) or StoredGroup()

    def slot_of(self, group_id: str) -> int:
        return 0

    async def ready(self) -> None:
        self.check("")

    def check(self, group_id: str) -> None:
        if self.refuses is not None:
            raise self.refuses

    def groups(self) -> Iterable[str]:
        return list(self.held)

    def submit(self, group_id: str, records: Mapping[Key, bytes | None]) -> "asyncio.Future[None]":
        self.check(group_id)
        self.writes += 1
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.held_back is not None:
            self.held_back.append((records, done))
        else:
            self._end(records, done)
        return done

    async def write(self, group_id: str, records: Mapping[Key, bytes | None]) -> None:
        await self.submit(group_id, records)

    # ---- what tests do -----------------------------------------------------------------------------------------------

    def release(self) -> None:
        """Let the writes that wait end."""
        assert self.held_back is not None
        waiting, self.held_back = self.held_back, None
        for records, done in waiting:
            self._end(records, done)

    def lose(self, lost: Callable[[str], bool] = lambda group_id: True) -> None:
        """Another node takes these groups."""
        for callback in self.on_lost:
            callback(lost)

    def _end(self, records: Mapping[Key, bytes | None], done: "asyncio.Future[None]") -> None:
        if self.fails is not None:
            done.set_exception(self.fails)
            return
        for key, value in records.items():
            self._put(key, value)
        done.set_result(None)

    def _put(self, key: Key, value: bytes | None) -> None:
        group = self.held.setdefault(key[1], StoredGroup())
        offset = None
        if key[0] == "group":
            group.metadata = value
        elif key[0] == "member":
            if value is None:
                group.members.pop(key[2], None)
            else:
                group.members[key[2]] = value
        elif key[0] == "share":
            if value is None:
                group.shares.pop(key[2:], None)
            else:
                group.shares[key[2:]] = value
        elif key[0] == "pending":
            put_pending(group, key, None if value is None else decode_pending(value, key[4]))
        else:
            offset = decode_offset(value) if value is not None else None
            if offset is None:
                group.offsets.pop(key[2:], None)
            else:
                put_offset(group, key[2:], offset)
        if not group:
            del self.held[key[1]]
        for callback in self.on_stored:
            callback(key, offset)
