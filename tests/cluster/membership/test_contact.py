"""A node's contact with Pulsar: heartbeats, receipts, pauses."""

from bridge.cluster.membership.effects import (
    AskPulsar,
    Probe,
    ProbeResult,
    SendHeartbeat,
    Serving,
)
from bridge.cluster.membership.records import Challenge
from bridge.cluster.membership.timing import Timing
from tests.cluster.lone import Lone


def test_one_heartbeat_is_under_way_and_a_late_receipt_makes_the_next_one_wait() -> None:
    lone = Lone().join()
    lone.run(1.0)
    lone.echoes = False
    lone.told(SendHeartbeat)
    lone.run(3.0)
    (sent,) = lone.told(SendHeartbeat)
    lone.node.heartbeat_stored(sent.heartbeat.at, lone.now)
    lone.run(0.9)
    assert lone.told(SendHeartbeat) == []
    lone.run(0.2)
    assert len(lone.told(SendHeartbeat)) == 1
    lone.node.heartbeat_failed(lone.now)
    lone.run(1.1)
    assert len(lone.told(SendHeartbeat)) == 1


def test_a_controller_that_waits_for_a_silent_node_sends_twice_as_many() -> None:
    lone = Lone().join()
    lone.hear("b")
    lone.run(2.0)
    assert lone.told(Probe) == [Probe("b")]
    lone.run(1.0)
    lone.told(SendHeartbeat)
    lone.run(1.0)
    assert len(lone.told(SendHeartbeat)) == 2
    lone.node.probe_answered("b", ProbeResult.BUSY, lone.now)
    lone.run(1.0)
    lone.told(SendHeartbeat)
    lone.hear("b")
    lone.run(1.0)
    assert len(lone.told(SendHeartbeat)) == 1


def test_a_node_without_receipts_refuses_until_its_records_come_back() -> None:
    lone = Lone().join()
    lone.hear("b")
    lone.run(0.1)
    lone.echoes = False
    lone.run(4.7)
    assert lone.serving() is Serving.REFUSE
    assert "cut off" in lone.node.contact.reason
    (challenge,) = lone.told(Challenge)
    lone.node.append_failed(challenge, lone.now)
    lone.node.connection_lost(lone.now)
    lone.node.name_opened(lone.now)
    lone.node.heartbeat_failed(lone.now)
    lone.echoes = True
    lone.run(2.0)
    assert lone.serving() is Serving.SERVE


def test_a_node_that_did_not_run_holds_until_it_has_read_back_a_challenge() -> None:
    lone = Lone().join()
    lone.echoes = False
    lone.now += 2.0
    lone.node.run(lone.now)
    assert lone.serving() is Serving.HOLD
    (challenge,) = lone.told(Challenge)
    lone.read(challenge)
    assert lone.serving() is Serving.SERVE


def test_requests_are_not_held_for_long() -> None:
    lone = Lone().join()
    lone.hear("b")
    lone.run(0.1)
    lone.echoes = False
    lone.now += 2.0
    lone.run(3.1)
    assert lone.serving() is Serving.REFUSE


def test_a_node_that_gets_answers_is_not_cut_off_though_no_heartbeat_is_stored() -> None:
    lone = Lone().join()
    lone.hear("b")
    lone.run(0.1)
    lone.echoes = False
    for _ in range(20):
        lone.run(1.0)
        if lone.told(AskPulsar):
            lone.node.pulsar_answered(lone.now)
    assert lone.serving() is Serving.SERVE
    lone.run(4.0)
    assert lone.told(AskPulsar)
    assert lone.serving() is Serving.REFUSE


def test_the_only_node_goes_on_for_its_clients_have_no_other() -> None:
    lone = Lone().join()
    lone.echoes = False
    lone.run(10.0)
    assert "cut off" in lone.node.contact.reason
    assert lone.serving() is Serving.SERVE


def test_above_500_nodes_everything_takes_longer() -> None:
    timing = Timing()
    assert timing.for_members(500) is timing
    assert timing.for_members(1000).heartbeat == 2.0
    assert timing.for_members(1000).dead == 6.0
