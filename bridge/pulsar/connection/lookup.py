"""Finding the broker that serves a topic."""

import asyncio
import re
from typing import Final

from bridge.config import PulsarSettings
from bridge.pulsar import commands
from bridge.pulsar.connection.broker_connection import Address, BrokerConnection
from bridge.pulsar.connection.pool import BrokerAway, ConnectionPool, parse_url
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import ConnectionLost, PulsarError
from bridge.telemetry.metrics import PulsarMetrics

_MAX_REDIRECTS: Final = 20  # as the Java client's maxLookupRedirects
_PARTITION: Final = re.compile(r"(?P<topic>.+)-partition-(?P<number>[0-9]+)")
# Seconds a partition may be missing before its topic, when that is being deleted, is missing too.
_DELETION_SECONDS: Final = 5.0
_MOST_BROKERS: Final = 16
"""Behind a proxy of more, the first answers of a connection may be wrong."""
_Answer = pb.CommandLookupTopicResponse


def whole_topic(topic: str) -> str:
    """The topic that this one is a partition of, or itself."""
    partition = _PARTITION.fullmatch(topic)
    return topic if partition is None else partition["topic"]


class Lookup:
    """Asks at the service URL and follows redirects (Pulsar binary protocol, "Topic lookup")."""

    def __init__(self, settings: PulsarSettings, metrics: PulsarMetrics, pool: ConnectionPool) -> None:
        self._listener = settings.listener_name
        self._metrics = metrics
        self._pool = pool
        self._settled: BrokerConnection | None = None
        """The connection to a proxy that has gone round its brokers for it."""
        pool.watch_moves(self._find)

    async def find(self, topic: str) -> Address:
        """Where to connect for this topic, asked each time: topics move."""
        try:
            address = await self._find(topic)
        except PulsarError:
            self._metrics.lookup_errors.inc()
            raise
        self._pool.found(topic, address)
        return address

    async def partitions(self, topic: str) -> int:
        """How many partitions; 0 = not partitioned; PulsarError(TopicNotFound) when there is no such topic.

        Never creates anything: a broker too old to be asked so is not asked (UnsupportedVersionError).
        """
        connection = await self._pool.service()
        if not connection.features.supports_get_partitioned_metadata_without_auto_creation:
            raise PulsarError(pb.UnsupportedVersionError, "this broker may create a topic that is asked about")
        partitions = await _partitions(connection, topic)
        if not connection.features.supports_topic_watchers:
            # A Pulsar proxy has no topic watchers. If it must first connect to a broker, it asks for something else
            # (LookupProxyHandler reads our request when its buffer holds another one), and a topic that is missing
            # has 0 partitions. It goes round the brokers: a later question finds it connected to its one. Once
            # it has met them all, one more question is asked, for a broker may have started again.
            for _ in range(1 if connection is self._settled else _MOST_BROKERS):
                if partitions:
                    break
                partitions = await _partitions(connection, topic)
            else:
                self._settled = connection
        return partitions

    async def must_exist(self, topic: str) -> bool:
        """Raise TopicNotFound unless the topic, or the one it is a partition of, is there; False if only the latter is.

        A broker with automatic creation would create a deleted topic again for the first producer that reconnects.
        """
        whole = _PARTITION.fullmatch(topic)
        try:
            if whole is None:
                await self.partitions(topic)
                return True
            partitions = await self.partitions(whole["topic"])
            if int(whole["number"]) >= partitions:
                raise PulsarError(pb.TopicNotFound, f"{whole['topic']} has {partitions} partitions")
            return await self._has_partition(topic)
        except PulsarError as error:
            if error.code != pb.UnsupportedVersionError:
                raise
            return True

    async def _has_partition(self, topic: str) -> bool:
        try:
            await self.partitions(topic)
        except PulsarError as error:
            if error.code != pb.TopicNotFound:
                raise
            return False
        return True

    async def _find(self, topic: str) -> Address:
        connection = await self._pool.service()
        authoritative = False
        for _ in range(_MAX_REDIRECTS):
            answer = await self._ask(connection, topic, authoritative)
            address = self._address(answer)
            if answer.response == _Answer.Connect:
                return address
            authoritative = answer.authoritative
            try:
                connection = await self._pool.get(address)
            except BrokerAway as away:  # another one may lead now: that is asked for, and this one not waited for
                raise ConnectionLost(away.message) from None
        raise PulsarError(pb.ServiceNotReady, f"more than {_MAX_REDIRECTS} redirects for {topic}")

    async def _ask(self, connection: BrokerConnection, topic: str, authoritative: bool) -> _Answer:
        self._metrics.lookups.inc()
        command = await connection.request(
            lambda request_id: commands.lookup(request_id, topic, authoritative=authoritative, listener=self._listener)
        )
        answer = command.lookup_topic_response
        if not answer.HasField("response") or answer.response == _Answer.Failed:
            raise PulsarError(answer.error, answer.message)
        return answer

    def _address(self, answer: _Answer) -> Address:
        """Only what the answer's URL for our own kind of connection says: TLS is never given up on a broker's word.

        A proxy writes one URL into both fields, by its own kind of connection to the broker (`LookupProxyHandler`). Its
        host and port are passed on to the proxy, over a connection of our kind.
        """
        url = answer.broker_service_url_tls if self._pool.tls else answer.broker_service_url
        (address, *others) = parse_url(url)
        proxied = answer.proxy_through_service_url
        if others or (address.tls != self._pool.tls and not proxied):
            raise PulsarError(pb.UnknownError, f"lookup gave an unfit broker URL: {url!r}")
        if not proxied:
            return address
        host = f"[{address.host}]" if ":" in address.host else address.host
        return self._pool.service_address._replace(proxied_broker=f"{host}:{address.port}")


async def _partitions(connection: BrokerConnection, topic: str) -> int:
    command = await connection.request(lambda request_id: commands.partitioned_metadata(request_id, topic))
    if command.type == pb.BaseCommand.LOOKUP_RESPONSE:  # so a Pulsar proxy tells an error (LookupProxyHandler)
        refused = command.lookup_topic_response
        raise PulsarError(refused.error, refused.message)
    answer = command.partition_metadata_response
    if answer.HasField("error") or answer.response == pb.CommandPartitionedTopicMetadataResponse.Failed:
        raise PulsarError(answer.error, answer.message)
    return answer.partitions


class TopicExistenceCheck:
    """Whether a producer may come back to its topic, which it must not create.

    A partition that is missing while its topic is there is one of two things. It is being deleted, its topic next, and
    must not come back: so we wait. Or it was deleted for inactivity, and the next producer creates it again: so we do,
    when it has been missing for long enough.
    """

    def __init__(self, lookup: Lookup, topic: str) -> None:
        self._lookup = lookup
        self._topic = topic
        self._missing_since: float | None = None

    async def check(self) -> None:
        """Return when the topic may be opened; PulsarError otherwise: TopicNotFound, or a passing one."""
        if await self._lookup.must_exist(self._topic):
            self._missing_since = None
            return
        now = asyncio.get_running_loop().time()
        if self._missing_since is None:
            self._missing_since = now
        if now - self._missing_since < _DELETION_SECONDS:
            raise PulsarError(pb.ServiceNotReady, "the partition is missing: it may be being deleted")
