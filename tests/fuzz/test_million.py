"""A million sound requests, changed by chance (`make soak`): each is answered or its connection closed, and the bridge
is as large afterwards as before."""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from bridge.standalone.guard import Guard
from tests.faults.figures import report
from tests.faults.processes import open_files, resident_bytes
from tests.faults.topics import create
from tests.fuzz import mutations
from tests.support.bridges import BridgeChild, settings_for
from tests.support.pulsar import PulsarAddress

MUTANTS = 1_000_000
_CLIENTS = 4
_FIRST = 20_000
"""What has been counted as before: caches are full then, and each kind of request has come."""
_MOST_GROWTH = 64 << 20
_MOST_FILES = 20


@pytest.fixture
def target(pulsar: PulsarAddress, namespace: str, tmp_path: Path, guard: Guard) -> Iterator[BridgeChild]:
    with BridgeChild(settings_for(pulsar, namespace), tmp_path / "bridge", guard) as child:
        yield child


def _some(address: str, topic: str, seed: int, count: int) -> tuple[int, int]:
    return mutations.run(address, topic, random.Random(seed), lambda sent: sent < count)


@pytest.mark.soak
@pytest.mark.timeout(3 * 3600)
def test_a_million_mutants_are_answered_or_closed(target: BridgeChild) -> None:
    topic = f"fuzz-{secrets.token_hex(3)}"
    create(target.kafka, topic)
    seeds = [secrets.randbits(32) for _ in range(_CLIENTS)]
    _some(target.kafka, topic, secrets.randbits(32), _FIRST)
    memory, files = resident_bytes(target.pid), open_files(target.pid)
    with ProcessPoolExecutor(_CLIENTS) as clients:
        share = MUTANTS // _CLIENTS
        found = list(clients.map(_some, *zip(*((target.kafka, topic, seed, share) for seed in seeds), strict=True)))
    answered, closed = (sum(column) for column in zip(*found, strict=True))
    grown, opened = resident_bytes(target.pid) - memory, open_files(target.pid) - files
    report(seeds=seeds, answered=answered, closed=closed, grown_mib=round(grown / (1 << 20), 1), files=opened)
    assert answered + closed >= MUTANTS
    assert grown < _MOST_GROWTH
    assert opened < _MOST_FILES
