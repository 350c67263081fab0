"""`bridge produce` and `bridge consume`, against a real bridge."""

import io
import json
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Producer

from bridge.cli.kafka import records
from tests.apis.wire import unique
from tests.cli.kafka.conftest import Said
from tests.support.bridges import BridgeThread

Run = Callable[..., Said]


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    """Give a command's standard input."""

    def give(data: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return give


def test_lines_become_records_and_records_lines(bridge: BridgeThread, run: Run, typed: Callable[..., None]) -> None:
    topic, at = unique("topic"), ("--bootstrap", bridge.kafka)
    typed(b"a:1\nb:2\n\xff:\xfe\n")
    code, lines, _ = run("produce", topic, "--key-separator", ":", "--header", "trace=7", *at)
    assert (code, lines) == (0, ["partition 0, offset 0", "partition 0, offset 1", "partition 0, offset 2"])
    assert run("consume", topic, "--until-end", *at) == (0, ["1", "2", "\ufffd"], "")
    _, lines, _ = run("consume", topic, "--until-end", "--json", *at)
    told: list[dict[str, Any]] = [json.loads(line) for line in lines]
    assert [one["offset"] for one in told] == [0, 1, 2]
    assert [(one["key"], one["value"]) for one in told] == [
        ("a", "1"), ("b", "2"), ({"base64": "/w=="}, {"base64": "/g=="}),
    ]  # fmt: skip
    assert all(one["headers"] == [["trace", "7"]] for one in told)
    assert run("consume", topic, "--start", "1", "--count", "1", *at) == (0, ["2"], "")
    assert run("consume", topic, "--start", "2999-01-01T00:00:00Z", "--until-end", *at) == (0, [], "")
    assert run("consume", topic, "--start", "2001-01-01T00:00:00Z", "--count", "1", *at) == (0, ["1"], "")


def test_a_group_goes_on_where_it_was(bridge: BridgeThread, run: Run, typed: Callable[..., None]) -> None:
    topic, group, at = unique("topic"), unique("group"), ("--bootstrap", bridge.kafka)
    typed(b"1\n2\n3\n")
    assert run("produce", topic, "--quiet", "--key", "k", *at) == (0, [], "")
    assert run("consume", topic, "--group", group, "--count", "2", *at)[1] == ["1", "2"]
    assert run("consume", topic, "--group", group, "--until-end", *at)[1] == ["3"]


def test_what_is_not_stored_is_an_error(bridge: BridgeThread, run: Run, typed: Callable[..., None]) -> None:
    topic, at = unique("topic"), ("--bootstrap", bridge.kafka)
    run("topic", "create", topic, "--set", "max.message.bytes=100", *at)
    typed(b"x" * 1000)
    code, _, complaint = run("produce", topic, *at)
    assert code == 1
    assert complaint.startswith("bridge: 0 records are stored, then: MSG_SIZE_TOO_LARGE")
    typed(b"no separator\n")
    assert run("produce", topic, "--key-separator", ":", *at)[0] == 1
    typed(b"a:1\nb:2\nno separator\nc:3\n")
    code, _, complaint = run("produce", topic, "--key-separator", ":", *at)
    assert (code, complaint[:42]) == (1, "bridge: 2 records are stored, then: a line")
    assert run("consume", topic, "--until-end", *at)[1] == ["1", "2"]
    assert run("consume", unique("gone"), *at)[0] == 1


def test_a_reader_that_has_enough_is_no_error(bridge: BridgeThread, run: Run, typed: Callable[..., None]) -> None:
    topic, at = unique("topic"), ("--bootstrap", bridge.kafka)
    typed(b"line\n" * 1000)
    run("produce", topic, "--quiet", *at)
    command = [sys.executable, "-m", "bridge", "consume", topic, *at]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as reading:
        assert reading.stdout is not None
        assert reading.stderr is not None
        assert reading.stdout.readline() == b"line\n"
        reading.stdout.close()
        typed(b"line\n" * 1000)
        run("produce", topic, "--quiet", *at)  # it ends when it writes
        assert reading.wait(30) == 0
        assert reading.stderr.read() == b""


def test_what_has_no_answer_yet_is_no_success(
    bridge: BridgeThread, run: Run, typed: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def impatient(config: dict[str, Any]) -> Any:
        one = Producer(config)
        return SimpleNamespace(produce=one.produce, poll=one.poll, flush=lambda seconds: one.flush(seconds) or 1)

    monkeypatch.setattr(records, "Producer", impatient)
    typed(b"1\n")
    code, _, complaint = run("produce", unique("topic"), "--bootstrap", bridge.kafka)
    assert code == 1
    assert "1 records are stored, of 1 there is no answer within 30 s" in complaint
