"""Members of a cluster on a real Pulsar, several in one process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from bridge.cluster import Cluster
from bridge.cluster.member import ClusterMember, config_for, new_incarnation
from bridge.cluster.membership.timing import Timing
from bridge.cluster.membership.view import Endpoint, NodeRegistration
from bridge.cluster.topics import ClusterTopics
from bridge.config import ClusterSettings, PulsarSettings
from bridge.pulsar import Admin, PulsarClient
from bridge.telemetry.metrics import ClusterMetrics, PulsarMetrics
from tests.support.pulsar import PulsarAddress
from tests.support.state import beside
from tests.support.waiting import until

SLOTS, GROUPS = 64, 8


class Member:
    """One life of a node."""

    def __init__(self, settings: PulsarSettings, admin: Admin, namespace: str, name: str, node_id: int = -1) -> None:
        self.cluster = Cluster("c")
        self.client = PulsarClient(settings, PulsarMetrics())
        self.metrics = ClusterMetrics()
        node = NodeRegistration(name, new_incarnation(), node_id, (Endpoint("PLAINTEXT", name, 9092),))
        config = replace(config_for(ClusterSettings(slots=SLOTS), GROUPS), timing=Timing(name_wait=1.5))
        self.member = ClusterMember(
            self.cluster, node, config, self.client, ClusterTopics(admin, beside(namespace)), self.metrics
        )

    @property
    def led(self) -> int:
        """How many slots it leads, as it knows."""
        return len(self.cluster.snapshot.led_by(self.cluster.node_id))

    async def stop(self) -> None:
        """Leave in order."""
        await self.member.leave()
        await self.member.close()

    async def kill(self) -> None:
        """As SIGKILL: its connections are gone, and it says nothing."""
        await self.member.abort()


class Members:
    """Those of one namespace."""

    def __init__(self, pulsar: PulsarAddress, admin: Admin) -> None:
        self.settings = PulsarSettings(service_url=pulsar.service_url, admin_url=pulsar.admin_url)
        self.admin = admin
        self.namespace = pulsar.create_namespace()
        pulsar.admin("PUT", f"namespaces/{beside(self.namespace).full_state_namespace}")
        self.all: list[Member] = []

    async def start(self, name: str, node_id: int = -1) -> Member:
        """One more, once it is a member."""
        one = Member(self.settings, self.admin, self.namespace, name, node_id)
        self.all.append(one)
        await one.member.start()
        return one

    async def agree(self, *members: Member, seconds: float = 20.0) -> None:
        """Wait until all know the same view of these members alone, and each has its share of the slots."""

        def agreed() -> bool:
            views = {one.cluster.view.version for one in members}
            share = SLOTS // len(members)
            fair = all(share <= one.led <= share + 1 for one in members)
            return len(views) == 1 and fair and all(len(one.cluster.view.members) == len(members) for one in members)

        await until(agreed, seconds)


@asynccontextmanager
async def members(pulsar: PulsarAddress) -> AsyncIterator[Members]:
    """A namespace of its own; all members end with it."""
    admin = Admin(PulsarSettings(service_url=pulsar.service_url, admin_url=pulsar.admin_url))
    await admin.start()
    found = Members(pulsar, admin)
    try:
        yield found
    finally:
        for one in found.all:
            await one.kill()
        await admin.close()
