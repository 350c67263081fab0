"""What every test can ask for: a real Pulsar, a namespace of its own, a bridge in this process or as a child.

BRIDGE_TEST_PULSAR and BRIDGE_TEST_PULSAR_ADMIN (both) name a Pulsar to use instead of starting one.
"""

import gc
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from bridge.codec import TWIN, choose
from bridge.errors import StartupError
from bridge.node.orphans import Guard
from bridge.standalone.jars import ensure_pulsar_jars
from bridge.standalone.jvm import QUICK_START
from bridge.standalone.tools import find_java
from tests.support import class_archives, effort, java, kafka_python, needs, offline, pulsar_versions, side_by_side
from tests.support.bridges import BridgeChild, BridgeThread, settings_for
from tests.support.group_slots import wait_until_shared
from tests.support.kafka_broker import KafkaBroker, NewKafka
from tests.support.pulsar import NewPulsar, PrivatePulsar, PulsarAddress, make_pulsar

Sections = Mapping[str, Any]


def pytest_addoption(parser: pytest.Parser) -> None:
    effort.add_option(parser)
    pulsar_versions.add_option(parser)
    parser.addoption("--schedule-seed", type=int, help="run this seed alone, of the scenarios that -k selects")
    parser.addoption("--go", action="store_true", help="franz-go as well: needs Go, which fetches its modules")
    parser.addoption(
        "--offline",
        action="store_true",
        help="refuse the network but loopback, and what tests/support/programs.txt has",
    )


def pytest_configure(config: pytest.Config) -> None:
    # There `ast.parse` may raise SystemError while a finalizer parses, too (python/cpython#106905). pytest's tracebacks
    # parse whole files, and the session ends with an internal error instead of the failure; Python's own survive it.
    if sys.version_info < (3, 11, 8) and config.option.tbstyle == "auto":
        config.option.tbstyle = "native"
    gc.disable()  # until all is collected, which makes millions of objects and no garbage
    effort.configure(config)
    kafka_python.forgive_leaks()
    # the log that a test looks at does not tell that the machine is slow; tests of the watchdog set its level back
    logging.getLogger("bridge.runtime.watchdog").setLevel(logging.ERROR)
    pulsar_versions.configure(config, given="BRIDGE_TEST_PULSAR" in os.environ)
    if config.getoption("--offline"):
        offline.enforce()
    if hasattr(config, "workerinput"):  # pytest-xdist's, `-n 2`
        config.pluginmanager.register(side_by_side.Worker(config.workerinput[side_by_side.ROOM]), "side-by-side")


def pytest_unconfigure() -> None:
    """Leave no process behind."""
    java.end_tools()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a process where the locks are that it shares with the other."""
    node.workerinput[side_by_side.ROOM] = side_by_side.shared_directory(node.config)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Choose which process runs which tests."""
    return side_by_side.scheduler(config, log)


@pytest.fixture(autouse=True)
def nothing_refused() -> Iterator[None]:
    """Fail the test that went where `--offline` lets nothing go."""
    offline.refused.clear()
    yield
    assert not offline.refused


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test by the servers that its fixtures start, before `-m` selects."""
    needs.mark(items)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """No garbage is looked for among what stays to the end."""
    gc.freeze()
    gc.enable()


def pytest_report_header() -> list[str]:
    """Say which Pulsar the tests run against, and which twins of the codec are there."""
    try:
        twins = f"python and {choose('native')[0]}, {TWIN} in use"
    except StartupError as error:
        twins = f"python alone: {error}"
    return [
        f"pulsar: {os.environ.get('BRIDGE_TEST_PULSAR', 'started by the session when a test needs it')}",
        f"codec: {twins}",
    ]


@pytest.fixture(scope="session")
def guard() -> Iterator[Guard]:
    """Ends the children of a test run that is killed."""
    with Guard() as guard:
        yield guard


@pytest.fixture(scope="session")
def pulsar_jars() -> None:
    """Fetch Pulsar's jars before the time limit of a test that starts Pulsar by a command."""
    ensure_pulsar_jars(print)


