"""The bridge process: the only place where its objects are wired together, started, drained and stopped."""

import asyncio
import contextlib
import secrets
import signal
import socket
import sys
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace

from bridge import __version__, apis, check, codec, log
from bridge.allocator import freeze_startup_objects
from bridge.api import Broker
from bridge.cluster import Cluster, cluster_id
from bridge.cluster.description import describe
from bridge.cluster.effects import Serving
from bridge.cluster.member import ClusterMember, config_for, new_incarnation
from bridge.cluster.record_format import FORMAT_LEVEL
from bridge.cluster.records import TopicChange, TopicEvent
from bridge.cluster.shared_settings import fingerprint
from bridge.cluster.topics import ClusterTopics
from bridge.cluster.view import Endpoint, NodeRegistration
from bridge.config import Address, Settings
from bridge.connection import Acceptor, Budget, Listener
from bridge.errors import BridgeError, StartupError
from bridge.groups.coordinator import GroupCoordinator
from bridge.groups.lag import LagTable
from bridge.groups.mirror import Mirror
from bridge.groups.offsets import Offsets
from bridge.groups.store.store import GroupStore
from bridge.http import HttpServer
from bridge.listening import listen
from bridge.metrics import Metrics, PulsarMetrics
from bridge.pulsar import Admin, PulsarClient
from bridge.pulsar.stall import StallDetector
from bridge.storage.append.deduplication import Deduplication
from bridge.storage.read.cache import Cache
from bridge.storage.read.catch_up import CatchUpReaders
from bridge.storage.services import Storage
from bridge.storage.topics.topics import Topics
from bridge.view_changes import ViewFollower
from bridge.watchdog import Watchdog

_log = log.get(__name__)

DRAIN_SECONDS = 10.0
_CATCHUP_IDLE_SECONDS = 30.0
_INDEX_IS_FRESH = 60.0
_LISTENER = "PLAINTEXT"
_SWITCH_SECONDS = 0.001  # a fifth of what is usual: the event loop waits so long for a thread that works in Python


