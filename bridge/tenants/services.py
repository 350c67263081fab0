"""What the bridge has of its own for each namespace: topics, groups, committed offsets, what is shown of them.

Nothing of it knows another namespace. So the topics, groups and ids of two cannot meet, by whatever names.
"""

import uuid
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial

from bridge.access.security_store.store import SecurityStore
from bridge.cluster.membership.records import TopicChange, TopicEvent
from bridge.config import Settings
from bridge.groups.budget import GroupMemory
from bridge.groups.configs import GroupConfigs
from bridge.groups.coordinator import GroupCoordinator
from bridge.groups.lag import LagTable
from bridge.groups.mirror import Mirror
from bridge.groups.offsets import Offsets
from bridge.groups.store.store import GroupStore
from bridge.requests.api import Broker, OtherNodes
from bridge.requests.encoded import SharedResponses
from bridge.requests.share_states import NodesShareStates
from bridge.runtime.futures import side_by_side
from bridge.shares.partitions import Shares
from bridge.storage.append.deduplication import Deduplication
from bridge.storage.services import Storage, set_event
from bridge.storage.topics.closed_logs import ClosedLogs
from bridge.storage.topics.topics import Topics
from bridge.telemetry.metrics import Metrics
from bridge.transactions.pruning import Remains
from bridge.transactions.transactions import Transactions


class NamespaceServices:
    """What the bridge has of one namespace: its topics, groups and offsets."""

    def __init__(
        self,
        storage: Storage,
        metrics: Metrics,
        security: SecurityStore,
        memory: GroupMemory | None = None,
        view_slots: int = 0,
    ) -> None:
        """`memory`, `view_slots`: of a namespace that is not the bridge's own."""
        settings = storage.settings
        self.settings = settings
        self.name = settings.pulsar.full_namespace
        self.is_own = not view_slots
        self.transactions = Transactions(
            storage.client,
            storage.admin,
            settings,
            metrics.transactions,
            lambda: self.topics.producer_ids.next(),
            lambda: view_slots or self.store.slots,
            Remains(
                lambda topic, partition: self.closed_logs.extent(topic, partition),
                lambda: self.store.pending_transactions(),
            ),
        )
        storage = replace(storage, outcomes=self.transactions.outcomes)
        self.topics = Topics(storage)
        self.store = GroupStore(storage.client, storage.admin, settings, metrics, view_slots, storage.outcomes)
        self.store.on_owned.append(lambda _: self.transactions.groups_taken())
        self.groups: GroupCoordinator
        """From `coordinate` on."""
        self.offsets: Offsets
        self.shares: Shares
        """Likewise."""
        self._catch_up_readers = storage.catch_up_readers
        self._memory = memory
        self._configs = GroupConfigs(settings.groups, partial(security.configs_of_group, self.name))
        self._metrics, self._share_metrics = metrics.groups, metrics.shares
        self.closed_logs = ClosedLogs(storage, self.topics)
        self.lag = LagTable(
            self.store,
            self.topics,
            self.closed_logs,
            metrics.groups,
            settings.groups.max_groups_in_metrics,
            namespace="" if self.is_own else self.name,
        )
        self._mirror = Mirror(self.store, self.topics, storage.client, storage.admin, settings, metrics.groups)
        self._is_coordinating = False

    def coordinate(self) -> None:
        """Be ready for groups; on the event loop."""
        settings, metrics = self.settings.groups, self._metrics
        self.groups = GroupCoordinator(
            self.store, settings, metrics, self.topics, memory=self._memory, configs=self._configs
        )
        self.offsets = Offsets(self.store, self.groups, self.topics, settings, metrics, namespace=self.name)
        self._share_states = NodesShareStates(self.groups.share_states, self.store.slot_of)
        is_single = self.settings.cluster.is_single
        persister = self.groups.share_states if is_single else self._share_states
        self.shares = Shares(persister, self._configs, self._share_metrics, coordinates=is_single)
        if is_single:
            self.store.on_lost.append(self.shares.end_groups)
        self.groups.share_states.on_changed.append(self.shares.changed)
        self.groups.on_share_member_gone.append(self.shares.sessions.end)
        self._is_coordinating = True

    async def open(self) -> None:
        """Ask Pulsar what has to be known before any request."""
        if self.is_own:
            # clients wait for the node
            await side_by_side(self.topics.start(), self.store.start(), self.transactions.open())
        else:
            await self.store.start()
            await self.transactions.open()
            await self.topics.start()  # last: where it fails nothing is left

    async def start(self) -> None:
        """Do what goes on by itself, from now on."""
        self.groups.start()
        await self.offsets.start()
        await self.lag.start(self.groups.in_memory)
        await self._mirror.start()
        self.transactions.start()

    def stop(self) -> None:
        """Answer what waits: the node stops."""
        if self._is_coordinating:
            self.shares.stop()
            self.groups.stop()

    async def close(self) -> None:
        """Store what is under way, and release everything."""
        await self.lag.close()
        if self._is_coordinating:
            await self.offsets.close()
            await self.groups.close()
            await self.store.close()
        await self.transactions.close()
        await self._mirror.close()
        await self.topics.close()
        if self.is_own:
            await self._catch_up_readers.close()

    # ---- the nodes ---------------------------------------------------------------------------------------------------

    def ask(self, others: OtherNodes | None) -> None:
        """Ask other nodes from now on, about this namespace; None: they cannot be asked."""
        self._share_states.others = others

    def assign(self, mine: Collection[int], orphaned: Collection[int]) -> None:
        """Coordinate the groups of these slots of the views. Who leads partitions may have changed, too."""
        self.store.assign(mine, orphaned=orphaned)
        self.transactions.assign(mine, orphaned)
        self.shares.drop_lost()

    def tell_changes(self, announce: Callable[[TopicChange], None]) -> None:
        """What this node does to topics is told to the others, whose caches go by it."""
        prefix = "" if self.is_own else self.name + "/"  # no topic's name has a slash

        def changed(prefix: str, name: str, topic_id: uuid.UUID, event: TopicEvent) -> None:
            announce(TopicChange(prefix + name, str(topic_id), event))

        self.topics.on_changed.append(partial(changed, prefix))

    def broker(self, own: Broker) -> Broker:
        """What requests of this namespace are handled with, made of that of the bridge's own."""
        others = None if own.other_nodes is None else own.other_nodes.of(self.name)
        self.ask(others)
        return replace(
            own,
            settings=self.settings,
            topics=self.topics,
            groups=self.groups,
            offsets=self.offsets,
            transactions=self.transactions,
            shares=None if own.shares is None else self.shares,
            closed_logs=self.closed_logs,
            other_nodes=others,
            shared_responses=SharedResponses(),
            authorization=None if own.authorization is None else own.authorization.of(self.name),
        )


def settings_of(namespace: str, own: Settings) -> Settings:
    """The settings of a tenant's namespace. Its state is with the bridge's: its administrators may not write there."""
    tenant, _, name = namespace.partition("/")
    there = {"tenant": tenant, "namespace": name, "state_namespace": own.pulsar.full_state_namespace}
    return own.with_values(pulsar=there, tenants={"rules": ""}, transactions=own.tenants.limits_of(namespace))


def storage_of(namespace: str, own: Storage) -> Storage:
    """The storage of another namespace: limits, memory and connections are those of the bridge's own."""
    settings = settings_of(namespace, own.settings)
    deduplication = Deduplication(own.admin, namespace)
    prefix = namespace + "/"
    return replace(own, settings=settings, deduplication=deduplication, may_send=set_event(), label_prefix=prefix)
