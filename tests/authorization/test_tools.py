"""Kafka's own tools, unchanged, over SASL_SSL with SCRAM: each says what it says on a real Kafka."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from bridge.node.orphans import Guard
from tests.authorization.secure import Secured, bridge, real_kafka
from tests.authorization.steps import FILE, FIRST, REST, STEPS, Step

RECORDED = json.loads(FILE.read_text(encoding="utf-8"))


@pytest.fixture(
    scope="module", params=["pulsar", pytest.param("new_kafka", marks=pytest.mark.soak)], ids=["bridge", "control"]
)
def server(request: pytest.FixtureRequest, guard: Guard, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("tools")
    if request.param == "pulsar":
        running: Any = bridge(request.getfixturevalue("pulsar"), directory)
    else:
        running = real_kafka(directory, guard)
    with running as started:
        yield started


OTHERWISE = (" during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-512", "")
"""What Kafka says of a log-in that fails, and the bridge, which has one text for all that fail."""


class Script:
    """Runs the steps in their order: each builds on those before it."""

    def __init__(self, server: Secured) -> None:
        self._server = server
        self._said: dict[str, list[str]] = {}

    def said(self, wanted: Step) -> list[str]:
        """What a step says."""
        for step in STEPS:
            if step.name not in self._said:
                self._said[step.name] = self._server.run(step)
            if step is wanted:
                break
        return self._said[wanted.name]

    def wanted(self, step: Step) -> list[str]:
        """What a step says on Kafka."""
        said: list[str] = RECORDED[step.name]
        return [line.replace(*OTHERWISE) for line in said] if self._server.is_bridge else said


@pytest.fixture(scope="module")
def script(server: Secured) -> Script:
    return Script(server)


@pytest.mark.parametrize("step", FIRST, ids=lambda step: step.name)
def test_a_tool_says_what_it_says_on_kafka(script: Script, step: Step) -> None:
    assert script.said(step) == script.wanted(step)


@pytest.mark.soak
@pytest.mark.parametrize("step", REST, ids=lambda step: step.name)
def test_so_do_all_others(script: Script, step: Step) -> None:
    assert script.said(step) == script.wanted(step)
