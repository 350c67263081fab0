"""What another role may do on this Pulsar, found out by asking in its name; nothing is left behind there."""

import itertools
import json
import secrets
from collections.abc import Awaitable
from enum import StrEnum
from typing import Final

from bridge import log
from bridge.config import PulsarSettings
from bridge.metrics import PulsarMetrics
from bridge.pulsar import commands
from bridge.pulsar.admin.rest import AdminError, Conflict, Forbidden, NotFound, RestClient, path_of, topic_path
from bridge.pulsar.auth import Access
from bridge.pulsar.connection.broker_connection import BrokerConnection
from bridge.pulsar.connection.lookup import Lookup
from bridge.pulsar.connection.pool import ConnectionPool
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import AccessMode, PulsarError

_log = log.get(__name__)

_BEYOND: Final = 2**31 - 1
"""A partition that no topic has. A role may do with it what it may with the topic, and there is nothing to open."""
_REFUSALS: Final = (pb.AuthorizationError, pb.AuthenticationError)
_PASSED: Final = frozenset(
    {
        pb.TopicNotFound, pb.SubscriptionNotFound, pb.NotAllowedError, pb.ConsumerBusy, pb.ProducerBusy,
        pb.TopicTerminatedError, pb.ProducerBlockedQuotaExceededError, pb.ProducerBlockedQuotaExceededException,
        pb.ProducerFenced, pb.IncompatibleSchema,
    }
)  # fmt: skip
"""What a broker answers only to who may ask: it looks at the right first (`ServerCnx`)."""
_NOT_AUTHORIZED: Final = "not authorized"
"""So a broker says that it is the role that may not; if it could not find out, it says something else."""


class Right(StrEnum):
    """What may be asked."""

    LIST = "list"
    """See the names of all topics of the namespace."""
    LOOK_UP = "look up"
    CONSUME = "consume"
    PRODUCE = "produce"
    CREATE = "create"
    """Create topics in the namespace."""
    DELETE = "delete"
    """Delete topics of the namespace."""


class RightUnknown(PulsarError):
    """Pulsar cannot say now whether the role may."""

    def __init__(self, reason: str) -> None:
        super().__init__(pb.ServiceNotReady, reason)


class RoleProbe:
    """The questions of one role, over connections of its own; `close` when they are at an end."""

    def __init__(self, settings: PulsarSettings, access: Access) -> None:
        """`access`: the role's."""
        metrics = PulsarMetrics()
        self._pool = ConnectionPool(settings, metrics, access)
        self._lookup = Lookup(settings, metrics, self._pool)
        self._rest = RestClient(settings, access)
        self._is_rest_started = False
        self._ids = itertools.count(1)

    async def close(self) -> None:
        """Close the connections."""
        await self._pool.close()
        await self._rest.close()

    async def log_in(self) -> bool:
        """Whether Pulsar takes the role's credentials; RightUnknown."""
        return await _judged(self._connected())

    async def may(self, right: Right, topic: str, subscription: str = "") -> bool:
        """Whether the role has a right to a topic; RightUnknown. `subscription`: through this one.

        LIST, CREATE and DELETE are rights to the topic's namespace: ask them with a partitioned topic that exists. To
        produce to a topic that is not there is to look it up, for the question itself could create it.
        """
        if right is Right.LIST:
            return await _judged(self._list(_namespace_of(topic)))
        if right is Right.LOOK_UP:
            return await _judged(self._lookup.partitions(topic))
        if right is Right.CONSUME:
            return await _judged(self._consume(_beyond(topic), subscription))
        if right is Right.PRODUCE:
            return await _judged(self._produce(topic))
        return await self._may_by_rest(right, topic)

    async def _connected(self) -> None:
        await self._pool.service()

    async def _list(self, namespace: str) -> None:
        connection = await self._pool.service()
        await connection.request(lambda request_id: commands.topics_of_namespace(request_id, namespace))

    async def _consume(self, topic: str, subscription: str) -> None:
        """Subscribe to what is not there: that it is not is told after the right is checked."""
        connection = await self._connection(topic)
        consumer_id = next(self._ids)
        name = subscription or f"bridge-probe-{secrets.token_hex(6)}"
        await connection.request(
            lambda request_id: commands.subscribe(request_id, consumer_id, topic, name, durable=False)
        )
        connection.notify(lambda request_id: commands.close_consumer(request_id, consumer_id))

    async def _produce(self, topic: str) -> None:
        """Open a producer where there is nothing to open; on a topic without partitions a real one, for a moment."""
        partitions = await self._lookup.partitions(topic)
        asked = _beyond(topic) if partitions else topic
        connection = await self._connection(asked)
        producer_id = next(self._ids)
        await connection.request(
            lambda request_id: commands.producer(
                request_id,
                producer_id,
                asked,
                name=f"bridge-probe-{secrets.token_hex(6)}",
                user_provided_name=True,
                epoch=0,
                properties={},
                access_mode=AccessMode.SHARED,
            )
        )
        connection.notify(lambda request_id: commands.close_producer(request_id, producer_id))
        if partitions:  # the topic was deleted meanwhile, and what was asked about has come to be
            _log.warning("! pulsar created what was asked about", extra={"topic": asked})

    async def _connection(self, topic: str) -> BrokerConnection:
        return await self._pool.get(await self._lookup.find(topic))

    async def _may_by_rest(self, right: Right, topic: str) -> bool:
        """Create what exists, or delete what does not: Pulsar says so only to who may."""
        if not self._is_rest_started:
            await self._rest.start()
            self._is_rest_started = True
        try:
            if right is Right.CREATE:
                await self._rest.call("PUT", f"{topic_path(topic)}/partitions", body=json.dumps(1))
            else:
                path = f"persistent/{path_of(_namespace_of(topic))}/bridge-probe-{secrets.token_hex(8)}/partitions"
                await self._rest.call("DELETE", path)
        except Forbidden:
            return False
        except (Conflict, NotFound):
            return True
        except AdminError as error:
            raise RightUnknown(str(error)) from None
        return True


async def _judged(question: Awaitable[object]) -> bool:
    try:
        await question
    except PulsarError as error:
        if error.code == pb.AuthorizationError and _NOT_AUTHORIZED not in error.message.lower():
            raise RightUnknown(str(error)) from None
        if error.code in _REFUSALS:
            return False
        if error.code in _PASSED:
            return True
        raise RightUnknown(str(error)) from None
    return True


def _namespace_of(topic: str) -> str:
    return topic.partition("://")[2].rpartition("/")[0]


def _beyond(topic: str) -> str:
    return f"{topic}-partition-{_BEYOND}"
