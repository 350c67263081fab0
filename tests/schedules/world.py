"""What a scenario is given: a network, a model Pulsar on it, and as many bridges as it wants, all in one event loop."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from bridge import apis
from bridge.cluster import Node, single_node
from bridge.config import Settings
from bridge.groups.coordinator import GroupCoordinator
from bridge.groups.offsets import Offsets
from bridge.groups.store.store import GroupStore
from bridge.pulsar import Admin, PulsarClient
from bridge.requests.api import Broker as Handlers
from bridge.storage.append.deduplication import Deduplication
from bridge.storage.mark_signer import MarkSecret
from bridge.storage.read.cache import Cache
from bridge.storage.read.catch_up import CatchUpReaders
from bridge.storage.services import Storage
from bridge.storage.topics.closed_logs import ClosedLogs
from bridge.storage.topics.topics import Topics
from bridge.telemetry.metrics import Metrics
from bridge.transactions.pruning import Remains
from bridge.transactions.transactions import Transactions
from tests.schedules.broker import HOST, PORT, Broker, ModelAdmin
from tests.schedules.chance import Chance
from tests.schedules.loop import ScheduleLoop, pending
from tests.schedules.network import Network
from tests.schedules.trace import Trace

_T = TypeVar("_T")
_CATCHUP_IDLE_SECONDS = 30.0
_TABLE = apis.load()
NAMESPACE = "public/default"
_SETTINGS = Settings().with_values(
    pulsar={
        "service_url": f"pulsar://{HOST}:{PORT}",
        "tenant": NAMESPACE.partition("/")[0],
        "namespace": NAMESPACE.partition("/")[2],
    },
    groups={"slots": 1},
)
_GROUPED = _SETTINGS.with_values(storage={"group_commit_bytes": 131_072})


def full(topic: str, partition: int = 0) -> str:
    """A partition's name in Pulsar."""
    return f"persistent://{NAMESPACE}/{topic}-partition-{partition}"


def group_slot(slot: int = 0) -> str:
    """The topic of a slot of groups."""
    return f"persistent://{NAMESPACE}-bridge/__bridge_groups-partition-{slot}"


@dataclass(eq=False)
class Bridge:
    """One bridge node as `node/server.py` wires it, without its sockets."""

    settings: Settings
    metrics: Metrics
    client: PulsarClient
    admin: Admin
    topics: Topics
    store: GroupStore
    coordinator: GroupCoordinator
    offsets: Offsets
    handlers: Handlers
    closed: bool = False

    async def start(self, *, groups: bool = False) -> None:
        """As `Server.start`; the groups' part only where a scenario needs it."""
        await self.client.start()
        await self.topics.start()
        if groups:
            await self.store.start()
            self.store.assign(range(self.store.slots), orphaned=range(self.store.slots))
            self.coordinator.start()
            await self.offsets.start()

    async def stop(self, before_client: Callable[[], Awaitable[None]] | None = None) -> None:
        """As `Server.stop`; `before_client`: what is to end before the connections do."""
        if not self.closed:
            self.closed = True
            await self.offsets.close()
            self.coordinator.stop()
            await self.coordinator.close()
            await self.store.close()
            await self.topics.close()
            if before_client is not None:
                await before_client()
            await self.client.close()
            await self.admin.close()


