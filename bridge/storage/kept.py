"""What the bridge keeps with a topic, in the properties that Pulsar holds for it: they live and die with the topic."""

import json
from collections.abc import Mapping

CONFIGS = "kafka.configs"
"""The configs that clients have set, as JSON."""
_LOG_START = "kafka.log.start."


def log_start_property(partition: int) -> str:
    """The property with the first offset that DeleteRecords has left in a partition."""
    return f"{_LOG_START}{partition}"


def log_start(properties: Mapping[str, str], partition: int) -> int:
    """The first offset that may be read of a partition; 0 unless records were deleted."""
    try:
        return int(properties.get(log_start_property(partition), 0))
    except ValueError:
        return 0


def configs(properties: Mapping[str, str]) -> dict[str, str]:
    """The configs that clients have set."""
    try:
        found = json.loads(properties.get(CONFIGS, "{}"))
    except ValueError:
        return {}
    return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}


def max_message_bytes(properties: Mapping[str, str]) -> int | None:
    """The largest batch that clients may send; None where no client has set one."""
    if CONFIGS not in properties:
        return None
    largest = configs(properties).get("max.message.bytes", "")
    return int(largest) if largest.isdecimal() else None


def is_compacted(properties: Mapping[str, str]) -> bool:
    """Whether the cleanup.policy that clients have set says compact, alone or not."""
    return CONFIGS in properties and "compact" in configs(properties).get("cleanup.policy", "").split(",")


def with_configs(values: Mapping[str, str]) -> dict[str, str]:
    """The properties that keep these configs."""
    return {CONFIGS: json.dumps(dict(sorted(values.items())), separators=(",", ":"))}
