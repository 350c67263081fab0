"""What is sent: sizes, partitions and batches, and how each system's client is told so."""

import random
import string
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

LINGER_MS = 5
"""Kafka's default since 4.0; Pulsar's client is given the same."""
IN_FLIGHT = 5
"""Kafka's max.in.flight.requests.per.connection. Pulsar's client bounds records: of so many batches and one more."""
_OVERHEAD = 10  # bytes of a record beside its value, about, in either format
_PAYLOADS = 200


@dataclass(frozen=True, slots=True)
class Load:
    """One line of a table of throughput."""

    size: int
    partitions: int
    batch_bytes: int
    megabytes: int
    compression: str = "none"

    @property
    def name(self) -> str:
        """As the tables show it."""
        size = "1 KB" if self.size == 1024 else f"{self.size} B"
        partitions = "1 partition" if self.partitions == 1 else f"{self.partitions} partitions"
        compression = "" if self.compression == "none" else f", {self.compression}"
        return f"{size}, {partitions}, {self.batch_bytes // 1024} KB batches{compression}"

    @property
    def records(self) -> int:
        """How many are sent."""
        return self.megabytes * 1_000_000 // self.size

    @property
    def bytes(self) -> int:
        """Of values."""
        return self.records * self.size

    def producer_settings(self, bootstrap: str) -> dict[str, str]:
        """Of Kafka's producer."""
        return {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "enable.idempotence": "true",
            "max.in.flight.requests.per.connection": str(IN_FLIGHT),
            "batch.size": str(self.batch_bytes),
            "linger.ms": str(LINGER_MS),
            "buffer.memory": "67108864",
            "compression.type": self.compression,
        }

    def pulsar_producer(self) -> dict[str, Any]:
        """The same for Pulsar's."""
        codec = "ZLIB" if self.compression == "gzip" else self.compression.upper()
        return {
            "batch_bytes": self.batch_bytes,
            "linger_ms": LINGER_MS,
            "pending": (IN_FLIGHT + 1) * max(1, self.batch_bytes // (self.size + _OVERHEAD)),
            "compression": codec,
        }


class Payloads(NamedTuple):
    """Files of values, one a line: what both systems' clients choose from at random."""

    directory: Path

    def of(self, size: int) -> Path:
        """Lines of so many bytes, which compress as text does: words from a small vocabulary."""
        path = self.directory / f"payloads-{size}"
        if not path.exists():
            chance = random.Random(size)  # noqa: S311 - the same in every run
            words = ["".join(chance.choices(string.ascii_lowercase, k=chance.randint(3, 9))) for _ in range(2000)]
            lines = [" ".join(chance.choices(words, k=size // 3))[:size] for _ in range(_PAYLOADS)]
            path.write_text("\n".join(lines), encoding="utf-8")
        return path