@dataclass(eq=False)
class World:
    """See the module."""

    chance: Chance
    loop: ScheduleLoop
    trace: Trace
    network: Network = field(init=False)
    broker: Broker = field(init=False)
    bridges: list[Bridge] = field(default_factory=list)
    _natives: list[Bridge] = field(default_factory=list)
    _hung_up: list[tuple[asyncio.Future[Any], str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.mark_secret = MarkSecret()
        self.mark_secret.is_shared = True
        self.network = Network(self.loop, self.chance, self.trace)
        self.broker = Broker(self.network, self.chance, self.trace)

    @property
    def now(self) -> float:
        """The virtual clock."""
        return self.loop.now

    def settings(self, **overrides: Mapping[str, Any]) -> Settings:
        """The defaults, for the model; with every second seed batches share entries."""
        settings = _GROUPED if self.chance.number % 2 else _SETTINGS
        return settings.with_values(**overrides) if overrides else settings

    def bridge(self, **overrides: Mapping[str, Any]) -> Bridge:
        """A node, not yet started."""
        settings = self.settings(**overrides)
        metrics = Metrics()
        client, admin = PulsarClient(settings.pulsar, metrics.pulsar), ModelAdmin(settings.pulsar, self.broker)
        storage = Storage(
            settings=settings,
            client=client,
            admin=admin,
            metrics=metrics.storage,
            cache=Cache(settings.storage.cache_bytes, metrics.storage),
            catch_up_readers=CatchUpReaders(
                settings.storage.max_catchup_readers, _CATCHUP_IDLE_SECONDS, metrics.storage
            ),
            deduplication=Deduplication(admin, settings.pulsar.full_namespace),
            writer=f"bridge-{len(self.bridges)}-{secrets.token_hex(6)}",
            mark_secret=self.mark_secret,
        )
        topics = Topics(storage)
        store = GroupStore(client, admin, settings, metrics)
        coordinator = GroupCoordinator(store, settings.groups, metrics.groups, topics)
        offsets = Offsets(store, coordinator, topics, settings.groups, metrics.groups)
        cluster = single_node(Node(len(self.bridges), "bridge", 9092), "cluster")
        transactions = Transactions(
            client,
            admin,
            settings,
            metrics.transactions,
            topics.producer_ids.next,
            lambda: store.slots,
            Remains(ClosedLogs(storage, topics).extent, store.pending_transactions),
        )
        handlers = Handlers(settings, topics, cluster, metrics, _TABLE, coordinator, offsets, transactions)
        bridge = Bridge(settings, metrics, client, admin, topics, store, coordinator, offsets, handlers)
        self.bridges.append(bridge)
        return bridge

    async def native(self) -> PulsarClient:
        """A Pulsar client that is none of a bridge's."""
        bridge = self.bridge()
        self._natives.append(bridge)
        await bridge.client.start()
        return bridge.client

    async def started(self, *, groups: bool = False, **overrides: Mapping[str, Any]) -> Bridge:
        """A node that serves."""
        bridge = self.bridge(**overrides)
        await bridge.start(groups=groups)
        return bridge

    # --- time -------------------------------------------------------------------------------------------------------

    async def sleep(self, least: float, most: float | None = None) -> None:
        """Let so much virtual time go by; between the two where two are given."""
        await asyncio.sleep(least if most is None else self.chance.uniform(least, most))

    async def moment(self) -> None:
        """Let a little time go by: none, a turn of the loop, or some milliseconds."""
        draw = self.chance.random()
        if draw < 0.2:
            return
        await asyncio.sleep(0 if draw < 0.4 else self.chance.choice((0.0001, 0.002, 0.02, 0.1)) * self.chance.random())

    async def within(self, seconds: float, work: Awaitable[_T], what: str) -> _T:
        """The result, which must come within so much virtual time."""
        task = asyncio.ensure_future(work)
        done, _ = await asyncio.wait((task,), timeout=seconds)
        if not done:
            waiting = pending(self.loop)
            task.cancel()
            raise AssertionError(f"{what}: not within {seconds:g} s\n{waiting}")
        return task.result()

    def after_all(self, handled: "asyncio.Future[Any]", what: str) -> None:
        """No client waits for this request any more; it must come to an end all the same."""
        self._hung_up.append((handled, what))

    # --- the end ----------------------------------------------------------------------------------------------------

    async def end(self) -> None:
        """Stop everything and see that nothing is left: here, on the broker, or in between."""
        for bridge in [*self._natives, *self.bridges]:
            if not bridge.closed:
                await self.within(120, bridge.topics.close(), "closing the topics")
                if bridge not in self._natives and not bridge.store._log.slots:
                    await self._gone(bridge)
                await self.within(120, bridge.stop(), "stopping the bridge")
        for handled, what in self._hung_up:
            await self.within(60, asyncio.wait((handled,)), f"a {what} whose client has hung up")
            handled.cancelled() or handled.exception()
        await self.sleep(10)
        left = [f"connection {number}" for number in self.broker.connections] + self.broker.sessions()
        assert not left, f"left on the broker when all is closed: {left}"
        assert not self.network.open, f"left open here: {sorted(self.network.open)}"

    async def _gone(self, bridge: Bridge) -> None:
        """What the topics had open on the broker is closed there, though the client is still connected."""
        await self.sleep(15)
        if all(one is bridge or one.closed for one in self.bridges) and self.broker.up and not self.broker.frozen:
            left = [one for one in self.broker.sessions() if "__bridge" not in one]
            assert not left, f"left open by Topics.close: {left}"
