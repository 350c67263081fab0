import ipaddress

import pytest

from bridge.config import PulsarSettings
from bridge.config.hosts import parse_hosts
from bridge.errors import SettingsError


def test_names_addresses_and_networks_are_told_apart() -> None:
    hosts = parse_hosts("*.brokers.example, 10.1.0.0/16,broker-1 , [fd00::1], 127.0.0.1")
    assert [hosts.has_name(name) for name in ("a.brokers.example", "A.B.Brokers.example", "BROKER-1")] == [True] * 3
    assert not any(
        hosts.has_name(name) for name in ("brokers.example", "a.brokers.example.org", "broker-12", "10.1.0.1")
    )
    inside = ("10.1.2.3", "fd00::1", "127.0.0.1")
    assert all(hosts.has_address(ipaddress.ip_address(address)) for address in inside)
    assert not any(hosts.has_address(ipaddress.ip_address(address)) for address in ("10.2.0.0", "fd00::2", "::1"))


def test_an_asterisk_is_every_name() -> None:
    hosts = parse_hosts("*")
    assert hosts.has_name("any.host")
    assert not hosts.has_address(ipaddress.ip_address("10.0.0.1"))


@pytest.mark.parametrize(
    "wrong", ["a b", "10.1.0.1/16", "http://a", "a:6650", "..", "-", "10.1.0.256", "a,$b", "[a-z]"]
)
def test_what_is_no_host_is_refused_by_name(wrong: str) -> None:
    with pytest.raises(SettingsError, match=r"pulsar\.allowed_hosts"):
        PulsarSettings(allowed_hosts=wrong)