class Server:
    """One bridge node, embeddable: `start`, then `stop`."""

    def __init__(
        self, settings: Settings, sockets: Sequence[socket.socket] = (), shared: Sequence[socket.socket] = ()
    ) -> None:
        """`sockets`: those of the Kafka port, where they listen already. `shared`: those that others accept on, too."""
        self.settings = settings
        self._sockets = list(sockets)
        self._shared = list(shared)
        self.metrics = Metrics(codec.TWIN)
        self.client = PulsarClient(settings.pulsar, self.metrics.pulsar)
        self.admin = Admin(settings.pulsar)
        self._watchdog = Watchdog(self.metrics.loop_held_seconds)
        self._stall = StallDetector(self.metrics.pulsar, self.client.retry_now)
        catch_up_readers = CatchUpReaders(
            settings.storage.max_catchup_readers, _CATCHUP_IDLE_SECONDS, self.metrics.storage
        )
        self.topics = Topics(
            Storage(
                settings=settings,
                client=self.client,
                admin=self.admin,
                metrics=self.metrics.storage,
                cache=Cache(settings.storage.cache_bytes, self.metrics.storage),
                catch_up_readers=catch_up_readers,
                deduplication=Deduplication(self.admin, settings.pulsar.full_namespace),
                # a name of its own for each process: two that write to one topic are two producers
                writer=f"bridge-{secrets.token_hex(8)}",
            )
        )
        self.store = GroupStore(self.client, self.admin, settings, self.metrics)
        self._groups: GroupCoordinator | None = None
        self._offsets: Offsets | None = None
        groups = settings.groups
        self._lag = LagTable(self.store, self.topics, self.metrics.groups, groups.max_groups_in_metrics)
        self._mirror = Mirror(self.store, self.topics, self.client, self.admin, settings, self.metrics.groups)
        self.kafka_port = 0
        self._http = HttpServer(
            settings.http,
            self.metrics,
            {
                "pulsar": self._pulsar_problem,
                "index": self._index_problem,
                "retention": self._retention_problem,
                "writes": self._writes_problem,
                "cluster": self._cluster_problem,
            },
            {"/cluster": self._describe_cluster},
        )
        self.cluster: Cluster | None = None
        self._member: ClusterMember | None = None
        self._listener: Listener | None = None
        self._acceptors: list[Acceptor] = []
        self._shared_acceptors: list[Acceptor] = []
        self._index_reason: str | None = None
        self._index_checked_at = float("-inf")

    @property
    def http_port(self) -> int:
        """The port of metrics and health, once started."""
        return self._http.port

    @property
    def ended(self) -> "asyncio.Future[StartupError]":
        """Done when this node can be a member of its cluster no more: the error says why."""
        assert self._member is not None  # noqa: S101 - it was started
        return self._member.ended

    async def start(self) -> None:
        """Log in to Pulsar, see that it is fit, and listen; StartupError says what to fix."""
        try:
            if not self._sockets:
                self._sockets = listen(Address.parse(self.settings.kafka.listen))
            self.kafka_port = self._sockets[0].getsockname()[1]
            await self.admin.start()
            await self._start()
        except BaseException:
            await self.stop(drain_seconds=0)
            raise

    async def _start(self) -> None:
        settings = self.settings
        try:
            await self.client.start()
        except BridgeError as error:
            raise StartupError(f"pulsar.service_url {settings.pulsar.service_url}: {error}") from None
        # what does not depend on another is asked side by side: a start is a gap for clients
        pulsar_cluster, _ = await asyncio.gather(
            self._pulsar_cluster(), check.ensure_fit(self.admin, self.client, settings)
        )
        self._index_checked_at = asyncio.get_running_loop().time()
        self._groups = GroupCoordinator(self.store, settings.groups, self.metrics.groups, self.topics)
        self._offsets = Offsets(self.store, self._groups, self.topics, settings.groups, self.metrics.groups)
        await asyncio.gather(self.topics.start(), self.store.start())
        cluster = self.cluster = Cluster(cluster_id(pulsar_cluster, settings.pulsar.full_namespace))
        host = Address.parse(settings.kafka.listen).host
        advertised = Address.parse(settings.kafka.advertised or str(Address(host, self.kafka_port)))
        ViewFollower(cluster, self.topics, lambda mine, orphaned: self.store.assign(mine, orphaned=orphaned))
        self._member = self._make_member(cluster, advertised)
        self._tell_topic_changes(self._member)
        await self._member.start()
        self._groups.start()
        await self._offsets.start()
        await self._lag.start()
        await self._mirror.start()
        self._stall.start()
        self._watchdog.start()
        self._listener = self._make_listener(cluster, self._groups, self._offsets)
        await self._http.start()
        self._acceptors = [Acceptor(sock, self._listener) for sock in self._sockets]
        self._shared_acceptors = [Acceptor(sock, self._listener) for sock in self._shared]
        _log.info(
            "= ready",
            extra={"version": __version__, "kafka": Address(host, self.kafka_port), "advertised": advertised},
        )

    def _make_member(self, cluster: Cluster, advertised: Address) -> ClusterMember:
        settings = self.settings
        node = NodeRegistration(
            name=settings.cluster.name or str(advertised),
            incarnation=new_incarnation(),
            id=settings.kafka.node_id,
            endpoints=(Endpoint(_LISTENER, advertised.host, advertised.port),),
            rack=settings.kafka.rack,
            weight=settings.cluster.weight,
            level=FORMAT_LEVEL,
            software=__version__,
            settings=fingerprint(settings),
        )
        # connections of its own, and time limits that fit to heartbeats
        pulsar = replace(settings.pulsar, keepalive_seconds=2.0, connect_timeout_seconds=5.0)
        return ClusterMember(
            cluster,
            node,
            config_for(settings.cluster, self.store.slots),
            PulsarClient(pulsar, PulsarMetrics()),
            ClusterTopics(self.admin, settings.pulsar.full_namespace),
            self.metrics.cluster,
        )

    def _tell_topic_changes(self, member: ClusterMember) -> None:
        """What this node does to topics is told to the others, whose caches go by it, and the other way round."""

        def changed(name: str, topic_id: uuid.UUID, event: TopicEvent) -> None:
            member.announce(TopicChange(name, str(topic_id), event))

        def changed_elsewhere(change: TopicChange) -> None:
            with contextlib.suppress(ValueError):  # an id of another form says nothing here
                self.topics.note_change(change.name, uuid.UUID(change.id), change.event)

        self.topics.on_changed.append(changed)
        member.on_topic_change.append(changed_elsewhere)

    def _make_listener(self, cluster: Cluster, groups: GroupCoordinator, offsets: Offsets) -> Listener:
        table = apis.load()
        self.metrics.name_apis({key: api.name for key, api in table.items()})
        broker = Broker(
            settings=self.settings,
            topics=self.topics,
            cluster=cluster,
            metrics=self.metrics,
            apis=table,
            groups=groups,
            offsets=offsets,
        )
        return Listener(broker, Budget(self.settings.kafka.memory_budget_bytes, self.metrics.in_flight_bytes))

    async def stop(self, drain_seconds: float = DRAIN_SECONDS) -> None:
        """Accept no more clients, answer what is received, release everything."""
        self._http.draining = True
        for one in self._shared_acceptors or self._shared:  # from now on the others' clients alone
            one.close()
        if self._member is not None:
            await self._member.leave()
        for one in self._acceptors or self._sockets:
            one.close()
        if self._groups is not None:
            self._groups.stop()
        if self._listener is not None:
            await self._listener.drain(drain_seconds)
        self._watchdog.stop()
        await self._stall.close()
        await self._lag.close()
        if self._offsets is not None:
            await self._offsets.close()
        if self._groups is not None:
            await self._groups.close()
            await self.store.close()
        await self._mirror.close()
        await self.topics.close()
        if self._member is not None:
            await self._member.close()
        await self.client.close()
        await self.admin.close()
        await self._http.stop()
        _log.info("= stopped")

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

    async def _cluster_problem(self) -> str | None:
        """Readiness: this node is a member of the cluster, and in contact with it."""
        cluster = self.cluster
        if cluster is None or cluster.node_id < 0:
            return "this node is not a member of the cluster"
        return None if cluster.serving is not Serving.REFUSE else "this node is cut off from Pulsar"

    def _describe_cluster(self) -> object:
        return describe(self.cluster.view) if self.cluster is not None else {}

    async def _retention_problem(self) -> str | None:
        """Readiness: data that no subscription holds is kept."""
        return await check.retention_problem(self.admin, self.settings)


async def run(
    settings: Settings,
    sockets: Sequence[socket.socket] = (),
    shared: Sequence[socket.socket] = (),
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
            await asyncio.wait((stopping, server.ended), return_when=asyncio.FIRST_COMPLETED)
            if server.ended.done():
                raise server.ended.result()
    finally:
        stopping.cancel()
        if not starting.done():
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
        elif starting.exception() is None:
            await server.stop()
