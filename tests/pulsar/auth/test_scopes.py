import ipaddress

import pytest

from bridge.pulsar.auth.scopes import Scope, is_same_domain, scope_of


@pytest.mark.parametrize(
    ("address", "scope"),
    [
        ("127.0.0.1", Scope.LOOPBACK), ("127.9.9.9", Scope.LOOPBACK), ("::1", Scope.LOOPBACK),
        ("0.0.0.0", Scope.LOOPBACK), ("::", Scope.LOOPBACK), ("::ffff:127.0.0.1", Scope.LOOPBACK),  # noqa: S104
        ("10.0.0.1", Scope.PRIVATE), ("192.168.1.1", Scope.PRIVATE), ("fd00::1", Scope.PRIVATE),
        ("100.64.0.1", Scope.PRIVATE), ("203.0.113.1", Scope.PRIVATE),
        ("8.8.8.8", Scope.PUBLIC), ("2606:4700::1", Scope.PUBLIC), ("::ffff:8.8.8.8", Scope.PUBLIC),
        ("169.254.169.254", Scope.NEVER), ("169.254.1.1", Scope.NEVER), ("fe80::1", Scope.NEVER),
        ("2002:a9fe:a9fe::1", Scope.NEVER),
        ("::ffff:169.254.169.254", Scope.NEVER), ("64:ff9b::a9fe:a9fe", Scope.NEVER),
        ("fd00:ec2::254", Scope.NEVER), ("100.100.100.200", Scope.NEVER), ("168.63.129.16", Scope.NEVER),
        ("224.0.0.1", Scope.NEVER), ("ff02::1", Scope.NEVER),
    ],
)  # fmt: skip
def test_an_address_is_somewhere(address: str, scope: Scope) -> None:
    assert scope_of(ipaddress.ip_address(address)) is scope


@pytest.mark.parametrize(
    ("host", "known", "same"),
    [
        ("broker-0.brokers.ns.svc.cluster.local", "brokers.ns.svc.cluster.local", True),
        ("broker-0.brokers.ns.svc.cluster.local", "proxy.ns.svc.cluster.local", True),
        ("broker-0.brokers.other.svc.cluster.local", "proxy.ns.svc.cluster.local", False),
        ("b1.example.com", "pulsar.example.com", True),
        ("B1.Example.com.", "pulsar.example.com", True),
        ("b1.example.com", "example.com", True),
        ("example.org", "example.com", False),
        ("evil.com", "example.com", False),
        ("evil.co.uk", "example.co.uk", False),
        ("badexample.com", "example.com", False),
        ("b1.sub", "pulsar", False),
        ("b1.pulsar", "pulsar", True),
        ("10.0.0.2", "10.0.0.1", False),
        ("1.10.0.0.1", "10.0.0.1", False),
        ("other", "pulsar", False),
    ],
)
def test_a_domain_of_one_owner(host: str, known: str, same: bool) -> None:
    assert is_same_domain(host, known) is same
