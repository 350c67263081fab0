"""The Java client (kafka-clients 4.x and 3.9, default settings) as a `Client`, through one long-lived driver."""

from __future__ import annotations

from pathlib import Path

from tests.clients.families.remote import Remote
from tests.clients.model import Draft
from tests.support.java import Jars, java_driver

SOURCES = Path(__file__).parent.parent / "java"


class Java(Remote):
    """kafka-clients: idempotent producer, ApiVersions v4, AdminClient."""

    creates_topics = True

    def __init__(self, name: str, jars: Jars, bootstrap: str, work: Path) -> None:
        super().__init__(java_driver(SOURCES, jars, bootstrap, work))
        self.name = name

    def can_write(self, draft: Draft) -> bool:
        """It can write all there is."""
        return True
