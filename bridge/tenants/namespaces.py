"""The namespaces in which clients work now: each is opened with its first client, and served until the node stops."""

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from bridge import check
from bridge.access.security_store.store import SecurityStore
from bridge.cluster.membership.records import TopicChange
from bridge.cluster.topics import VIEW_LOG
from bridge.cluster.view_changes import ViewFollower
from bridge.config import PulsarSettings
from bridge.connection.tenant_runner import NamespaceUnavailable
from bridge.errors import BridgeError
from bridge.groups.budget import GroupMemory
from bridge.requests.api import Broker
from bridge.runtime.fairness import Places
from bridge.runtime.futures import loop_time, retrieve_exception
from bridge.security.tenants import Tenants
from bridge.storage.services import Storage
from bridge.telemetry import log
from bridge.telemetry.metrics import Metrics
from bridge.tenants.administration import for_tenants
from bridge.tenants.services import NamespaceServices, storage_of

_log = log.get(__name__)

_OPENING_AT_ONCE: Final = 4
_PLACE_SECONDS: Final = 0.25
_OPEN_SECONDS: Final = 20.0
_MAX_SLOW: Final = 64
_AGAIN_SECONDS: Final = 5.0
"""Until one that could not be opened is tried again: its clients come back at once."""
_MAX_FAILED: Final = 1000
_PATTERN_BYTES: Final = 4 * 1024 * 1024


class _Opened(NamedTuple):
    services: NamespaceServices
    for_clients: Broker
    for_nodes: Broker


