"""What each worker is told: its name, its port and its part of the budgets.

A budget that bounds the memory of a process is divided, so that `kafka.workers` does not change what the machine needs;
but no worker gets less for requests than the largest request takes, because any client may send one to any of them.
These are all such budgets. `pulsar.max_pending_bytes` bounds a producer, wherever it is; limits of connections count a
client once for each process, because it connects to all; limits of partitions are the namespace's.
"""

from bridge.config import Address, Settings
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


def worker_settings(settings: Settings, count: int, listen: Address) -> list[Settings]:
    """The settings of each of `count` workers; `listen`: the shared address, its port found. SettingsError if unfit."""
    _check_ports(settings, count, listen)
    _check_budgets(settings, count)
    kafka = settings.kafka
    advertised = Address.parse(kafka.advertised) if kafka.advertised else listen
    name = settings.cluster.name or str(advertised)
    made = []
    for index in range(count):
        values: dict[str, dict[str, object]] = {section: {} for section, _ in DIVIDED}
        for section, budget in DIVIDED:
            values[section][budget] = share(settings, section, budget, count)
        port = kafka.worker_port + index if kafka.worker_port else 0
        values["kafka"] |= {
            "workers": 1,
            "listen": str(Address(listen.host, port)),
            # with any free port it is known once the worker listens
            "advertised": str(Address(advertised.host, port)),
            "node_id": kafka.node_id + index if kafka.node_id >= 0 else kafka.node_id,
        }
        values["cluster"] = {"name": f"{name}#{index}"}
        values["http"] = {"listen": str(Address(_HOST, 0))}
        made.append(settings.with_values(**values))
    return made


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


def _check_ports(settings: Settings, count: int, listen: Address) -> None:
    first = settings.kafka.worker_port
    if not first:
        return
    last = first + count - 1
    shown = f"kafka.worker_port = {first} with {count} workers (kafka.workers) is the ports {first} to {last}"
    if last > _LAST_PORT:
        raise SettingsError(f"{shown}, above {_LAST_PORT}")
    for name, port in (("kafka.listen", listen.port), ("http.listen", Address.parse(settings.http.listen).port)):
        if first <= port <= last:
            raise SettingsError(f"{shown}, of which {name} has {port}: choose others")
