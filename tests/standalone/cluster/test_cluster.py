"""A cluster of processes, as far as it can be judged without starting one; tests/pulsar_cluster starts it."""

from pathlib import Path

import pytest

from bridge.errors import StartupError
from bridge.node.orphans import Guard
from bridge.standalone.cluster import programs
from bridge.standalone.cluster.cluster import PulsarCluster
from bridge.standalone.cluster.plan import BrokerPorts, ClusterPlan
from bridge.standalone.jvm import Java


def test_each_process_has_ports_and_a_directory_of_its_own(tmp_path: Path) -> None:
    plan = ClusterPlan.on_free_ports(tmp_path, 3, first=BrokerPorts(6650, 8080))
    ports = [plan.zookeeper, *plan.bookies, *(port for one in plan.brokers for port in (one.binary, one.http))]
    assert len(set(ports)) == len(ports) == 10
    assert plan.service_url.startswith("pulsar://127.0.0.1:6650,127.0.0.1:")
    assert plan.admin_url.startswith("http://127.0.0.1:8080,127.0.0.1:")
    brokers = [programs.broker(plan, number) for number in (1, 2, 3)]
    assert [one.name for one in brokers] == ["broker-1", "broker-2", "broker-3"]
    assert len({one.directory for one in brokers}) == 3


def test_entries_are_stored_twice_where_there_are_bookies_for_it_and_settings_go_over_ours(tmp_path: Path) -> None:
    several = ClusterPlan.on_free_ports(tmp_path, 1, settings={"managedLedgerDefaultAckQuorum": 1})
    lines = programs.broker(several, 1).configuration.splitlines()
    assert lines.index("managedLedgerDefaultAckQuorum=2") < lines.index("managedLedgerDefaultAckQuorum=1", 20)
    alone = ClusterPlan.on_free_ports(tmp_path, 1, bookies=1)
    assert "managedLedgerDefaultEnsembleSize=2" not in programs.broker(alone, 1).configuration


def test_the_process_that_cannot_start_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho no memory\nexit 9\n")
    java.chmod(0o755)
    with Guard() as guard:
        cluster = PulsarCluster(ClusterPlan.on_free_ports(tmp_path / "data", 2), Java(java, [], guard))
        with pytest.raises(StartupError, match="zookeeper exited with 9 while starting\nno memory"):
            cluster.start()
        assert not any(one.child.running for one in cluster.members)
