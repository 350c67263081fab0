"""The client families with transactions, bound to one endpoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.clients.endpoint import JAVAS, Endpoint
from tests.clients.transactions.aio import AioTransactions
from tests.clients.transactions.confluent import ConfluentTransactions
from tests.clients.transactions.go_client import GoTransactions
from tests.clients.transactions.java import JavaTransactions
from tests.clients.transactions.kafka_python import KafkaPythonTransactions
from tests.clients.transactions.kcat import KcatReaders
from tests.clients.transactions.model import Family, Readers

FAMILIES = ("confluent", "kafka-python", "aiokafka", "java", "java-3.9", "java-2.8")
KCAT = "kcat"
GO = {"franz-go": "franz", "sarama": "sarama"}
"""With `--go`, and the driver's name."""


class Families:
    """The families bound to the endpoint, each made when it is first needed."""

    def __init__(self, endpoint: Endpoint, directory: Path) -> None:
        self._bootstrap, self._directory = endpoint.kafka, directory
        self._made: dict[str, Family] = {}

    def readers_of(self, name: str) -> Readers:
        """The families, and kcat, which has readers alone: a transaction of its is a whole run."""
        return KcatReaders(self._bootstrap) if name == KCAT else self[name]

    def __getitem__(self, name: str) -> Family:
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def close(self) -> None:
        """End what they run."""
        for family in self._made.values():
            family.close()

    def _make(self, name: str) -> Family:
        if name in JAVAS:
            return JavaTransactions(JAVAS[name], self._bootstrap, self._directory / name)
        if name in GO:
            return GoTransactions(GO[name], self._bootstrap, self._directory)
        simple: dict[str, Callable[[str], Family]] = {
            "confluent": ConfluentTransactions,
            "kafka-python": KafkaPythonTransactions,
            "aiokafka": AioTransactions,
        }
        return simple[name](self._bootstrap)
