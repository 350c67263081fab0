"""The server under test: bridge on a real Pulsar, or (the control) a real Apache Kafka."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import time_ns
from typing import cast
from uuid import uuid4

from tests.clients import drafts
from tests.clients.families.aio import AioKafka
from tests.clients.families.confluent import Confluent
from tests.clients.families.java import Java
from tests.clients.families.kafka_python import KafkaPython
from tests.clients.families.kcat import Kcat
from tests.clients.families.old_kafka_python import OldKafkaPython
from tests.clients.model import CODECS, Admin, Client, Codec, Delivery, Draft, Groups
from tests.support.java import KAFKA, OLD_CLIENTS, OLDEST_CLIENTS

FAMILIES = ("kafka-python", "kafka-python-2", "confluent", "aiokafka", "kcat", "java", "java-3.9")
JAVAS = {"java": KAFKA, "java-3.9": OLD_CLIENTS, "java-2.8": OLDEST_CLIENTS}

_ALL = set(FAMILIES)
_JAVA = {"java", "java-3.9"}
# what a client has a way to do, beyond producing and consuming by assignment
ABILITIES = {
    "join": _ALL,
    # kcat commits when it ends, and cannot be asked to
    "commit": _ALL - {"kcat"},
    "static": _ALL - {"kafka-python-2"},
    "cooperative": {"kafka-python", "confluent"} | _JAVA,
    "commit-alone": _ALL - {"kcat"},
    "describe-groups": _ALL - {"kcat"},
    "delete-groups": _ALL - {"kcat", "aiokafka"},
    "alter-group-offsets": {"kafka-python", "confluent"} | _JAVA,
    "delete-group-offsets": {"kafka-python"} | _JAVA,
    "configs": _ALL - {"kcat"},
    "set-config": {"kafka-python", "confluent"} | _JAVA,
    "replace-configs": {"kafka-python", "kafka-python-2", "confluent", "aiokafka"},
    "add-partitions": _ALL - {"kcat"},
    "delete-records": _ALL - {"kcat"},
}


def able(ability: str) -> list[str]:
    """Return the families that can do something, in order."""
    return [family for family in FAMILIES if family in ABILITIES[ability]]


def unique(prefix: str) -> str:
    """Return a fresh topic name."""
    return f"{prefix}-{uuid4().hex[:12]}"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the servers listen; the Pulsar side is there only for bridge."""

    name: str
    nodes: tuple[str, ...]
    pulsar: str = ""
    admin: str = ""
    namespace: str = ""

    @property
    def kafka(self) -> str:
        """The address of one of the nodes, another each time."""
        return random.choice(self.nodes)


@dataclass(frozen=True, slots=True)
class Written:
    """What one client wrote into one topic, with what it was told."""

    topic: str
    drafts: tuple[Draft, ...]
    deliveries: tuple[Delivery, ...]
    started: int
    ended: int


@dataclass(slots=True)
class Clients:
    """The client families bound to one endpoint, each made when it is first needed, and what they wrote."""

    endpoint: Endpoint
    directory: Path
    _made: dict[str, Client] = field(default_factory=dict)
    _written: dict[tuple[str, str], Written] = field(default_factory=dict)

    def __getitem__(self, family: str) -> Client:
        if family not in self._made:
            self._made[family] = self._make(family)
        return self._made[family]

    def groups(self, family: str) -> Groups:
        """Return a client whose groups are asked for; ABILITIES says which have some."""
        return cast(Groups, self[family])

    def admin(self, family: str) -> Admin:
        """Return a client that administers; ABILITIES says which do."""
        return cast(Admin, self[family])

    def creator(self, family: str) -> Client:
        """Return the client itself, or another one where it has no way to create a topic."""
        return self[family] if self[family].creates_topics else self["confluent"]

    def all_fields(self, family: str) -> Written:
        """Return the topic with every variety of every field that this client can write; written once."""

        def write(client: Client, topic: str) -> tuple[list[Draft], list[Delivery]]:
            possible = [draft for draft in drafts.all_fields() if client.can_write(draft)]
            return possible, client.write(topic, possible)

        return self._once("fields", family, drafts.PARTITIONS, write)

    def compressed(self, family: str) -> Written:
        """Return the topic with one partition for each codec that this client compressed with; written once."""

        def write(client: Client, topic: str) -> tuple[list[Draft], list[Delivery]]:
            batches: list[tuple[Codec, list[Draft]]] = [(codec, drafts.compressible(codec)) for codec in CODECS]
            deliveries = [delivery for codec, batch in batches for delivery in client.write(topic, batch, codec)]
            return [draft for _, batch in batches for draft in batch], deliveries

        return self._once("compressed", family, len(CODECS), write)

    def close(self) -> None:
        """Close what was made."""
        for client in self._made.values():
            client.close()

    def _once(
        self,
        kind: str,
        family: str,
        partitions: int,
        write: Callable[[Client, str], tuple[Sequence[Draft], Sequence[Delivery]]],
    ) -> Written:
        if (kind, family) not in self._written:
            topic = unique(f"{kind}-{family}")
            self.creator(family).create_topic(topic, partitions)
            started = time_ns() // 1_000_000
            done, deliveries = write(self[family], topic)
            ended = time_ns() // 1_000_000
            self._written[kind, family] = Written(topic, tuple(done), tuple(deliveries), started, ended)
        return self._written[kind, family]

    def _make(self, family: str) -> Client:
        bootstrap = self.endpoint.kafka
        if family in JAVAS:
            return Java(family, JAVAS[family], bootstrap, self.directory / family)
        if family == "kafka-python-2":
            return OldKafkaPython(bootstrap, self.directory / "kafka-python-2.log")
        simple: dict[str, Callable[[str], Client]] = {
            "kafka-python": KafkaPython,
            "confluent": Confluent,
            "aiokafka": AioKafka,
            "kcat": Kcat,
        }
        return simple[family](bootstrap)
