"""Which brokers the bridge is told of: one that redirects to others, several of which some are dead."""

from __future__ import annotations

from collections.abc import Callable

from tests.faults.checker import load
from tests.faults.figures import report
from tests.faults.ledgers import ledger_starts
from tests.pulsar_cluster.moves import Owners
from tests.support.bridges import BridgeChild
from tests.support.pulsar_cluster import RealCluster

PARTITIONS = 6


def test_one_broker_s_address_and_a_dead_one_before_it_lead_to_all_brokers(
    cluster: RealCluster, start_bridge: Callable[..., BridgeChild], cluster_namespace: str, topic: str
) -> None:
    last = cluster.brokers[-1]
    service_url = cluster.url_of(last).replace("pulsar://", "pulsar://127.0.0.1:1,")
    admin_url = cluster.http_of(last).replace("http://", "http://127.0.0.1:1,")
    bridge = start_bridge(pulsar={"service_url": service_url, "admin_url": admin_url})
    with load(bridge.kafka, topic, PARTITIONS) as running:
        owners = Owners(cluster, cluster_namespace, topic, PARTITIONS)
        if set(owners.of_all()) == {last}:  # Pulsar may place all bundles of a namespace with one broker
            bundle = owners.bundles()[0]
            to = cluster.id_of(owners.elsewhere(bundle))
            cluster.admin("PUT", f"namespaces/{cluster_namespace}/{bundle}/unload?destinationBroker={to}")
        names = {owner.name for owner in owners.of_all()}
        running.more(30)
        verdict = running.stop()
    report(verdict=verdict, owners=names)
    assert names - {last.name}, "all partitions are with the one broker that the bridge was told of"
    verdict.check(gap_ends=ledger_starts(cluster, cluster_namespace, topic, PARTITIONS))