class Namespaces:
    """The namespaces beside the bridge's own, opened when needed (`connection.environment.TenantNamespaces`)."""

    def __init__(
        self,
        rules: Tenants,
        storage: Storage,
        metrics: Metrics,
        security: SecurityStore,
        own: NamespaceServices,
        follower: ViewFollower,
    ) -> None:
        """`storage`, `own`: those of the bridge's own namespace; `follower`: of the nodes' views."""
        self.rules = rules
        self._storage = storage
        self._metrics = metrics
        self._security = security
        self._own = own
        self._follower = follower
        self._announce: Callable[[TopicChange], None] = lambda change: None
        self._as_clients_see: Callable[[Broker, str], Broker] | None = None
        self._opened: dict[str, _Opened] = {}
        self._opening: dict[str, asyncio.Task[_Opened]] = {}
        self._failed: dict[str, tuple[float, str]] = {}
        self._places = Places(_OPENING_AT_ONCE, seconds=_PLACE_SECONDS, most_seconds=_OPEN_SECONDS, most_slow=_MAX_SLOW)
        self._memory: GroupMemory | None = None
        self._plain: Broker | None = None
        self._for_administrators: Broker | None = None
        self._is_stopped = False

    def serve(
        self,
        plain: Broker,
        for_clients: Broker,
        announce: Callable[[TopicChange], None],
        as_clients_see: Callable[[Broker, str], Broker] | None,
    ) -> None:
        """Open namespaces from now on. `plain`, `for_clients`: of the bridge's own, for nodes and for clients;
        `announce`: tells other nodes; `as_clients_see`: makes the one of the other; None: they are the same."""
        self._plain, self._announce, self._as_clients_see = plain, announce, as_clients_see
        self._memory = GroupMemory(self._own.groups.metadata_budget, _PATTERN_BYTES)
        self._for_administrators = for_clients
        tenants = replace(for_clients, apis=for_tenants(for_clients.apis))
        self._opened[self.rules.own] = _Opened(self._own, tenants, plain)

    async def for_clients(self, namespace: str, *, administers: bool) -> Broker:
        """What requests of this namespace's clients are handled with; NamespaceUnavailable. `administers`: whether they
        may ask for what is the whole cluster's."""
        opened = await self._open(namespace)
        if administers and self._for_administrators is not None:
            return self._for_administrators
        return opened.for_clients

    async def for_nodes(self, namespace: str) -> Broker:
        """What requests that other nodes pass on are handled with; NamespaceUnavailable, also where no client works."""
        if not self.rules.is_reachable(namespace):
            raise NamespaceUnavailable(f"no rule of this node leads to {namespace[:256]!r}")
        return (await self._open(namespace)).for_nodes

    def others(self) -> Iterator[NamespaceServices]:
        """What is open beside the bridge's own."""
        return (one.services for one in self._opened.values() if one.services is not self._own)

    def note_change(self, change: TopicChange) -> None:
        """Another node has told what it has done to a topic of a namespace."""
        namespace, _, name = change.name.rpartition("/")
        opened = self._opened.get(namespace)
        if opened is not None and opened.services is not self._own:
            with contextlib.suppress(ValueError):
                opened.services.topics.note_change(name, uuid.UUID(change.id), change.event)

    def stop(self) -> None:
        """Open no more; answer what waits."""
        self._is_stopped = True
        for task in self._opening.values():
            task.cancel()
        for services in self.others():
            services.stop()

    async def close(self) -> None:
        """Release everything but the bridge's own."""
        self.stop()
        await asyncio.gather(*self._opening.values(), return_exceptions=True)
        await asyncio.gather(*(services.close() for services in self.others()))

    # ---- opening -----------------------------------------------------------------------------------------------------

    async def _open(self, namespace: str) -> _Opened:
        opened = self._opened.get(namespace)
        if opened is not None:
            return opened
        task = self._opening.get(namespace)
        if task is None:
            self._check(namespace)
            task = self._opening[namespace] = asyncio.get_running_loop().create_task(self._open_now(namespace))
            task.add_done_callback(retrieve_exception)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise NamespaceUnavailable("this node stops") from None
            raise

    def _check(self, namespace: str) -> None:
        if self._is_stopped or self._plain is None:
            raise NamespaceUnavailable("this node stops, or is not ready yet")
        until, reason = self._failed.get(namespace, (0.0, ""))
        if loop_time() < until:
            raise NamespaceUnavailable(reason)
        most = self.rules.max_namespaces
        if len(self._opened.keys() | self._opening.keys()) > most:  # the bridge's own is one of them
            raise NamespaceUnavailable(f"tenants.max_namespaces = {most} are open")

    async def _open_now(self, namespace: str) -> _Opened:
        try:
            async with await self._places.take():
                opened = await self._opened_services(namespace)
        except (BridgeError, OSError) as error:  # TimeoutError is an OSError
            reason = str(error) or "Pulsar does not answer in time"
            if len(self._failed) >= _MAX_FAILED:
                self._failed.clear()
            self._failed[namespace] = loop_time() + _AGAIN_SECONDS, reason
            _log.warning("! namespace not opened", extra={"namespace": namespace, "reason": reason})
            raise NamespaceUnavailable(reason) from None
        finally:
            del self._opening[namespace]
        self._opened[namespace] = opened
        self._failed.pop(namespace, None)
        self._metrics.tenant_namespaces.inc()
        _log.info("= namespace opened", extra={"namespace": namespace})
        return opened

    async def _opened_services(self, namespace: str) -> _Opened:
        assert self._plain is not None  # noqa: S101 - `_check` has looked
        storage = storage_of(namespace, self._storage)
        await check.ensure_fit(storage.admin, storage.client, storage.settings)
        await self._look_for_another_cluster(namespace, storage.settings.pulsar)
        services = NamespaceServices(storage, self._metrics, self._security, self._memory, self._own.store.slots)
        services.coordinate()
        try:
            await services.open()
        except BaseException:
            await services.close()
            raise
        # nothing below waits for Pulsar: from here on it follows the views, and is closed with the node
        self._follower.add(services.topics, services.assign)
        services.tell_changes(self._announce)
        await services.start()
        plain = services.broker(self._plain)
        plain = replace(plain, apis=for_tenants(plain.apis))
        return _Opened(
            services, plain if self._as_clients_see is None else self._as_clients_see(plain, namespace), plain
        )

    async def _look_for_another_cluster(self, namespace: str, pulsar: PulsarSettings) -> None:
        """Two clusters of bridges have groups of their own of the same topics: a client would not find its offsets."""
        client = self._storage.client
        await check.refuse_unmoved(client, pulsar)
        own = replace(pulsar, state_namespace="").state_topic(VIEW_LOG)
        if await check.topic_exists(client, own):
            _log.warning(
                "! another bridge has, or had, this namespace for its own: stop it, or give it another one",
                extra={"namespace": namespace},
            )
