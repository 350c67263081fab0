"""kafka-python 2.x as a `Client`, through its driver."""

from __future__ import annotations

from pathlib import Path

from tests.clients.families.remote import Remote
from tests.clients.model import Draft
from tests.support.old_kafka_python import old_kafka_python_driver


class OldKafkaPython(Remote):
    """kafka-python 2.2: not idempotent, old request versions."""

    name = "kafka-python-2"
    creates_topics = True

    def __init__(self, bootstrap: str, log: Path) -> None:
        super().__init__(old_kafka_python_driver(bootstrap, log))

    def can_write(self, draft: Draft) -> bool:
        """It refuses a null value without a key, and null header values."""
        keyless_tombstone = draft.value is None and draft.key is None
        return not keyless_tombstone and all(value is not None for _, value in draft.headers)
