"""Whether the brokers that Pulsar lists are among `pulsar.allowed_hosts`."""

from collections.abc import Sequence
from typing import Final

from bridge.check.findings import Finding, Severity
from bridge.pulsar import Access, Admin, ConnectionLost
from bridge.pulsar.auth import HostRefused

_NAME: Final = "allowed hosts"
_SHOWN: Final = 5


async def examine_hosts(admin: Admin, access: Access) -> Finding:
    """Look each of the brokers up as a connection to it would; none is connected to."""
    hosts = await admin.broker_hosts()
    if hosts is None:
        detail = "this login may not list the brokers: whether pulsar.allowed_hosts has them is not known"
        return Finding(_NAME, Severity.UNKNOWN, detail)
    refused, unknown = [], []
    for host in hosts:
        try:
            await access.hosts.addresses(host, 0)
        except HostRefused:
            refused.append(host)
        except ConnectionLost:
            unknown.append(host)
    if refused:
        detail = f"brokers that the bridge will not connect to: {_shown(refused)}"
        return Finding(_NAME, Severity.UNFIT, detail, "add their names or addresses to pulsar.allowed_hosts")
    if unknown:
        detail = f"brokers whose names this machine cannot look up: {_shown(unknown)}"
        return Finding(_NAME, Severity.RISK, detail, "have the names resolved here, or set pulsar.listener_name")
    return Finding(_NAME, Severity.FIT, f"all {len(hosts)} brokers that Pulsar lists are allowed")


def _shown(hosts: Sequence[str]) -> str:
    more = f" and {len(hosts) - _SHOWN} more" if len(hosts) > _SHOWN else ""
    return ", ".join(host[:255] for host in hosts[:_SHOWN]) + more
