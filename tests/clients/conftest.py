"""Every test here runs against bridge; `--control` adds a real Apache Kafka, which must pass the same tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest

from tests.clients import endpoint as of_records
from tests.clients.endpoint import Clients, Endpoint
from tests.clients.logins.table import Table
from tests.clients.matrix import Plugin
from tests.clients.scene import Scene
from tests.clients.transactions import families as of_transactions
from tests.support.nodes import Nodes

_RING = tuple(dict.fromkeys((*of_records.FAMILIES, *of_transactions.FAMILIES, *of_transactions.GO)))
_OLDER = {"kafka-python-2", "java-3.9", "java-2.8"}
"""Releases of clients of which a newer one is tried, too."""
_OF_OLDER = {
    "test_a_client_is_asked_to_write_all_it_can",
    "test_a_committed_transaction_is_read_at_both_levels",
    "test_a_second_instance_fences_the_first",
    "test_a_topic_is_created_listed_described_and_deleted",
    "test_configs_are_described",
    "test_groups_are_listed_and_described",
    "test_offsets_are_told",
    "test_offsets_go_with_their_transaction",
    "test_one_member_reads_all_commits_leaves_and_resumes",
    "test_several_partitions_are_read_at_once",
    "test_two_members_share_the_partitions_and_each_record_comes_once",
}
"""Each API that they send in versions of their own."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--control", action="store_true", help="run the client tests against a real Apache Kafka too")
    parser.addoption("--nodes", type=int, default=1, help="of how many bridges the cluster under test is")
    told = "write a table of what each client was seen to do into this file, between its marks"
    parser.addoption("--matrix", type=Path, help=told)
    parser.addoption("--logins", type=Path, help="write what each client said at each log-in into this file likewise")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "control: runs against a real Apache Kafka instead of bridge")
    if config.option.collectonly:
        return  # nothing ran: the tables would lose what they tell
    path = config.getoption("--matrix", default=None)
    if path is not None:
        config.pluginmanager.register(Plugin(path), "clients-matrix")
    logins = config.getoption("--logins", default=None)
    if logins is not None:
        config.pluginmanager.register(Table(logins), "logins-table")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "endpoint" not in metafunc.fixturenames:
        return
    params = [pytest.param("bridge")]
    # the option is known only where this directory is named on the command line (`pytest tests/clients --control`)
    if metafunc.config.getoption("--control", default=False) and not _of_pulsar(metafunc):
        params.append(pytest.param("real_kafka", id="control", marks=pytest.mark.control))
    metafunc.parametrize("endpoint", params, indirect=True, scope="session")


@pytest.hookimpl(tryfirst=True)  # marks are there before `-m` selects
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What proves little that others do not is for `make soak`; with `--control` all is tried, for it is counted.

    Bad requests go to one server that leads and coordinates all they are about: it cannot be one of several.
    """
    if not config.getoption("--control", default=False):
        for item in items:
            if item.path.is_relative_to(Path(__file__).parent) and not _is_tried(item):
                item.add_marker(pytest.mark.soak)
    if config.getoption("--nodes", default=1) > 1:
        alone = [item for item in items if item.path.name == "test_refusals.py"]
        config.hook.pytest_deselected(items=alone)
        items[:] = [item for item in items if item not in alone]


def _is_tried(item: pytest.Item) -> bool:
    """Whether `make test` has it."""
    params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    if {"writer", "reader"} <= params.keys():  # a ring: each reads what it has written itself, and what one other has
        return (_RING.index(params["reader"]) - _RING.index(params["writer"])) % len(_RING) in (0, 1)
    if params.get("family") in _OLDER:
        return item.name.partition("[")[0] in _OF_OLDER
    return params.get("kills") != 0  # one that is killed works undisturbed at last


def _of_pulsar(metafunc: pytest.Metafunc) -> bool:
    """Whether a test looks at Pulsar beside the bridge, and has no control."""
    return not {"native", "pulsar"}.isdisjoint(metafunc.fixturenames)


@pytest.fixture(scope="session")
def endpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    """Return the server under test; the session starts each of them once."""
    if request.param == "bridge":
        # a process of its own: the Python clients and the bridge would otherwise share one interpreter lock
        pulsar_address = request.getfixturevalue("pulsar")
        overrides = {"groups": {"consumer_heartbeat_interval_ms": 200}}
        namespace, guard = pulsar_address.create_namespace(), request.getfixturevalue("guard")
        count = request.config.getoption("--nodes", default=1)
        nodes = Nodes(pulsar_address, namespace, guard, tmp_path_factory.mktemp("bridge"), count, overrides=overrides)
        try:
            nodes.start()
            nodes.wait_until_settled()  # kafka-python 2.x fails where leadership moves while it asks for offsets
            addresses = tuple(node.kafka for node in nodes.all)
            yield Endpoint("bridge", addresses, pulsar_address.service_url, pulsar_address.admin_url, namespace)
        finally:
            nodes.close()
        return
    yield Endpoint("control", (request.getfixturevalue("real_kafka").kafka,))


@pytest.fixture(scope="session")
def clients(endpoint: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    """Return the client families bound to the endpoint."""
    families = Clients(endpoint, tmp_path_factory.mktemp("clients"))
    try:
        yield families
    finally:
        families.close()


@pytest.fixture
def scene(clients: Clients) -> Iterator[Scene]:
    """Return a topic and a group of the test's own; who joins leaves with the test."""
    made = Scene(clients)
    yield made
    made.close()


@pytest.fixture(scope="module")
def native(endpoint: Endpoint) -> Iterator[Any]:
    """Return a native Pulsar client beside bridge; tests that use it have no control."""
    client = pulsar.Client(endpoint.pulsar, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        yield client
    finally:
        client.close()
