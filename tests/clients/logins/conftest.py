"""The servers and clients of these tests; `--control` adds a real Kafka, `--go` franz-go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from bridge.node.orphans import Guard
from tests.clients.logins import servers
from tests.clients.logins.attempts import Attempts
from tests.clients.logins.clients import Clients
from tests.clients.logins.ways import CASES, PASSWORDS, RIGHT, WRONG, has_way

CLIENTS = ("kafka-python", "confluent-kafka", "aiokafka", "Java", "kcat")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Which servers and clients there are."""
    config = metafunc.config
    if "server" in metafunc.fixturenames:
        params = [pytest.param("pulsar", id="bridge")]
        if config.getoption("--control", default=False):
            params.append(pytest.param("new_kafka", id="control", marks=pytest.mark.control))
        metafunc.parametrize("server", params, indirect=True, scope="session")
    if "client" not in metafunc.fixturenames:
        return
    clients = (*CLIENTS, "franz-go") if config.getoption("--go", default=False) else CLIENTS
    every = config.getoption("--control", default=False)

    def param(*words: str, tried: bool) -> object:
        return pytest.param(*words, marks=() if every or tried else pytest.mark.soak)

    if "case" in metafunc.fixturenames:
        cases = [
            param(client, mechanism, case, tried=case in (RIGHT, _wrong(number, client, mechanism)))
            for number, client in enumerate(clients)
            for mechanism, case in CASES
            if has_way(client, mechanism, case)
        ]
        metafunc.parametrize(("client", "mechanism", "case"), cases)
    else:
        both = [
            param(client, mechanism, tried=PASSWORDS[number % len(PASSWORDS)] == mechanism)
            for number, client in enumerate(clients)
            for mechanism in PASSWORDS
        ]
        metafunc.parametrize(("client", "mechanism"), both)


def _wrong(number: int, client: str, mechanism: str) -> str:
    """The way to be wrong that `make test` tries of a client: another one of each, `make soak` tries all."""
    ways = [case for case in WRONG[mechanism] if has_way(client, mechanism, case)]
    return ways[number % len(ways)]


@pytest.fixture(scope="session")
def server(
    request: pytest.FixtureRequest, guard: Guard, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[servers.Server]:
    """The server under test, with every mechanism."""
    directory = tmp_path_factory.mktemp("logins")
    if request.param == "pulsar":
        running: Any = servers.bridge(request.getfixturevalue("pulsar"), directory)
    else:
        running = servers.real_kafka(guard, directory)
    with running as started:
        yield started


@pytest.fixture(scope="session")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    """Every client."""
    made = Clients(tmp_path_factory.mktemp("clients"))
    yield made
    made.close()


@pytest.fixture(scope="session")
def attempts(server: servers.Server, clients: Clients) -> Attempts:
    """What each client was told by this server, asked once."""
    return Attempts(server, clients)
