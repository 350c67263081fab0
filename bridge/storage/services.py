"""What all partition logs of a process share."""

from dataclasses import dataclass

from bridge.config import Settings
from bridge.metrics import StorageMetrics
from bridge.pulsar.admin import Admin
from bridge.pulsar.client import PulsarClient
from bridge.storage.catchup import CatchUps
from bridge.storage.deduplication import Deduplication
from bridge.storage.tail import TailCache


@dataclass(frozen=True, slots=True)
class Storage:
    """Wired once, in `server.py`."""

    settings: Settings
    client: PulsarClient
    admin: Admin
    metrics: StorageMetrics
    cache: TailCache
    catchups: CatchUps
    deduplication: Deduplication
    writer: str  # names this process among a topic's producers

    @property
    def largest_batch(self) -> int:
        """The most bytes one batch may have uncompressed."""
        return self.settings.kafka.max_request_bytes
