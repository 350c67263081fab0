"""Hosts as a setting lists them: names, of which `*` may stand for a part, addresses, and networks."""

import ipaddress
import re
from collections.abc import Sequence
from typing import NamedTuple

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
_NAME = re.compile(r"[A-Za-z0-9*]([A-Za-z0-9*._-]*[A-Za-z0-9*])?")


class HostPatterns(NamedTuple):
    """A list of host names with wildcards, and which hosts it matches."""

    names: Sequence[re.Pattern[str]]
    networks: Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network]

    def has_name(self, host: str) -> bool:
        """Whether an entry matches this name."""
        return any(pattern.fullmatch(host) for pattern in self.names)

    def has_address(self, address: IpAddress) -> bool:
        """Whether an entry is this address, or a network that it is in."""
        return any(address in network for network in self.networks)


def parse_hosts(text: str) -> HostPatterns:
    """`*.brokers.example, 10.1.0.0/16, fd00::1` as patterns; ValueError names the entry that is none."""
    names, networks = [], []
    for entry in (part.strip() for part in text.split(",") if part.strip()):
        try:
            networks.append(ipaddress.ip_network(entry.removeprefix("[").removesuffix("]")))
            continue
        except ValueError:
            pass
        if _NAME.fullmatch(entry) is None or not any(c.isalpha() or c == "*" for c in entry):
            raise ValueError(f"{entry!r} is neither a name nor an address nor a network")
        names.append(re.compile(re.escape(entry).replace(r"\*", ".*"), re.IGNORECASE))
    return HostPatterns(names, networks)
