"""The bridge process: the only place where its objects are wired together, started, drained and stopped."""

import asyncio
import contextlib
import secrets
import signal
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from bridge import __version__, apis, check, codec
from bridge.access.security_store.store import SecurityStore
from bridge.check.remedies import service_remedy
from bridge.cluster import Cluster, cluster_id
from bridge.cluster.description import describe
from bridge.cluster.member import ClusterMember, config_for, new_incarnation
from bridge.cluster.membership.effects import Serving
from bridge.cluster.membership.record_format import FORMAT_LEVEL
from bridge.cluster.membership.records import TopicChange
from bridge.cluster.membership.view import Endpoint, NodeRegistration
from bridge.cluster.shared_settings import fingerprint
from bridge.cluster.topics import ClusterTopics
from bridge.cluster.view_changes import TurningAway, ViewFollower
from bridge.config import Address, Settings
from bridge.config.urls import url_without_secrets
from bridge.connection.listeners.client_listeners import ClientListeners
from bridge.errors import BridgeError, StartupError
from bridge.http.server import HttpServer
from bridge.http.status import pages
from bridge.http.status.node import NodeStatus
from bridge.kafka.error_codes import ErrorCode
from bridge.net.listening import Sockets
from bridge.node import limits
from bridge.node.starting import Starting
from bridge.pulsar import Access, Admin, PulsarClient
from bridge.pulsar.connection import Backoff
from bridge.pulsar.stall import StallDetector
from bridge.relay.internal_links import InternalLinks
from bridge.relay.shared_address import SharedAddress
from bridge.requests.api import Authorization, Broker, OtherNodes
from bridge.requests.authorization import AclAuthorization
from bridge.runtime.futures import Together, loop_time, side_by_side
from bridge.runtime.memory import freeze_startup_objects
from bridge.runtime.service_manager import READY, STOPPING, notify
from bridge.runtime.watchdog import Watchdog
from bridge.security.quotas.creations import TopicCreations
from bridge.security.quotas.usage import ClientQuotas
from bridge.security.sasl.failures import LoginFailures
from bridge.storage import mark_signer
from bridge.storage.append.deduplication import Deduplication
from bridge.storage.read.cache import Cache
from bridge.storage.read.catch_up import CatchUpReaders
from bridge.storage.services import Storage
from bridge.telemetry import log
from bridge.telemetry.metrics import Metrics, PulsarMetrics
from bridge.tenants.services import NamespaceServices
from bridge.transactions.feeds import TOPIC as TRANSACTIONS

if TYPE_CHECKING:
    from bridge.requests.pulsar_authorization import PulsarAuthorization
    from bridge.tenants.namespaces import Namespaces

_log = log.get(__name__)

DRAIN_SECONDS = 10.0
_CLOSE_SECONDS = 5.0
"""For Pulsar to answer while a node stops. A broker that does not read, for a topic is above its rate, takes longer."""
_CATCHUP_IDLE_SECONDS = 30.0
_INDEX_IS_FRESH = 60.0
_NONE: Sockets = {}
_SWITCH_SECONDS = 0.0002
"""Usual is 0.005: at each socket the event loop waits so long for a thread that works in Python."""


