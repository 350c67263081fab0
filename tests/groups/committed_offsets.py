"""A store that tells who follows committed offsets what the test says was stored."""

import uuid
from collections.abc import Iterable, Mapping

from bridge.groups.share.state_records import ShareState, encode
from bridge.groups.store.records import OffsetKey, StoredGroup, StoredOffset
from bridge.groups.store.store import GroupStore


class FakeOffsets(GroupStore):
    """Tells the mirror what was stored."""

    def __init__(self) -> None:
        self.on_stored, self.on_owned, self.on_lost = [], [], []
        self.elsewhere: set[str] = set()
        self.offsets: dict[str, dict[tuple[str, int], StoredOffset]] = {}
        self.shares: dict[str, dict[tuple[str, int], bytes]] = {}

    async def ready(self) -> None:
        """It always is."""

    def groups(self) -> Iterable[str]:
        return self.offsets.keys() | self.shares.keys()

    def stored(self, group_id: str) -> Mapping[tuple[str, int], StoredOffset]:
        return self.offsets.get(group_id, {})

    def known(self, group_id: str) -> StoredGroup:
        return StoredGroup(shares=self.shares.get(group_id, {}))

    def tell_share(self, group: str, topic_id: uuid.UUID, state: ShareState | None) -> None:
        """Of partition 0."""
        place = topic_id.hex, 0
        if state is None:
            self.shares.get(group, {}).pop(place, None)
        else:
            self.shares.setdefault(group, {})[place] = encode(state)
        for callback in self.on_stored:
            callback(("share", group, *place), None)

    def coordinates(self, group_id: str) -> bool:
        return group_id not in self.elsewhere

    def tell(self, key: OffsetKey, offset: int | None) -> None:
        _, group, topic, partition = key
        if offset is None:
            self.offsets.get(group, {}).pop((topic, partition), None)
        else:
            self.offsets.setdefault(group, {})[topic, partition] = StoredOffset(offset)
        for callback in self.on_stored:
            callback(key, None if offset is None else StoredOffset(offset))
