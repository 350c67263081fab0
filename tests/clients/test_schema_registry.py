"""Apicurio Registry keeps its schemas in topics; Maven fetches it, so only in `make soak`.

BRIDGE_TEST_REGISTRY names another version than the newest one on Maven Central that Java 17 runs: 3.3.3 needs Java 21.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from bridge.node.orphans import Guard
from bridge.standalone import probe
from bridge.standalone.child import Child
from bridge.standalone.maven import cache_directory
from bridge.standalone.ports import HOST, any_free
from tests.clients.endpoint import Clients, Endpoint, unique
from tests.clients.model import Draft
from tests.support.bridges import BridgeChild
from tests.support.examples import blocks, replaced
from tests.support.java import QUICK_START
from tests.support.programs import require
from tests.support.pulsar import PulsarAddress
from tests.support.sources import ROOT

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

VERSION = os.environ.get("BRIDGE_TEST_REGISTRY", "3.0.9")
PROPERTIES = blocks(ROOT / "docs" / "clients.md")["apicurio"]
ORDER = {"type": "record", "name": "Order", "fields": [{"name": "item", "type": "string"}]}
WITH_NOTE = {**ORDER, "fields": [*ORDER["fields"], {"name": "note", "type": "string", "default": ""}]}
INCOMPATIBLE = {**ORDER, "fields": [{"name": "amount", "type": "long"}]}
"""It cannot read what was written with the others: they have no amount."""


class Registry:
    """A process of Apicurio's. Its database is in memory: at its start it knows what it reads from its topics."""

    def __init__(self, program: Path, properties: str, directory: Path, guard: Guard) -> None:
        """`properties`: those of docs/clients.md, with an address."""
        (self._jar,) = program.glob("*-run*.jar")
        self._port = any_free()
        self._management = any_free()
        self._properties = replaced(properties, {"http.port=8081": f"http.port={self._port}"})
        self._directory = directory
        self.child = Child("Apicurio Registry", guard, directory / "log")

    def start(self) -> None:
        """Start it with an empty disk, and wait until it is ready."""
        disk = self._directory / "disk"
        shutil.rmtree(disk, ignore_errors=True)
        (disk / "config").mkdir(parents=True)
        (disk / "config" / "application.properties").write_text(self._properties)
        settings = {
            "apicurio.storage.snapshot.location": disk,
            "java.io.tmpdir": disk,
            "quarkus.http.host": HOST,
            "quarkus.management.host": HOST,
            "quarkus.management.port": self._management,
        }
        options = [*QUICK_START, "-Xmx512m", *(f"-D{name}={value}" for name, value in settings.items())]
        self.child.start([require("java"), *options, "-jar", str(self._jar)], cwd=disk)
        self.wait_for("subjects")

    def wait_for(self, path: str) -> Any:
        """What it answers when it can."""
        answers: list[Any] = []

        def problem() -> str | None:
            try:
                status, said = self.ask("GET", path)
            except OSError as error:
                return f"{error}\n{self.child.last_lines(40)}"
            answers.append(said)
            return None if status == 200 else f"{status} {said}\n{self.child.last_lines(40)}"

        probe.wait_until_ready(self.child, problem, 120)
        return answers[-1]

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """What it answers by Confluent's API: status, and JSON."""
        connection = http.client.HTTPConnection(HOST, self._port, timeout=60)
        try:
            headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
            sent = None if body is None else json.dumps(body)
            connection.request(method, f"/apis/ccompat/v7/{path}", sent, headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def register(self, subject: str, schema: object) -> int:
        """The id of a schema, new or not."""
        status, said = self.ask("POST", f"subjects/{subject}/versions", {"schema": json.dumps(schema)})
        assert status == 200, (said, self.child.last_lines(40))
        return int(said["id"])

    def schema(self, number: int) -> Any:
        """The schema of an id. What another registry has written it reads a moment later."""
        return json.loads(self.wait_for(f"schemas/ids/{number}")["schema"])


@pytest.fixture(scope="module")
def program() -> Path:
    """Return the directory that Maven has unpacked Apicurio Registry into, once."""
    target = cache_directory() / f"apicurio-registry-{VERSION}"
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as work:
            # newer ones of this plug-in ask for the pom's parent, and that of 3.0.9 is not published
            goal = "org.apache.maven.plugins:maven-dependency-plugin:2.10:unpack"
            artifact = f"-Dartifact=io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
            command = [require("mvn"), "-B", goal, artifact, f"-DoutputDirectory={work}/made"]
            subprocess.run(command, cwd=work, check=True)
            Path(work, "made").rename(target)
    return target


@pytest.fixture(scope="module")
def new_registry(
    program: Path, guard: Guard, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Registry]]:
    """Start a registry on the server of this address."""
    with ExitStack() as started:

        def start(bootstrap: str) -> Registry:
            properties = replaced(PROPERTIES, {"127.0.0.1:9092": bootstrap})
            made = Registry(program, properties, tmp_path_factory.mktemp("registry"), guard)
            started.callback(made.child.kill)
            made.start()
            return made

        yield start


