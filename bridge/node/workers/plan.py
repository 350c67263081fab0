"""What each worker is told: its name, its ports and its part of the budgets.

A budget that bounds the memory of a process is divided, so that `kafka.workers` does not change what the machine needs;
but no worker gets less for requests than the largest request takes, because any client may send one to any of them.
These are all such budgets. `pulsar.max_pending_bytes` bounds a producer, wherever it is; limits of connections count a
client once for each process, because it connects to all; limits of partitions are the namespace's.
"""

import secrets
from collections.abc import Mapping

from bridge.config import Address, HttpSettings, Settings
from bridge.config.rules import fields_of
from bridge.errors import SettingsError

REQUESTS = ("kafka", "memory_budget_bytes")
DIVIDED = (
    REQUESTS,
    ("storage", "cache_bytes"),
    ("storage", "max_catchup_readers"),
    ("groups", "max_metadata_bytes"),
)
"""The settings of which each worker gets its part."""
_HOST = "127.0.0.1"
_LAST_PORT = 65_535
_OF_THE_SUPERVISOR = [name for name in fields_of(HttpSettings) if name.startswith(("listen", "ssl_", "token"))]


def worker_settings(settings: Settings, count: int, shared: Mapping[str, Address]) -> list[Settings]:
    """The settings of each of `count` workers; `shared`: the shared addresses by listener, their ports found.
    SettingsError if unfit."""
    first_ports = _first_ports(settings, count)
    _check_ports(settings, count, shared, first_ports)
    _check_budgets(settings, count)
    kafka = settings.kafka
    first = settings.listeners[0]
    name = settings.cluster.name or str(first.told(shared[first.name].port))
    made = []
    for index in range(count):
        values: dict[str, dict[str, object]] = {section: {} for section, _ in DIVIDED}
        for section, budget in DIVIDED:
            values[section][budget] = share(settings, section, budget, count)
        values["kafka"] |= {
            "workers": 1,
            "node_id": kafka.node_id + index if kafka.node_id >= 0 else kafka.node_id,
        }
        values["cluster"] = {"name": f"{name}#{index}"}
        # for the supervisor alone, which shows all workers to those that the settings let in
        plain = HttpSettings(listen=str(Address(_HOST, 0)), token=secrets.token_urlsafe(32))
        values["http"] = {name: getattr(plain, name) for name in _OF_THE_SUPERVISOR}
        own = {}
        for one in settings.listeners:
            # with any free port the one that is told is known once the worker listens
            port = first_ports[one.name] and first_ports[one.name] + index
            address = shared[one.name]
            own[one.name] = Address(address.host, port), Address(one.told(address.port).host, port)
        made.append(settings.with_listeners(own, workers=1).with_values(**values))
    return made


def _first_ports(settings: Settings, count: int) -> dict[str, int]:
    """Worker 0's port by listener; 0: any free one. Those without a port of their own follow each other."""
    found = {}
    following = settings.kafka.worker_port
    for one in settings.listeners:
        own = one.settings.worker_port
        found[one.name] = own or following
        if following and not own:
            following += count
    return found


def share(settings: Settings, section: str, budget: str, count: int) -> int:
    """What each of `count` workers gets of a budget."""
    part = int(getattr(getattr(settings, section), budget)) // count
    if (section, budget) == REQUESTS:
        return max(part, settings.kafka.max_request_bytes)
    return part


def _check_budgets(settings: Settings, count: int) -> None:
    for section, budget in DIVIDED:
        whole = getattr(getattr(settings, section), budget)
        if whole and not share(settings, section, budget, count):
            raise SettingsError(f"{section}.{budget} = {whole} is not enough for {count} workers (kafka.workers)")


def _check_ports(settings: Settings, count: int, shared: Mapping[str, Address], first_ports: Mapping[str, int]) -> None:
    several = len(first_ports) > 1
    taken = {f"{name} of kafka.listeners" if several else "kafka.listen": range(at.port, at.port + 1)
             for name, at in shared.items()}  # fmt: skip
    http = Address.parse(settings.http.listen).port
    taken["http.listen"] = range(http, http + 1)
    for name, first in first_ports.items():
        if not first:
            continue
        ports = range(first, first + count)
        shown = f"{count} workers (kafka.workers) of {name} with the ports {first} to {ports[-1]}"
        if ports[-1] > _LAST_PORT:
            raise SettingsError(f"{_setting(settings, name)}: {shown}, above {_LAST_PORT}")
        for other, theirs in taken.items():
            if theirs.start < ports.stop and ports.start < theirs.stop:
                met = max(theirs.start, ports.start)
                raise SettingsError(f"{_setting(settings, name)}: {shown}, of which {other} has {met}: choose others")
        taken[f"the workers' {name}"] = ports


def _setting(settings: Settings, listener: str) -> str:
    (plan,) = (one for one in settings.listeners if one.name == listener)
    if plan.settings.worker_port:
        return f"listener.{listener}.worker_port = {plan.settings.worker_port}"
    return f"kafka.worker_port = {settings.kafka.worker_port}"
