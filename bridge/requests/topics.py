"""Topics by the names that requests give."""

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.requests.api import Broker
from bridge.storage.topics.topic import Topic


async def known_topic(name: str, broker: Broker) -> Topic | None:
    """The topic of this name; None also where it is none that a topic can have."""
    try:
        return await broker.topics.get(name)
    except KafkaError as error:
        if error.code != ErrorCode.INVALID_TOPIC_EXCEPTION:
            raise
        return None