@pytest.fixture(scope="module")
def registry(endpoint: Endpoint, new_registry: Callable[[str], Registry]) -> Registry:
    return new_registry(endpoint.kafka)


@pytest.mark.usefixtures("registry")
def test_it_makes_its_topics_and_they_keep_all(endpoint: Endpoint, pulsar: PulsarAddress) -> None:
    for topic in "kafkasql-journal", "kafkasql-snapshots", "registry-events":
        kept = pulsar.admin("GET", f"persistent/{endpoint.namespace}/{topic}/retention")
        assert kept == {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}, topic


def test_an_incompatible_schema_is_refused(registry: Registry) -> None:
    subject = unique("orders")
    first = registry.register(subject, ORDER)
    assert registry.schema(first) == ORDER
    assert registry.ask("PUT", f"config/{subject}", {"compatibility": "BACKWARD"})[0] == 200
    assert registry.register(subject, WITH_NOTE) != first
    assert registry.ask("POST", f"subjects/{subject}/versions", {"schema": json.dumps(INCOMPATIBLE)})[0] == 409
    assert registry.ask("GET", f"subjects/{subject}/versions") == (200, [1, 2])


def test_two_registries_have_one_state_and_it_outlives_them(
    registry: Registry, endpoint: Endpoint, new_registry: Callable[[str], Registry]
) -> None:
    other = new_registry(endpoint.kafka)
    schemas = [{**ORDER, "name": f"Order{n}"} for n in range(20)]
    subject = unique("each")

    def register(n: int) -> int:
        return (registry, other)[n % 2].register(f"{subject}-{n}", schemas[n])

    with ThreadPoolExecutor(4) as threads:
        ids = list(threads.map(register, range(len(schemas))))
    assert len(set(ids)) == len(ids)
    for each in registry, other:
        assert [each.schema(number) for number in ids] == schemas
    for each in registry, other:
        each.child.kill()
    for each in registry, other:
        each.start()
        assert [each.schema(number) for number in ids] == schemas
    assert registry.register(f"{subject}-0", schemas[0]) == ids[0]
    assert registry.register(f"{subject}-new", {**ORDER, "name": "New"}) not in ids


def test_records_are_read_by_the_schemas_of_their_ids(registry: Registry, clients: Clients) -> None:
    """In the registries' format: 0, four bytes of the schema's id, Avro."""
    topic = unique("orders")
    before, after = (registry.register(f"{topic}-value", schema) for schema in (ORDER, WITH_NOTE))

    def written(number: int, *texts: str) -> Draft:
        # of a short text Avro writes twice its length in a byte, then the text (zigzag)
        avro = b"".join(bytes([2 * len(text)]) + text.encode() for text in texts)
        return Draft("", b"\0" + number.to_bytes(4, "big") + avro)

    def read(value: bytes) -> dict[str, str]:
        assert value[0] == 0
        fields, avro = registry.schema(int.from_bytes(value[1:5], "big"))["fields"], BytesIO(value[5:])
        return {field["name"]: avro.read(avro.read(1)[0] // 2).decode() for field in fields}

    clients["confluent"].create_topic(topic, 1)
    clients["confluent"].write(topic, [written(before, "tea"), written(after, "milk", "cold")])
    records = clients["kafka-python"].read(topic, {0: "beginning"})
    assert [read(record.value or b"") for record in records] == [{"item": "tea"}, {"item": "milk", "note": "cold"}]


def test_it_goes_on_where_the_bridge_was_killed(
    bridge_process: Callable[..., BridgeChild], new_registry: Callable[[str], Registry]
) -> None:
    bridge = bridge_process()
    registry = new_registry(bridge.kafka)
    before = registry.register("orders", ORDER)
    bridge.kill()
    with ThreadPoolExecutor(1) as threads:
        meanwhile = threads.submit(registry.register, "meanwhile", {**ORDER, "name": "Meanwhile"})
        bridge.start()
        assert meanwhile.result() != before
    after = registry.register("orders", WITH_NOTE)
    assert (registry.schema(before), registry.schema(after)) == (ORDER, WITH_NOTE)
