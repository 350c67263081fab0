"""The two topics of a cluster, hidden from Kafka clients: heartbeats, and the view log."""

from contextlib import suppress
from typing import Final

from bridge.config import PulsarSettings
from bridge.errors import BridgeError, StartupError
from bridge.pulsar.admin import Admin, AdminError, Conflict, Retention
from bridge.pulsar.client import PulsarClient
from bridge.pulsar.types import PulsarError
from bridge.runtime.futures import side_by_side
from bridge.telemetry import log

HEARTBEATS: Final = "heartbeats"
VIEW_LOG: Final = "cluster"  # __bridge_cluster
_RETENTION: Final = Retention(minutes=60, megabytes=-1)

_log = log.get(__name__)


class ClusterTopics:
    """Where the nodes that share a Pulsar namespace meet."""

    def __init__(self, admin: Admin, pulsar: PulsarSettings) -> None:
        self.heartbeats = pulsar.state_topic(HEARTBEATS)
        self.view_log = pulsar.state_topic(VIEW_LOG)
        self._admin = admin

    async def create(self, client: PulsarClient) -> None:
        """Create those that are missing; StartupError where that is refused, and they are not there."""
        await side_by_side(*(self.ensure(topic, client) for topic in (self.heartbeats, self.view_log)))

    async def ensure(self, topic: str, client: PulsarClient) -> None:
        """Create a topic unless it is there; StartupError where that is refused."""
        try:
            await self.create_one(topic)
        except AdminError as error:
            try:
                await client.partitions(topic)  # a login that may only produce and consume can use what is there
            except PulsarError:
                text = f"the topic {topic} cannot be created: {error}; run: pulsar-admin topics create {topic}"
                raise StartupError(text) from None

    async def create_one(self, topic: str) -> None:
        """Create a topic unless it is there."""
        with suppress(Conflict):
            await self._admin.create_non_partitioned(topic)

    async def limit_retention(self) -> None:
        """Keep records for an hour: the controller writes the view as a whole much more often."""
        for topic in (self.heartbeats, self.view_log):
            try:
                if await self._admin.topic_retention(topic) != _RETENTION:
                    await self._admin.set_topic_retention(topic, _RETENTION)
            except BridgeError as error:
                _log.warning("! cluster topic keeps the namespace's retention", extra={"topic": topic, "error": error})
