"""A cluster of three brokers and three bookies for all tests of this folder, with a bridge before it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bridge.node.orphans import Guard
from tests.support.bridges import BridgeChild, started_children
from tests.support.pulsar_cluster import RealCluster, make_cluster

BROKERS = 3


@pytest.fixture(scope="package")  # it ends with the last of them: seven JVMs that idle take a tenth of a core
def real_cluster(pulsar_jars: None, guard: Guard, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """The cluster; it takes twenty seconds to start."""
    made = make_cluster(tmp_path_factory.mktemp("cluster"), guard, BROKERS)
    made.start()
    yield made
    made.kill()


@pytest.fixture
def cluster(real_cluster: RealCluster) -> Iterator[RealCluster]:
    """The cluster; what a test kills is started again after it."""
    yield real_cluster
    real_cluster.heal()


@pytest.fixture
def cluster_namespace(cluster: RealCluster) -> str:
    """A namespace of the test's own."""
    return cluster.create_namespace()


@pytest.fixture
def start_bridge(
    cluster: RealCluster, cluster_namespace: str, guard: Guard, tmp_path: Path
) -> Iterator[Callable[..., BridgeChild]]:
    """Start bridges on the test's namespace, at all brokers unless told otherwise."""
    yield from started_children(cluster, cluster_namespace, guard, tmp_path)


@pytest.fixture
def topic() -> str:
    """A fresh name."""
    return f"cluster-{secrets.token_hex(3)}"
