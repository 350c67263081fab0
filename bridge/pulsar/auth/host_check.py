"""Whether a host that a broker has named may be connected to: a look-up must not make the bridge a springboard."""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Final
from urllib.parse import urlsplit

from bridge.config import PulsarSettings, admin_urls
from bridge.config.hosts import IpAddress, parse_hosts
from bridge.pulsar.auth.scopes import Scope, is_same_domain, plain, scope_of
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import ConnectionLost, PulsarError
from bridge.telemetry import log
from bridge.telemetry.metrics import PulsarMetrics

_log = log.get(__name__)

_FRESH_SECONDS: Final = 30.0
"""So long the addresses of the settings' hosts are remembered."""
_ASK_AGAIN_SECONDS: Final = 5.0
"""Between two questions for the list of brokers, because of hosts that it does not have."""
_ASK_SECONDS: Final = 5.0
_MAX_LOGGED: Final = 100

AskBrokers = Callable[[], Awaitable[Collection[str] | None]]
"""The hosts of the brokers that are alive; None: that may not be asked."""


class HostRefused(PulsarError):
    """Pulsar has sent us to a host where we do not go. It may be known later, or another broker have the topic."""

    def __init__(self, host: str, reason: str) -> None:
        super().__init__(pb.ServiceNotReady, f"sent to {host[:255]!r}, which {reason}: see pulsar.allowed_hosts")


class HostCheck:
    """The hosts of the settings may always be reached. Of others the module's rules decide, by name and by address.

    With `pulsar.allowed_hosts`: what it lists. Else: names of the same domain, the brokers that the admin interface
    lists, and where that is not told, addresses of the same kind of network. See docs/security.md.
    """

    def __init__(self, settings: PulsarSettings, metrics: PulsarMetrics) -> None:
        self.ask_brokers: AskBrokers | None = None
        self._metrics = metrics
        self._patterns = parse_hosts(settings.allowed_hosts) if settings.allowed_hosts else None
        self._told_names = bool(settings.listener_name)
        service = settings.service_url.partition("://")[2].rstrip("/").split(",")
        self._service = frozenset(urlsplit(f"//{host}").hostname or "" for host in service)
        self._known = self._service | {urlsplit(url).hostname or "" for url in admin_urls(settings.admin_url)}
        self._service_addresses: frozenset[IpAddress] = frozenset()
        self._known_addresses: frozenset[IpAddress] = frozenset()
        self._resolved_at = float("-inf")
        self._brokers: Collection[str] | None = None
        self._asked_at = float("-inf")
        self._lock = asyncio.Lock()
        self._asker: asyncio.Task[object] | None = None
        self._logged: set[str] = set()

    async def addresses(self, host: str, port: int) -> list[str]:
        """Where to connect for this host, an address or more; HostRefused, ConnectionLost if it is no name."""
        if host.lower() in self._known:
            return [host]
        found = await _resolve(host, port)
        if not found:
            raise ConnectionLost(f"{host}: there is no such host")
        reasons = {address: await self._refusal(host, address) for address in found}
        allowed = [str(address) for address, reason in reasons.items() if not reason]
        if not allowed:
            raise self._refused(host, next(iter(reasons.values())))
        return allowed

    def _refused(self, host: str, reason: str) -> HostRefused:
        self._metrics.hosts_refused.inc()
        if host not in self._logged and len(self._logged) < _MAX_LOGGED:
            self._logged.add(host)
            _log.error("! pulsar host refused", extra={"host": host[:255], "reason": reason})
        return HostRefused(host, reason)

    async def _refusal(self, host: str, address: IpAddress) -> str:
        """Why this address of the host is not connected to; nothing if it is."""
        patterns = self._patterns
        if patterns is not None and patterns.has_address(plain(address)):
            return ""
        scope = scope_of(address)
        if scope is Scope.NEVER:
            return f"is at {address}: link-local, or where a cloud answers its machines"
        await self._resolve_known()
        scopes = {scope_of(one) for one in self._service_addresses}
        if scope is Scope.LOOPBACK and Scope.LOOPBACK not in scopes:
            return f"is this machine ({address}), and pulsar.service_url is another one"
        if patterns is not None:
            return "" if patterns.has_name(host) else "is not in it"
        if address in self._known_addresses or any(is_same_domain(host, one) for one in self._known):
            return ""
        return await self._unless_announced(host, address, scopes)

    async def _unless_announced(self, host: str, address: IpAddress, scopes: Collection[Scope]) -> str:
        # by the listener's name a broker has other addresses than those that it is listed by
        if not self._told_names:
            if await self._is_listed(host, address):
                return ""
            await self._ask()
            if self._brokers is not None:
                listed = await self._is_listed(host, address)
                return "" if listed else f"is none of the {len(self._brokers)} brokers that the admin interface lists"
        scope = scope_of(address)
        if scope is not Scope.PUBLIC and scope in scopes:
            return ""
        if scope is Scope.PRIVATE and Scope.LOOPBACK in scopes and _is_own(address):
            return ""
        return f"is at {address}, in another network than pulsar.service_url or in a public one"

    async def _is_listed(self, host: str, address: IpAddress) -> bool:
        brokers = self._brokers or ()
        return host.lower() in brokers or address in await _resolve_all(brokers)

    async def _resolve_known(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._resolved_at <= _FRESH_SECONDS:
            return
        service, known = await _resolve_all(self._service), await _resolve_all(self._known)
        if service:  # else the resolver is away: what it said last stays
            self._service_addresses, self._known_addresses, self._resolved_at = service, known, now

    async def _ask(self) -> None:
        """Have the brokers listed, if that was not done a moment ago."""
        if self.ask_brokers is None or self._asker is asyncio.current_task():  # the question itself was redirected
            return
        async with self._lock:
            now = asyncio.get_running_loop().time()
            if now - self._asked_at <= _ASK_AGAIN_SECONDS:
                return
            self._asker = asyncio.current_task()
            try:
                async with asyncio.timeout(_ASK_SECONDS):
                    brokers = await self.ask_brokers()
                if brokers:
                    self._brokers = frozenset(broker.lower() for broker in brokers)
            except TimeoutError:
                _log.info("! pulsar does not list its brokers in time")
            finally:
                self._asker, self._asked_at = None, now


async def _resolve(host: str, port: int = 0) -> list[IpAddress]:
    """The addresses of a name or an address, in the resolver's order; none if there is no such name."""
    try:
        return [ipaddress.ip_address(host.partition("%")[0])]
    except ValueError:
        pass
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return list(dict.fromkeys(ipaddress.ip_address(str(one[4][0]).partition("%")[0]) for one in found))


async def _resolve_all(hosts: Iterable[str]) -> frozenset[IpAddress]:
    found = await asyncio.gather(*map(_resolve, hosts))
    return frozenset(address for addresses in found for address in addresses)


def _is_own(address: IpAddress) -> bool:
    """Whether this machine has the address: it can listen there."""
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return True