class Server:
    """One bridge node, embeddable: `start`, then `stop`."""

    def __init__(self, settings: Settings, sockets: Sockets = _NONE, shared: Sockets = _NONE) -> None:
        """`sockets`: those of the listeners, where they listen already. `shared`: those that others accept on, too."""
        self.settings = settings
        self.metrics = Metrics(codec.TWIN)
        self._access = Access.by(settings.pulsar, self.metrics.pulsar)
        self.client = PulsarClient(settings.pulsar, self.metrics.pulsar, self._access)
        self.admin = Admin(settings.pulsar, self._access)
        quotas = ClientQuotas(self.metrics.quotas)
        self.security = self._make_security(quotas)
        kept_users = self.security if settings.keeps_users else None
        self._pulsar_authorization = self._made_pulsar_authorization()
        tokens = None if self._pulsar_authorization is None else self._pulsar_authorization.passwords
        self.listeners = ClientListeners(settings, self.metrics, sockets, shared, kept_users, quotas, tokens)
        self._watchdog = Watchdog(self.metrics.loop_held_seconds)
        self._stall = StallDetector(self.metrics.pulsar, self.client.retry_now, self._waiting_topics)
        catch_up_readers = CatchUpReaders(
            settings.storage.max_catchup_readers, _CATCHUP_IDLE_SECONDS, self.metrics.storage
        )
        self._storage = storage = Storage(
            settings=settings,
            client=self.client,
            admin=self.admin,
            metrics=self.metrics.storage,
            cache=Cache(settings.storage.cache_bytes, self.metrics.storage),
            catch_up_readers=catch_up_readers,
            deduplication=Deduplication(self.admin, settings.pulsar.full_namespace),
            # a name of its own for each process: two that write to one topic are two producers
            writer=f"bridge-{secrets.token_hex(8)}",
            left_out=self.security.left_out,
            traffic=self.metrics.topics,
        )
        self._own = NamespaceServices(storage, self.metrics, self.security)
        self._namespaces: Namespaces | None = None
        """Where clients work beside the bridge's own; None where all work there."""
        self.topics, self.store = self._own.topics, self._own.store
        self.kafka_port = 0
        self._status = NodeStatus(self)
        self._starting = Starting()
        self.http = HttpServer(
            settings.http,
            self.metrics,
            {
                "pulsar": self._pulsar_problem,
                "index": self._index_problem,
                "retention": partial(check.retention_problem, self.admin, settings),
                "writes": self._writes_problem,
                "cluster": self._cluster_problem,
                "security": self.security.problem,
            },
            {"/cluster": lambda: describe(self.cluster.view) if self.cluster is not None else {}},
            pages=pages(self._status.answer),
            note=self._stall.slow_topics,
            start_problem=self._starting.problem,
        )
        self.cluster: Cluster | None = None
        self._member: ClusterMember | None = None
        self._links: InternalLinks | None = None
        self._shared_address: SharedAddress | None = None
        self._turning_away: TurningAway | None = None
        self._index_reason: str | None = None
        self._index_checked_at = float("-inf")

    @property
    def http_port(self) -> int:
        """The port of metrics and health, once started."""
        return self.http.port

    @property
    def other_nodes(self) -> OtherNodes | None:
        """Who asks the other nodes; None: they cannot be asked."""
        return None if self._links is None else self._links.questions

    @property
    def ended(self) -> "asyncio.Future[StartupError]":
        """Done when this node can be a member of its cluster no more: the error says why."""
        assert self._member is not None  # noqa: S101 - it was started
        return self._member.ended

    def services(self) -> list[NamespaceServices]:
        """Of all namespaces that are open."""
        return [self._own, *(() if self._namespaces is None else self._namespaces.others())]

    async def start(self) -> None:
        """Log in to Pulsar, see that it is fit, and listen; StartupError says what to fix."""
        self._status.start()
        try:
            self.listeners.open()
            self.kafka_port = next(iter(self.listeners.ports.values()))
            await self.http.start()  # all addresses are taken before this node joins: a start that fails moves nothing
            await self.admin.start()
            await self._start()
        except BaseException:
            await self.stop(drain_seconds=0)
            raise

    async def _start(self) -> None:
        settings, starting = self.settings, self._starting
        found = await self._fit_pulsar()
        self._index_checked_at = asyncio.get_running_loop().time()
        self._own.coordinate()
        state = settings.pulsar.full_state_namespace
        with starting.waiting_for(lambda: f"what is stored in {state} to be read"):
            await side_by_side(self._own.open(), self.security.start(), self._load_mark_secret())
        self._tell_if_nobody_may_anything()
        cluster = self.cluster = Cluster(cluster_id(found, settings.pulsar.full_namespace))
        member = self._member = self._make_member(cluster, self._follow_views(cluster))
        self._tell_topic_changes(member)
        with starting.waiting_for(member.waits_for):
            await member.start()
        with starting.waiting_for(lambda: "its group slots"):
            await self._own.start()
        self._stall.start()
        self._watchdog.start()
        broker = self._make_broker(cluster)
        limits.show(self.metrics, settings, self._storage, broker)
        starting.done()
        self.listeners.serve(broker, self._namespaces)
        first = settings.listeners[0]
        where = {"kafka": Address(first.listen.host, self.kafka_port), "advertised": first.told(self.kafka_port)}
        _log.info("= ready", extra={"version": __version__, **where})

    async def _load_mark_secret(self) -> None:
        topic = self.settings.pulsar.state_topic
        await self._storage.mark_secret.load(self.admin, topic(mark_signer.TOPIC), topic(TRANSACTIONS))

    async def _fit_pulsar(self) -> str:
        """Wait `pulsar.wait_seconds` for a Pulsar that is fit; the name of its cluster, or StartupError."""
        url = url_without_secrets(self.settings.pulsar.service_url)
        until = loop_time() + self.settings.pulsar.wait_seconds
        problem, backoff = "", Backoff()
        with self._starting.waiting_for(lambda: f"Pulsar at {url}{problem}"):
            while True:
                try:
                    return await self._check_pulsar(url)
                except StartupError as error:
                    if loop_time() > until:
                        raise
                    problem = f": {error}"
                await asyncio.sleep(backoff.next())

    async def _check_pulsar(self, url: str) -> str:
        try:
            await self.client.start()
        except BridgeError as error:
            raise StartupError(f"pulsar.service_url {url}: {error}; {service_remedy(error)}") from None
        # what does not depend on another is asked side by side: a start is a gap for clients
        async with Together() as tasks:
            found = tasks.create_task(self._pulsar_cluster())
            tasks.create_task(self._ensure_namespaces_are_fit())
            tasks.create_task(self._ensure_pulsar_can_judge())
        return found.result()

    def _make_security(self, quotas: ClientQuotas) -> SecurityStore:
        kafka = self.settings.kafka
        return SecurityStore(
            self.client,
            self.admin,
            self.settings.pulsar,
            self.metrics.security,
            kafka.super_user_names,
            authorizes=kafka.authorizer == "kafka",
            allow_if_no_entry=kafka.allow_everyone_if_no_acl_found,
            keeps_users=self.settings.keeps_users,
            on_quotas=quotas.set_limits,
        )

    def _tell_if_nobody_may_anything(self) -> None:
        kafka = self.settings.kafka
        if not self.security.authorizes or kafka.super_user_names or kafka.allow_everyone_if_no_acl_found:
            return
        if not self.metrics.security.acls.value:
            text = "! nobody may do anything, nor add an ACL: there is no ACL and no super user"
            _log.warning(text, extra={"setting": "kafka.super_users"})

    def _authorization(self) -> Authorization | None:
        """Who decides what clients may do."""
        if self.security.authorizes:
            return AclAuthorization(self.security, self.metrics.security)
        return self._pulsar_authorization

    def _made_pulsar_authorization(self) -> "PulsarAuthorization | None":
        if self.settings.kafka.authorizer != "pulsar":
            return None
        from bridge.requests.pulsar_authorization import PulsarAuthorization  # what it imports takes time

        return PulsarAuthorization(self.settings, self._access, self.admin, self.metrics)

    async def _ensure_namespaces_are_fit(self) -> None:
        """Of two that are not, that of the records is told, whichever answer comes first."""
        settings = self.settings
        found = await asyncio.gather(
            check.ensure_fit(self.admin, self.client, settings),
            check.ensure_state(self.admin, self.client, self._access, settings),
            return_exceptions=True,
        )
        for problem in found:
            if problem is not None:
                raise problem

    async def _ensure_pulsar_can_judge(self) -> None:
        if self._pulsar_authorization is not None:
            from bridge.access.pulsar_permissions.fitness import problem

            if (found := await problem(self.settings, self._access)) is not None:
                raise StartupError(f'kafka.authorizer = "pulsar": {found}')

    def _follow_views(self, cluster: Cluster) -> list[Endpoint]:
        """Serve what the views give to this node; where it is reached."""
        endpoints = [Endpoint(name, host, port) for name, (host, port) in self.listeners.advertised.items()]
        served = cluster  # as clients see it
        if self.settings.cluster.internal_listen:
            self._links = InternalLinks(self.settings, cluster)
            if self.settings.cluster.is_single:
                self._shared_address = SharedAddress(cluster, self._links.peers, *endpoints)
                served = self._shared_address.cluster
            endpoints.append(self._links.endpoint)
        follower = ViewFollower(served, self.topics, self._own.assign, cluster)
        if self.settings.tenants.rules:
            self._namespaces = self._make_namespaces(follower)
        self._turning_away = TurningAway(cluster, self.listeners.turn_away)
        return endpoints

    def _make_namespaces(self, follower: ViewFollower) -> "Namespaces":
        from bridge.security.tenants import Tenants
        from bridge.tenants.namespaces import Namespaces

        rules = Tenants(self.settings.tenants, self._own.name, self.settings.pulsar.full_state_namespace)
        return Namespaces(rules, self._storage, self.metrics, self.security, self._own, follower)

    def _make_member(self, cluster: Cluster, endpoints: Sequence[Endpoint]) -> ClusterMember:
        settings = self.settings
        # the address of this node alone
        _, host, port = endpoints[-1] if settings.cluster.is_single else endpoints[0]
        node = NodeRegistration(
            name=settings.cluster.name or str(Address(host, port)),
            incarnation=new_incarnation(),
            id=settings.kafka.node_id,
            endpoints=tuple(endpoints),
            rack=settings.kafka.rack,
            weight=settings.cluster.weight,
            level=FORMAT_LEVEL,
            software=__version__,
            settings=fingerprint(settings),
        )
        self.metrics.cluster.node = lambda: (str(cluster.node_id), node.name, node.rack)
        # connections of its own, and time limits that fit to heartbeats: until one is stored, nothing is served
        pulsar = replace(settings.pulsar, keepalive_seconds=2.0, connect_timeout_seconds=5.0)
        return ClusterMember(
            cluster,
            node,
            config_for(settings.cluster, self.store.slots),
            PulsarClient(pulsar, PulsarMetrics(), self._access, most_delay=1.0),
            ClusterTopics(self.admin, settings.pulsar),
            self.metrics.cluster,
        )

    def _tell_topic_changes(self, member: ClusterMember) -> None:
        """What this node does to topics is told to the others, whose caches go by it, and the other way round."""

        def changed_elsewhere(change: TopicChange) -> None:
            if "/" in change.name:  # of a tenant's namespace
                if self._namespaces is not None:
                    self._namespaces.note_change(change)
                return
            with contextlib.suppress(ValueError):  # an id of another form says nothing here
                self.topics.note_change(change.name, uuid.UUID(change.id), change.event)

        self._own.tell_changes(member.announce)
        member.on_topic_change.append(changed_elsewhere)

    def _make_broker(self, cluster: Cluster) -> Broker:
        """What clients' requests are handled with."""
        table = apis.load()
        self.metrics.name_apis({key: api.name for key, api in table.items()})
        self.metrics.error_names = {code.value: code.name for code in ErrorCode}
        kafka = self.settings.kafka
        broker = Broker(
            settings=self.settings,
            topics=self.topics,
            cluster=cluster,
            metrics=self.metrics,
            apis=table,
            groups=self._own.groups,
            offsets=self._own.offsets,
            transactions=self._own.transactions,
            shares=self._own.shares,
            closed_logs=self._own.closed_logs,
            other_nodes=None if self._links is None else self._links.questions,
            security=self.security,
            login_failures=LoginFailures(kafka.max_failed_logins_per_ip_per_second),
            creations=TopicCreations(kafka.auto_create_topics_per_minute, kafka.auto_create_topics_per_minute_of_all),
            authorization=self._authorization(),
        )
        self._own.ask(broker.other_nodes)
        links, shared, namespaces = self._links, self._shared_address, self._namespaces
        clients = broker if shared is None else shared.relaying(broker)
        if namespaces is not None and self._member is not None:
            namespaces.serve(broker, clients, self._member.announce, None if shared is None else shared.relaying)
        if shared is not None:
            shared.watch(self.listeners)
        if links is not None:
            links.serve(broker, self.listeners.shared.pending_bytes, namespaces, (self._status.api,))
        return clients

    async def stop(self, drain_seconds: float = DRAIN_SECONDS) -> None:
        """Accept no more clients, answer what is received, release everything."""
        self.http.draining = True
        self.listeners.leave_shared()
        if self._member is not None:
            await self._member.leave()
        self.listeners.close()
        if self._turning_away is not None:
            self._turning_away.close()
            self._turning_away = None
        self._own.stop()
        if self._namespaces is not None:
            self._namespaces.stop()
        await self.listeners.drain(drain_seconds)
        if self._links is not None:
            await self._links.close()
        self._status.close()
        self._watchdog.stop()
        await self._stall.close()
        closing = asyncio.create_task(self._close_services())
        await asyncio.wait((closing,), timeout=_CLOSE_SECONDS)
        await self.client.close(0)
        await closing
        if self._pulsar_authorization is not None:
            await self._pulsar_authorization.close()
        if self._member is not None:
            await self._member.close()
        await self.admin.close()
        await self._access.close()
        await self.http.stop()
        _log.info("= stopped")

    async def _close_services(self) -> None:
        others = [] if self._namespaces is None else [self._namespaces.close()]
        await asyncio.gather(self._own.close(), self.security.close(), *others)

    async def _pulsar_cluster(self) -> str:
        """The Pulsar cluster's name, part of the Kafka cluster id; a login that may not ask goes without."""
        with contextlib.suppress(BridgeError):
            return ",".join(sorted(await self.admin.clusters()))
        return ""

    async def _pulsar_problem(self) -> str | None:
        """Readiness: Pulsar answers."""
        await self.client.topics_of_namespace(self.settings.pulsar.full_namespace)
        return None

    async def _index_problem(self) -> str | None:
        """Readiness: entries come with their index; without it no offset is true. Brokers are seldom reconfigured."""
        now = asyncio.get_running_loop().time()
        if now - self._index_checked_at > _INDEX_IS_FRESH:
            self._index_reason = await check.index_problem(self.admin, self.client, self.settings)
            self._index_checked_at = now
        return self._index_reason

    async def _writes_problem(self) -> str | None:
        """Readiness: Pulsar stores what is sent."""
        return self._stall.problem()

    def _waiting_topics(self) -> Iterator[tuple[str, float]]:
        """As the client tells them, by the names that operators know: those of other namespaces whole."""
        own = f"persistent://{self.settings.pulsar.full_namespace}/"
        for topic, since in self.client.waiting_topics():
            yield topic.removeprefix(own).removeprefix("persistent://"), since

    async def _cluster_problem(self) -> str | None:
        """Readiness: this node is a member of the cluster, and in contact with it."""
        cluster = self.cluster
        if cluster is None or cluster.node_id < 0:
            return "this node is not a member of the cluster"
        return None if cluster.serving is not Serving.REFUSE else "this node is cut off from Pulsar"


async def run(
    settings: Settings,
    sockets: Sockets = _NONE,
    shared: Sockets = _NONE,
    ready: Callable[[Server], None] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then drain; `ready` is called once it serves."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, stop.set)
    server = Server(settings, sockets, shared)
    starting = asyncio.ensure_future(server.start())
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            await starting
            freeze_startup_objects()
            sys.setswitchinterval(_SWITCH_SECONDS)
            if ready is not None:
                ready(server)
            notify(READY)
            await asyncio.wait((stopping, server.ended), return_when=asyncio.FIRST_COMPLETED)
            notify(STOPPING)
            if server.ended.done():
                raise server.ended.result()
    finally:
        stopping.cancel()
        if not starting.done():
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
        elif starting.exception() is None:
            await server.stop()
