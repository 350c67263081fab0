"""What all connections share: how many of an address there may be."""

from bridge.config import KafkaSettings
from bridge.connection.shared import SharedResources
from bridge.telemetry.metrics import Metrics


async def test_a_network_of_ipv6_is_one_address() -> None:
    shared = SharedResources(KafkaSettings(max_connections_per_ip=2), Metrics())
    assert shared.enter("/2001:db8::1")
    assert not shared.is_full("2001:db8::2")
    assert shared.enter("/2001:db8::2")
    assert shared.is_full("2001:db8::ffff:3")
    assert not shared.enter("/2001:db8::ffff:3")
    assert not shared.is_full("2001:db8:0:1::1")
    for number in (1, 2):
        shared.leave(f"/2001:db8::{number}")
    assert not shared.is_full("2001:db8::4")


async def test_addresses_of_ipv4_count_each_for_itself() -> None:
    shared = SharedResources(KafkaSettings(max_connections_per_ip=1), Metrics())
    assert shared.enter("/10.0.0.1")
    assert shared.is_full("10.0.0.1")
    assert shared.is_full("::ffff:10.0.0.1")
    assert not shared.is_full("10.0.0.2")
