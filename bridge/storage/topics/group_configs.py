"""Kafka's group configs: the same for all groups, from the bridge's settings."""

from collections.abc import Iterable
from typing import Final

from bridge.config import GroupSettings
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.storage.topics.config_table import ConfigType
from bridge.storage.topics.configs import ConfigEntry, ConfigSource

_NOT_SERVED: Final = ("share.", "streams.")


def group_configs(groups: GroupSettings) -> list[ConfigEntry]:
    """Every config, by name."""
    return [
        _entry("consumer.heartbeat.interval.ms", groups.consumer_heartbeat_interval_ms,
               "groups.consumer_heartbeat_interval_ms: how often members send a heartbeat."),
        _entry("consumer.session.timeout.ms", groups.consumer_session_timeout_ms,
               "groups.consumer_session_timeout_ms: after how long without a heartbeat members are removed."),
    ]  # fmt: skip


def check_group_configs(wanted: Iterable[str], groups: GroupSettings) -> None:
    """Raise INVALID_CONFIG if any is wanted: a group has no configs of its own, so it would not be shown as such."""
    known = {entry.name: entry for entry in group_configs(groups)}
    for name in wanted:
        entry = known.get(name)
        if entry is not None:
            text = f"{name} is {entry.value} for all groups here and cannot be set for one: {entry.documentation}"
        elif name.startswith(_NOT_SERVED):
            text = f"{name} is for a type of group that is not supported"
        else:
            text = f"Unknown group config name: {name}"
        raise KafkaError(ErrorCode.INVALID_CONFIG, text)


def _entry(name: str, value: int, documentation: str) -> ConfigEntry:
    inherited = (f"group.{name}", str(value), ConfigSource.STATIC_BROKER)
    documentation = f"The bridge's setting {documentation}"
    return ConfigEntry(name, str(value), True, ConfigSource.STATIC_BROKER, ConfigType.INT, documentation, (inherited,))