@pytest.fixture
def quick_pulsar(pulsar_jars: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the JVMs of a command start as quickly as those that tests start themselves."""
    java, jars = find_java(), ensure_pulsar_jars(print)
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", " ".join((*QUICK_START, *class_archives.options(java, jars))))


@pytest.fixture(scope="session")
def new_pulsar(guard: Guard, tmp_path_factory: pytest.TempPathFactory) -> NewPulsar:
    """Make a Pulsar that is not started: `new_pulsar()`, `new_pulsar({"name": "value"}, directory)`."""

    def make(
        settings: Mapping[str, str] | None = None,
        directory: Path | None = None,
        of_port: Callable[[int], Mapping[str, str]] | None = None,
    ) -> PrivatePulsar:
        return make_pulsar(directory or tmp_path_factory.mktemp("pulsar"), guard, settings, of_port)

    return make


@pytest.fixture
def own_log() -> Iterator[None]:
    """The log of this process may be configured: pytest gets its own handlers back."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)


@pytest.fixture(scope="session")
def pulsar(new_pulsar: NewPulsar) -> Iterator[PulsarAddress]:
    """The session's Pulsar; tests that disturb it use `private_pulsar`."""
    given = os.environ.get("BRIDGE_TEST_PULSAR"), os.environ.get("BRIDGE_TEST_PULSAR_ADMIN")
    if given[0] and given[1]:
        yield PulsarAddress(given[0], given[1])
        return
    started = new_pulsar()
    started.start()
    yield started
    started.kill()  # its data goes with it


@pytest.fixture(scope="session")
def new_kafka(guard: Guard, tmp_path_factory: pytest.TempPathFactory) -> NewKafka:
    """Make an Apache Kafka that is not started: `new_kafka()`, `new_kafka(protocol="SASL_SSL", settings={…})`."""

    def make(**options: Any) -> KafkaBroker:
        return KafkaBroker(tmp_path_factory.mktemp("kafka"), guard, **options)

    return make


@pytest.fixture(scope="session")
def real_kafka(new_kafka: NewKafka) -> Iterator[KafkaBroker]:
    """The session's Apache Kafka: the control of what is said of the bridge."""
    broker = new_kafka()
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


@pytest.fixture(scope="module", name="private_pulsar")
def private_pulsar_factory(new_pulsar: NewPulsar) -> Iterator[NewPulsar]:
    """Start a Pulsar that the module may kill: `private_pulsar()`, `private_pulsar({"name": "value"})`."""
    with ExitStack() as started:

        def start(settings: Mapping[str, str] | None = None) -> PrivatePulsar:
            made = new_pulsar(settings)
            started.callback(made.kill)
            made.start()
            return made

        yield start


@pytest.fixture(scope="module")
def namespace(pulsar: PulsarAddress) -> str:
    """A fresh namespace with unlimited retention on the session's Pulsar."""
    return pulsar.create_namespace()


@pytest.fixture(scope="session")
def bridge(pulsar: PulsarAddress) -> Iterator[BridgeThread]:
    """One bridge for the whole session, with the default settings, on a namespace of its own."""
    running = BridgeThread(settings_for(pulsar, pulsar.create_namespace()))
    running.start()
    wait_until_shared(running)  # a request about a group waits seconds for its slot: clients ask again, tests do not
    yield running
    running.stop()


@pytest.fixture
def bridge_with(pulsar: PulsarAddress, namespace: str) -> Iterator[Callable[..., BridgeThread]]:
    """Start a bridge with other settings: `bridge_with(kafka={"max_request_bytes": 2048})`."""
    with ExitStack() as started:

        def start(at: PulsarAddress = pulsar, in_namespace: str = namespace, **overrides: Sections) -> BridgeThread:
            running = BridgeThread(settings_for(at, in_namespace, overrides))
            running.start()
            started.callback(running.stop)
            return running

        yield start


@pytest.fixture
def bridge_process(
    pulsar: PulsarAddress, namespace: str, guard: Guard, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., BridgeChild]]:
    """Start a real `bridge run`, with a pid to kill: `bridge_process()`, `bridge_process(at=private, ...)`."""
    with ExitStack() as started:

        def start(at: PulsarAddress = pulsar, in_namespace: str = namespace, **overrides: Sections) -> BridgeChild:
            child = BridgeChild(settings_for(at, in_namespace, overrides), tmp_path_factory.mktemp("bridge"), guard)
            started.callback(child.kill)
            child.start()
            return child

        yield start
