"""Keeps groups and their committed offsets in Pulsar (DESIGN D6): the compacted topic `__bridge_groups`.

Each of its partitions is a slot; a group lives in the slot that its id hashes to. Who holds a slot's exclusive producer
is the coordinator of its groups.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeAlias

from bridge.config import Settings
from bridge.groups.records import Key, StoredGroup, StoredOffset
from bridge.metrics import Metrics
from bridge.pulsar.admin import Admin
from bridge.pulsar.client import PulsarClient

__all__ = ["Key", "Store", "StoredGroup", "StoredOffset"]

Lost: TypeAlias = Callable[[list[str]], None]
Stored: TypeAlias = Callable[[Key, StoredOffset | None], None]


class Store:
    """All slots of one bridge.

    What is read here is what Pulsar has acknowledged, never more: a write shows when it is answered.
    """

    def __init__(self, client: PulsarClient, admin: Admin, settings: Settings, metrics: Metrics) -> None:
        self.on_lost: list[Lost] = []
        """Called with the ids of all groups of a slot that somebody else has taken: forget them."""
        self.on_stored: list[Stored] = []
        """Called for each record that Pulsar has acknowledged; None where the value is deleted or no offset."""

    async def start(self) -> None:
        """Make the topic if there is none, and begin to take the slots."""
        raise NotImplementedError

    async def close(self) -> None:
        """Store what is under way and give the slots back."""
        raise NotImplementedError

    async def load(self, group_id: str) -> StoredGroup:
        """What is stored of a group; an empty one if nothing is. At once where its slot is held, else waits a while.

        Do not keep it, ask again: it is the store's own. Raises KafkaError(COORDINATOR_LOAD_IN_PROGRESS,
        COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR).
        """
        raise NotImplementedError

    async def ready(self) -> None:
        """Wait a while until every slot is held, so that `groups` is complete; raises as `load`."""
        raise NotImplementedError

    def check(self, group_id: str) -> None:
        """Raise what `load` would, at once, unless the group's slot is held: cheap enough for every heartbeat."""
        raise NotImplementedError

    def groups(self) -> Iterable[str]:
        """The ids of all groups that have anything stored, in the slots held."""
        raise NotImplementedError

    def submit(self, group_id: str, records: Mapping[Key, bytes | None]) -> Awaitable[None]:
        """As `write`, having taken its place in the order when this returns; may be given up or not awaited."""
        raise NotImplementedError

    async def write(self, group_id: str, records: Mapping[Key, bytes | None]) -> None:
        """Store records of one group (None deletes); returns when Pulsar has acknowledged all of them.

        The order is that of the calls. Raises KafkaError as `load`, and INVALID_COMMIT_OFFSET_SIZE for a record that is
        too large; after COORDINATOR_NOT_AVAILABLE it may still come to be stored, before anything written later.
        """
        raise NotImplementedError
