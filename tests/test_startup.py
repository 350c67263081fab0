"""What a start loads: each module more is a longer gap for the clients of a bridge that starts again."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import packages_distributions

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from bridge.codec import TWIN
from tests.support.bridges import BridgeChild

NOT_BEFORE_IT_IS_USED = {
    "bridge.check.table": "what `bridge check` shows",
    "bridge.codec._python": "the codec that is not in use",
    "bridge.telemetry.exposition": "the first scrape of /metrics",
    "bridge.standalone": "`bridge standalone`",
    "crc32c": "the Python codec; it asks importlib.metadata for its own version",
    "email": "http.client, importlib.metadata",
    "http": "http.client, http.server",
    "importlib.metadata": "reads through all that is installed",
    "kafka": "the demonstration of `bridge standalone`",
    "multiprocessing": "nothing of ours",
    "prometheus_client": "the first scrape of /metrics",
    "pulsar": "the demonstration of `bridge standalone`",
    "unittest": "nothing of ours",
    "xml": "nothing of ours",
}
"""Modules that a start does not need, with all in them, and what does."""

OF_OTHERS = {"backports", "cramjam", "google", "h11", "lz4", "uvloop"}
"""The packages that a start needs. One more costs every start: `python -X importtime -m bridge run` tells how much."""

_LINE = re.compile(r"^import time: +\d+ \| +\d+ \| *(\S+)$", re.MULTILINE)


@pytest.fixture
def timed(bridge_process: Callable[..., BridgeChild], monkeypatch: pytest.MonkeyPatch) -> BridgeChild:
    """A bridge that writes each import to its log when it is done."""
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    return bridge_process()


def imports(bridge: BridgeChild) -> tuple[list[str], list[str]]:
    """The modules that were imported before and after it was ready, without what any Python loads here (`site`)."""
    before, ready, after = bridge.process.child.output.read_text().partition("bridge.node.server = ready")
    assert ready
    loaded = _LINE.findall(before)
    return loaded[loaded.index("site") + 1 :], _LINE.findall(after)


def test_a_start_loads_what_it_needs_and_no_more(timed: BridgeChild) -> None:
    before, _ = imports(timed)
    assert "bridge.node.server" in before and "bridge.kafka.fetch_wire" in before
    not_yet = set(NOT_BEFORE_IT_IS_USED)
    if TWIN == "python":
        not_yet -= {"bridge.codec._python", "crc32c", "email", "importlib.metadata"}
    found = {module for module in before for early in not_yet if module == early or module.startswith(f"{early}.")}
    assert not found, {module: NOT_BEFORE_IT_IS_USED.get(module) for module in found}
    # what was looked for in vain is in the list, too
    packages = {module.partition(".")[0] for module in before} & packages_distributions().keys()
    assert packages - {"bridge", "crc32c"} <= OF_OTHERS


def test_the_first_clients_wait_for_no_import(timed: BridgeChild) -> None:
    topic = "imports"
    producer = Producer({"bootstrap.servers": timed.kafka, "enable.idempotence": True, "compression.type": "zstd"})
    producer.produce(topic, b"value", key=b"key", headers={"a": b"b"})
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": timed.kafka, "group.id": "imports", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    (message,) = consumer.consume(1, 30)
    assert message.value() == b"value"
    assert consumer.commit(asynchronous=False)
    assert consumer.offsets_for_times([TopicPartition(topic, 0, 0)], 30)
    consumer.close()
    _, after = imports(timed)
    assert not after  # an import holds the event loop for as long as it takes


@pytest.mark.parametrize("command", ["ready", "--version"])
def test_a_command_that_health_checks_and_people_wait_for_loads_no_server_and_no_event_loop(command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "bridge", command],
        env={**os.environ, "BRIDGE_HTTP_LISTEN": "127.0.0.1:1"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    loaded = set(_LINE.findall(done.stderr))
    assert "bridge.cli.command" in loaded
    assert not loaded & {"asyncio", "bridge.http.server", "bridge.telemetry.metrics", "h11", "shtab", "tqdm"}
