"""A million sound requests, changed by chance (`make soak`): each is answered or its connection closed, and the bridge
is as large afterwards as before. A part alone: `pytest -sm soak tests/fuzz/test_million.py -k part-03`."""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import pytest

from bridge.node.orphans import Guard
from tests.faults.figures import report
from tests.faults.processes import open_files, resident_bytes
from tests.faults.topics import create
from tests.fuzz import mutations
from tests.support.bridges import BridgeChild, settings_for
from tests.support.pulsar import PulsarAddress

MUTANTS, PARTS = 1_000_000, 10
_CLIENTS = 4
_FIRST = 20_000
"""What has been counted as before: caches are full then, and each kind of request has come."""
_MOST_GROWTH = 64 << 20
_MOST_FILES = 20


class Target(NamedTuple):
    """A bridge that has seen mutants."""

    child: BridgeChild
    topic: str
    memory: int
    files: int


@pytest.fixture(scope="module")
def target(pulsar: PulsarAddress, guard: Guard, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    settings = settings_for(pulsar, pulsar.create_namespace())
    with BridgeChild(settings, tmp_path_factory.mktemp("million"), guard) as child:
        topic = f"fuzz-{secrets.token_hex(3)}"
        create(child.kafka, topic)
        _some(child.kafka, topic, secrets.randbits(32), _FIRST)
        yield Target(child, topic, resident_bytes(child.pid), open_files(child.pid))


def _some(address: str, topic: str, seed: int, count: int) -> tuple[int, int]:
    return mutations.run(address, topic, random.Random(seed), lambda sent: sent < count)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(1, PARTS + 1), ids="part-{:02}".format)
def test_a_million_mutants_are_answered_or_closed(target: Target, part: int) -> None:
    seeds = [secrets.randbits(32) for _ in range(_CLIENTS)]
    began = time.monotonic()
    with ProcessPoolExecutor(_CLIENTS) as clients:
        share = MUTANTS // PARTS // _CLIENTS
        each = ((target.child.kafka, target.topic, seed, share) for seed in seeds)
        found = list(clients.map(_some, *zip(*each, strict=True)))
    answered, closed = (sum(column) for column in zip(*found, strict=True))
    grown, opened = resident_bytes(target.child.pid) - target.memory, open_files(target.child.pid) - target.files
    report(
        part=part, seeds=seeds, answered=answered, closed=closed, seconds=round(time.monotonic() - began),
        grown_mib=round(grown / (1 << 20), 1), files=opened,
    )  # fmt: skip
    assert answered + closed >= MUTANTS // PARTS
    assert grown < _MOST_GROWTH
    assert opened < _MOST_FILES
