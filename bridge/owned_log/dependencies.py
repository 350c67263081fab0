"""What the slots of a log are given: Pulsar, limits, and whom to tell what."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from bridge.owned_log.compaction import CompactionMetrics
from bridge.owned_log.errors import OwnedLogError
from bridge.pulsar.admin import Admin
from bridge.pulsar.client import PulsarClient
from bridge.telemetry.instruments import Counter, Gauge, Histogram


class OwnedState(Protocol):
    """The state that a log's records make in memory. It is called on the event loop, and must not block or await."""

    def reset(self, slot: int) -> None:
        """Forget all records of the slot: it is about to be read, or is lost."""

    def apply(self, slot: int, key: str, value: bytes | None, *, replaying: bool) -> None:
        """A record is stored; None deletes its key. `replaying`: it is read while the slot is loading."""

    def live_records(self, slot: int) -> int:
        """How many keys of the slot have a value, about: what a compaction would keep."""

    def owned(self, slot: int) -> None:
        """The slot is owned from now on: all that it holds was applied."""

    def lost(self, slot: int) -> None:
        """The slot was owned and is not any more; `reset` came before."""


class OwnedLogMetrics(CompactionMetrics, Protocol):
    """What is counted of all slots together."""

    slots_held: Gauge
    slots_lost: Counter
    records_read: Counter
    records_unreadable: Counter
    records_written: Counter
    entries_written: Counter
    write_seconds: Histogram


@dataclass(frozen=True, slots=True)
class SlotDependencies:
    """What all slots of a log share."""

    client: PulsarClient
    admin: Admin
    state: OwnedState
    metrics: OwnedLogMetrics
    owner: str
    """Names this process in the markers."""
    compact_after: int
    """Records that a compaction could drop before one is asked for."""
    max_pending_bytes: int
    """Of one slot's writes that are not acknowledged; above, writes are refused."""
    create_topic: Callable[[], Awaitable[None]]
    translate: Callable[[OwnedLogError], Exception]
    """Makes what callers get of an error, one each time."""
