"""Creates the internal topics of streams groups (KIP-1071) for the member whose heartbeat has named them."""

from collections.abc import Collection
from typing import Final

from bridge.errors import KafkaError
from bridge.groups.streams.model import TopicInfo
from bridge.kafka.error_codes import ErrorCode
from bridge.requests import audit
from bridge.requests.api import Broker
from bridge.requests.authorization import checks_of
from bridge.requests.session import Session
from bridge.requests.topic_creation import MAX_PARTITIONS
from bridge.runtime.futures import within
from bridge.security.acls import Operation, ResourceType
from bridge.storage.topics.creation import check_new_topic

_TIMEOUT_MS: Final = 60_000
"""As of a CreateTopics that names none."""


async def begin(group_id: str, wanted: Collection[TopicInfo], broker: Broker, session: Session) -> str:
    """Have topics created that are not there; why some cannot be, for the member's status, "" where nothing is known.

    The member needs CREATE on the cluster or on all of these topics, else none is created, as in Kafka.
    """
    denied = await _denied([one.name for one in wanted], broker, session)
    if denied:
        return f"; Unauthorized to CREATE on topics {', '.join(sorted(denied))}."
    if sum(one.partitions for one in wanted) > MAX_PARTITIONS:
        return f"; Creation failed: they have more than {MAX_PARTITIONS} partitions."

    async def create(topic: TopicInfo) -> None:
        await _create(topic, broker, session)

    failed = broker.groups.create_internal_topics(group_id, wanted, create)
    return f"; Creation failed: {failed}." if failed else ""


async def _denied(names: Collection[str], broker: Broker, session: Session) -> Collection[str]:
    checks = checks_of(broker, session)
    if checks is None or await checks.allows(Operation.CREATE, quietly=True):
        return ()
    return await checks.denied(Operation.CREATE, ResourceType.TOPIC, names)


async def _create(topic: TopicInfo, broker: Broker, session: Session) -> None:
    """One topic, by all rules for new ones; nothing where it is there by now. Its replicas are Pulsar's matter."""
    try:
        await check_new_topic(topic.name, broker.topics)
        configs: dict[str, str | None] = dict(topic.configs)
        await broker.topics.administration.validate_configs(configs)
        if session.mutations is not None:
            session.mutations.count(topic.partitions, strict=True, waits=False)
        await broker.topics.partition_limit.check(topic.partitions, topic.partitions)
        await within(_TIMEOUT_MS, broker.topics.create(topic.name, topic.partitions, configs, is_new=True))
    except TimeoutError:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "Pulsar has not created the topic in time") from None
    except KafkaError as error:
        if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
        return
    audit.tell([audit.AuditedChange(ErrorCode.NONE, "topic", topic.name, "created")], session)
