"""What kind of place an address is: this machine, a private network, the internet, or one that no broker has."""

import ipaddress
from enum import Enum
from typing import Final

from bridge.config.hosts import IpAddress


class Scope(Enum):
    """From where an address can be reached."""

    LOOPBACK = "loopback"
    PRIVATE = "private"
    PUBLIC = "public"
    NEVER = "never"
    """Link-local, and what clouds answer their machines' questions at, with credentials among the answers."""


_METADATA: Final = tuple(
    map(
        ipaddress.ip_network,
        # Amazon's over IPv6, Alibaba's, Azure's, Oracle's
        ("fd00:ec2::/32", "100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32"),
    )
)
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")


def plain(address: IpAddress) -> IpAddress:
    """The IPv4 address that an IPv6 one only wraps."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour or address


def scope_of(address: IpAddress) -> Scope:
    """Where this address is."""
    address = plain(address)
    # to connect to 0.0.0.0 is to connect to this machine
    if address.is_loopback or address.is_unspecified:
        return Scope.LOOPBACK
    if address.is_link_local or address.is_multicast or any(address in network for network in _METADATA):
        return Scope.NEVER
    return Scope.PUBLIC if address.is_global else Scope.PRIVATE


def is_same_domain(host: str, known: str) -> bool:
    """Whether a name is below another one, or beside it in a domain that has one owner.

    `b-1.pulsar.example` is beside `pulsar.pulsar.example`, and below it is `b-1.pulsar.pulsar.example`.
    """
    host, known = host.lower().rstrip("."), known.lower().rstrip(".")
    if host == known or host.endswith(f".{known}"):
        return not _is_number(known)
    _, _, domain = known.partition(".")
    return not _is_number(known) and _is_owned(domain) and host.endswith(f".{domain}")


def _is_owned(domain: str) -> bool:
    """Not `com`, `co.uk`, `svc.cluster.local` or a cloud's: there strangers may have names."""
    labels = domain.split(".")
    if len(labels) < 2 or not all(labels):
        return False
    if len(labels) == 2:
        return not (len(labels[1]) == 2 and len(labels[0]) <= 3)
    return labels[-3:] != ["svc", "cluster", "local"] or len(labels) > 3


def _is_number(host: str) -> bool:
    """Whether it is an address, in whatever form."""
    return ":" in host or host.rpartition(".")[2].isdigit()
