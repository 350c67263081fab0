"""One Spark session for all tests of the pipeline, a bridge and a real Kafka, each in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bridge.node.orphans import Guard
from bridge.pipeline.jars import connector_jars
from bridge.pipeline.options import EndpointOptions
from bridge.pipeline.session import SessionOptions, create_session
from tests.pipeline.running import KEEPING_CLASSES, QUICK, SHUFFLE_PARTITIONS, JobProcess, keep_classes
from tests.support.bridges import BridgeChild, settings_for
from tests.support.kafka_broker import KafkaBroker
from tests.support.pulsar import PulsarAddress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what makes the long run."""
    parser.addoption("--pipeline-records", type=int, default=12_000, help="how many go the whole way")
    parser.addoption("--pipeline-kills", type=int, default=1, help="how often each job is killed on it")


@pytest.fixture(scope="session")
def spark_jars() -> list[Path]:
    """Return the connector's jars, which Maven fetches where they are not in the cache."""
    return connector_jars()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Return the one session, set up as the jobs set theirs up."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**QUICK, **KEEPING_CLASSES}.items():
            patch.setenv(name, value)
        session = create_session(SessionOptions("local[2]", "1g", SHUFFLE_PARTITIONS))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def start_job(
    spark: SparkSession, guard: Guard, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., JobProcess]]:
    """Start a job in a process of its own, with a session of its own: `start_job("copy", …)`."""
    classes = tmp_path_factory.mktemp("classes") / "session.jsa"
    keep_classes(spark, classes)
    jobs: list[JobProcess] = []

    def start(*words: str) -> JobProcess:
        jobs.append(JobProcess(guard, classes, *words))
        return jobs[-1]

    yield start
    for job in jobs:
        job.stop()
    classes.unlink()  # it is large, and pytest keeps what is there for three runs


@pytest.fixture(scope="session")
def bridge_child(
    pulsar: PulsarAddress, guard: Guard, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BridgeChild]:
    """Return a bridge for all tests here: Spark and the bridge would otherwise share an interpreter."""
    with BridgeChild(
        settings_for(pulsar, pulsar.create_namespace()), tmp_path_factory.mktemp("bridge"), guard
    ) as child:
        yield child


@pytest.fixture(scope="session")
def at_bridge(bridge_child: BridgeChild) -> EndpointOptions:
    """Return the bridge as an endpoint of a job."""
    return EndpointOptions(bridge_child.kafka)


@pytest.fixture(scope="session")
def at_kafka(real_kafka: KafkaBroker) -> EndpointOptions:
    """Return a real Apache Kafka as an endpoint of a job."""
    return EndpointOptions(real_kafka.kafka)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let pass that PySpark leaves the sockets open over which results come from the JVM."""
    here = Path(__file__).parent
    leaks = "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings(leaks))
