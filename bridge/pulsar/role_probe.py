"""What another role may do on this Pulsar, found out by asking in its name; nothing is left behind there."""

import itertools
import json
import secrets
from collections.abc import Awaitable, Collection
from enum import StrEnum
from typing import Final

from bridge.pulsar import commands
from bridge.pulsar.admin.rest import AdminError, Conflict, Forbidden, NotFound, RestClient, path_of, topic_path
from bridge.pulsar.auth import RoleAccess
from bridge.pulsar.connection.broker_connection import BrokerConnection
from bridge.pulsar.connection.lookup import Lookup
from bridge.pulsar.connection.pool import ConnectionPool
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.role_name import RightUnknown, role_name
from bridge.pulsar.types import AccessMode, PulsarError
from bridge.telemetry import log
from bridge.telemetry.metrics import PulsarMetrics

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
"""What a broker answers to a question only if it may be asked: it looks at the right first (`ServerCnx`)."""
_NOT_AUTHORIZED: Final = "not authorized"
"""So a broker says that it is the role that may not; if it could not find out, it says something else."""


class Right(StrEnum):
    """A right that Pulsar can be asked about."""

    LIST = "list"
    """See the names of all topics of the namespace."""
    LOOK_UP = "look up"
    CONSUME = "consume"
    PRODUCE = "produce"
    CREATE = "create"
    """Create topics in the namespace."""
    DELETE = "delete"
    """Delete topics of the namespace."""


class RoleProbe:
    """The questions of one role, over connections of its own; `close` when they are at an end."""

    def __init__(self, access: RoleAccess) -> None:
        """`access`: the role's, which is all that is known of it here."""
        settings, metrics = access.settings, PulsarMetrics()
        self._access = access
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
        return await _judged(self._pool.service())

    async def is_called(self, name: str) -> bool:
        """Whether Pulsar takes the role's credentials, and says that this is its name; RightUnknown."""
        if not await self.log_in():
            return False
        told = await role_name(self._access.settings, self._access)
        if told.name != name:
            _log.warning(
                "! pulsar does not say that a token is of its claim", extra={"claim": name, "said": told.said[:500]}
            )
        return told.name == name

    async def may(self, right: Right, topic: str, subscription: str = "") -> bool | None:
        """Whether the role has a right to a topic; RightUnknown. `subscription`: through this one.

        LIST, CREATE and DELETE are rights to the topic's namespace: ask them with a partitioned topic that exists.
        Whether a role may produce to a topic that is not there is not asked, for the question could create it. None if
        the role may look it up: that is true of nothing, and no answer for when the topic is there.
        """
        if right in (Right.CREATE, Right.DELETE):
            return await self._may_by_rest(right, topic)
        if right is Right.LIST:
            return await _judged(self._list(_namespace_of(topic)))
        if right is Right.LOOK_UP:
            return await _judged(self._lookup.partitions(topic), (pb.TopicNotFound,))
        if right is Right.CONSUME:
            return await self._may_consume(_beyond(topic), subscription)
        return await self._may_produce(topic)

    async def _list(self, namespace: str) -> None:
        connection = await self._pool.service()
        await connection.request(lambda request_id: commands.topics_of_namespace(request_id, namespace))

    async def _may_consume(self, topic: str, subscription: str) -> bool:
        """Subscribe to what is not there: that it is not is told after the right is checked."""
        connection = await self._connection(topic)
        if connection is None:
            return False
        consumer_id = next(self._ids)
        name = subscription or f"bridge-probe-{secrets.token_hex(6)}"
        may = await _judged(
            connection.request(
                lambda request_id: commands.subscribe(request_id, consumer_id, topic, name, durable=False)
            ),
            _PASSED,
        )
        connection.notify(lambda request_id: commands.close_consumer(request_id, consumer_id))
        return may

    async def _may_produce(self, topic: str) -> bool | None:
        """Open a producer where there is nothing to open; on a topic without partitions a real one, for a moment."""
        try:
            partitions = await self._lookup.partitions(topic)
        except PulsarError as error:
            return None if error.code == pb.TopicNotFound else _refused(error)
        asked = _beyond(topic) if partitions else topic
        connection = await self._connection(asked)
        if connection is None:
            return False
        producer_id = next(self._ids)
        opened = connection.request(
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
        may = await _judged(opened, _PASSED)
        connection.notify(lambda request_id: commands.close_producer(request_id, producer_id))
        if (
            partitions and opened.exception() is None
        ):  # the topic was deleted meanwhile, and what was asked about is there
            _log.warning("! pulsar created what was asked about", extra={"topic": asked})
        return may

    async def _connection(self, topic: str) -> BrokerConnection | None:
        """To the broker of the topic; None: the role may not look it up."""
        try:
            return await self._pool.get(await self._lookup.find(topic))
        except PulsarError as error:
            _refused(error)
            return None

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
        except AdminError as error:
            if isinstance(error, Conflict if right is Right.CREATE else NotFound):
                return True
            raise RightUnknown(str(error)) from None
        return True


async def _judged(question: Awaitable[object], passed: Collection[int] = ()) -> bool:
    """What a broker's answer says of the right; `passed`: errors that only one who has it is told.

    They are those of the question itself. A connection that is refused, be it for the broker's limit of connections,
    says nothing of a right.
    """
    try:
        await question
    except PulsarError as error:
        return error.code in passed or _refused(error)
    return True


def _refused(error: PulsarError) -> bool:
    """False: it is the role that is refused; RightUnknown otherwise."""
    if error.code == pb.AuthorizationError and _NOT_AUTHORIZED not in error.message.lower():
        raise RightUnknown(str(error)) from None
    if error.code not in _REFUSALS:
        raise RightUnknown(str(error)) from None
    return False


def _namespace_of(topic: str) -> str:
    return topic.partition("://")[2].rpartition("/")[0]


def _beyond(topic: str) -> str:
    return f"{topic}-partition-{_BEYOND}"
