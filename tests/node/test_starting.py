"""A start tells what it waits for, takes all addresses before it joins, and waits for Pulsar where it is told to."""

import asyncio
import json
from pathlib import Path

import pytest

from bridge.errors import StartupError
from bridge.node import starting
from bridge.node.orphans import Guard
from bridge.node.starting import Starting
from bridge.standalone import probe
from tests.support.bridges import BridgeChild, BridgeThread, settings_for
from tests.support.pulsar import NewPulsar, PulsarAddress
from tests.support.waiting import until


async def test_a_step_that_takes_long_is_told_again_and_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr(starting, "_TOLD_AFTER_SECONDS", 0.0)
    monkeypatch.setattr(starting, "_TOLD_EVERY_SECONDS", 0.001)
    monkeypatch.setattr(starting, "loop_time", lambda: 1000.0)
    start, told = Starting(), ["Pulsar"]
    with start.waiting_for(lambda: told[-1]):
        await until(lambda: len(caplog.records) > 1)
        assert start.problem() == "it starts, and waits for Pulsar (0 s)"
        told.append("the cluster")
        assert start.problem() == "it starts, and waits for the cluster (0 s)"
        await until(lambda: caplog.records[-1].__dict__["fields"]["waits_for"] == "the cluster")
    lines = len(caplog.records)
    await asyncio.sleep(0.01)
    assert len(caplog.records) == lines
    assert start.problem() is not None
    start.done()
    assert start.problem() is None


async def test_a_step_that_is_soon_done_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with Starting().waiting_for(lambda: "Pulsar"):
        await asyncio.sleep(0.01)
    assert not caplog.records


def test_a_node_whose_port_is_taken_has_not_joined(pulsar: PulsarAddress) -> None:
    settings = settings_for(pulsar, pulsar.create_namespace())
    one = BridgeThread(settings)
    one.start()
    try:
        assert one.server.cluster is not None
        version = one.server.cluster.view.version
        taken = one.http.removeprefix("http://")
        with pytest.raises(StartupError, match=r"http.listen = .*: cannot listen there: "):
            BridgeThread(settings.with_values(http={"listen": taken})).start()
        assert one.server.cluster.view.version == version
    finally:
        one.stop()


def test_a_node_where_nobody_may_do_anything_says_so_and_its_regular_end_is_no_warning(
    pulsar: PulsarAddress, caplog: pytest.LogCaptureFixture
) -> None:
    bridge = BridgeThread(settings_for(pulsar, pulsar.create_namespace(), {"kafka": {"authorizer": "kafka"}}))
    bridge.start()
    assert "! nobody may do anything, nor add an ACL: there is no ACL and no super user" in caplog.messages
    bridge.stop()
    assert "! serving" not in caplog.messages


def test_a_start_waits_for_a_pulsar_that_comes_later(new_pulsar: NewPulsar, guard: Guard, tmp_path: Path) -> None:
    pulsar = new_pulsar()
    settings = settings_for(pulsar, "public/default", {"pulsar": {"wait_seconds": 60}})
    bridge = BridgeChild(settings, tmp_path, guard)
    port = int(bridge.http.rpartition(":")[2])
    bridge.process.launch()
    try:
        until_told(port, f"waits for Pulsar at {pulsar.service_url}: pulsar.service_url ")
        assert probe.get(port, "/healthz")[0] == 200
        status, body = probe.get(port, "/metrics")
        assert (status, body.split(",")[0]) == (503, "it starts")
        pulsar.start()
        probe.wait_until_ready(bridge.process.child, bridge.process._problem, 60)
        assert probe.get(port, "/startupz") == (200, '{"started": true}')
    finally:
        bridge.kill()
        pulsar.kill()


def test_a_start_that_is_to_wait_no_longer_says_why(new_pulsar: NewPulsar, guard: Guard, tmp_path: Path) -> None:
    settings = settings_for(new_pulsar(), "public/default", {"pulsar": {"wait_seconds": 1}})
    bridge = BridgeChild(settings, tmp_path, guard)
    with pytest.raises(StartupError, match=r"pulsar.service_url pulsar://.*: "):
        bridge.start()


def until_told(port: int, text: str) -> None:
    """Return when /startupz has answered that it waits for this."""

    def is_told() -> bool:
        status, body = probe.get(port, "/startupz")
        return status == 503 and text in json.loads(body)["reason"]

    asyncio.run(until(is_told))
