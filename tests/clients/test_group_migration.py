"""Groups that go from the classic protocol to the new one member by member, and back, under load (KIP-848).

Nothing is lost. A record comes twice only where a member had not committed it when it lost its partition.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator

import pytest

from tests.clients.endpoint import Clients
from tests.clients.members import Member, until, until_shared
from tests.clients.model import Draft
from tests.clients.scene import Scene

CLASSIC = [
    ("java", {}),
    ("java", {"cooperative": True}),
    ("confluent", {}),
    ("confluent", {"cooperative": True}),
    ("kafka-python", {}),
]


class Load:
    """A thread that writes numbers, evenly to all partitions, until it is stopped."""

    def __init__(self, scene: Scene, clients: Clients) -> None:
        self.written: list[str] = []
        self._scene, self._client = scene, clients["confluent"]
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _write(self) -> None:
        numbers = itertools.count()
        while not self._stopped.wait(0.02):
            values = [str(next(numbers)) for _ in range(self._scene.partitions)]
            drafts = [Draft("", value.encode(), None, partition=at) for at, value in enumerate(values)]
            self._client.write(self._scene.topic, drafts)
            self.written += values


@pytest.fixture
def load(scene: Scene, clients: Clients) -> Iterator[Load]:
    with Load(scene, clients) as load:
        yield load


def replace(scene: Scene, old: Member, family: str, others: list[Member], **options: object) -> Member:
    """One more joins; when all share, the old one commits and goes, and the rest share again."""
    new = scene.join(family, **options)
    until_shared([*others, old, new], scene.partitions)
    old.commit()
    old.leave()
    until_shared([*others, new], scene.partitions)
    return new


@pytest.mark.parametrize(("family", "options"), CLASSIC, ids=lambda one: one if isinstance(one, str) else "-".join(one))
def test_members_are_replaced_one_by_one_both_ways(
    scene: Scene, load: Load, family: str, options: dict[str, bool]
) -> None:
    members = [scene.join(family, **options) for _ in range(2)]
    until_shared(members, scene.partitions)
    everyone = list(members)
    news = ["java", "confluent"]
    for to, more in ((news, {"protocol": "consumer"}), ([family, family], options)):
        for at, client in enumerate(to):
            others = members[:at] + members[at + 1 :]
            members[at] = replace(scene, members[at], client, others, **more)
            everyone.append(members[at])
    load.__exit__()
    written = set(load.written)
    until("all records", lambda: written <= {value for one in everyone for value in one.values}, *members)
    for member in members:
        member.commit()
    assert len(written) > 100
