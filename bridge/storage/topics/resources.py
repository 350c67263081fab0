"""The types of resources that have configs in Kafka, and their names."""

import re
from enum import IntEnum


class ResourceType(IntEnum):
    """`org.apache.kafka.common.config.ConfigResource.Type`."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


def is_number(name: str) -> bool:
    """Whether the name may be a broker's id."""
    return re.fullmatch(r"[+-]?[0-9]{1,9}", name, re.ASCII) is not None
