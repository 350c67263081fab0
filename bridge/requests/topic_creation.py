"""Creates topics that clients have only asked for, as many as they may have: random names must not fill Pulsar."""

import asyncio
from typing import Final

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.requests.api import Broker
from bridge.requests.session import Session
from bridge.security.principal import ANONYMOUS
from bridge.security.sasl.failures import network_of
from bridge.storage.topics.topic import Topic
from bridge.telemetry import log

MAX_PARTITIONS: Final = 10_000
"""Of all topics in one request (`ReplicationControlManager`)."""
TELL_SECONDS: Final = 1.0
"""The log has one line of refused topics in so many seconds."""
_log = log.get(__name__)


async def create_for(session: Session, name: str, broker: Broker) -> Topic:
    """The topic, created if there is none.

    LEADER_NOT_AVAILABLE where the client has had too many: all clients take it for a topic that is being created, and
    ask again.
    """
    client = network_of(session.host[1:]) if session.principal == ANONYMOUS else str(session.principal)
    delay = broker.creations.create(client, asyncio.get_running_loop().time())
    if delay:
        broker.metrics.quotas.throttle("topic_creation", delay)
        _tell(session, name, broker, "too many topics in a minute")
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
    try:
        if session.mutations is not None:
            session.mutations.count(broker.settings.kafka.default_partitions, strict=True, waits=False)
        return await broker.topics.create_if_absent(name)
    except KafkaError as error:
        if error.code not in (ErrorCode.THROTTLING_QUOTA_EXCEEDED, ErrorCode.POLICY_VIOLATION):
            raise
        _tell(session, name, broker, error.message)
        if error.code == ErrorCode.POLICY_VIOLATION:
            raise
        broker.metrics.quotas.throttle("controller_mutation", 0.0)
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE) from None


def _tell(session: Session, topic: str, broker: Broker, reason: str) -> None:
    refused = broker.creations.refused(asyncio.get_running_loop().time(), TELL_SECONDS)
    if refused:
        fields = {"peer": session.peer, "client": session.client_id[:128], "principal": session.principal}
        _log.warning("! topic not created", extra={**fields, "topic": topic, "reason": reason, "refused": refused})
