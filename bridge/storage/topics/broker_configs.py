"""A bridge's configs as a Kafka broker: read-only, as its settings are its operator's."""

from typing import Final

from bridge.config import Settings
from bridge.storage.topics.config_table import TABLE, ConfigType
from bridge.storage.topics.configs import ConfigEntry, ConfigSource, TopicDefaults

_ALWAYS: Final = (
    (
        "default.replication.factor",
        "1",
        ConfigType.INT,
        "What is shown: Pulsar's own quorums say how many copies there are.",
    ),
    ("delete.topic.enable", "true", ConfigType.BOOLEAN, "Topics can be deleted."),
)

_LONG: Final = {"connections.max.idle.ms", "queued.max.request.bytes"}


def broker_configs(settings: Settings, node_id: int, advertised: str, defaults: TopicDefaults) -> list[ConfigEntry]:
    """Every config by name, with those that topics inherit; `advertised`: the node's listeners as Kafka writes them."""
    kafka, groups = settings.kafka, settings.groups
    directory = f"persistent://{settings.pulsar.full_namespace}"
    static: tuple[tuple[str, str | int, str], ...] = (
        ("advertised.listeners", advertised, "kafka.advertised or kafka.advertised_listeners"),
        ("auto.create.topics.enable", kafka.auto_create_topics, "kafka.auto_create_topics"),
        ("broker.id", node_id, "kafka.node_id"),
        ("connections.max.idle.ms", int(kafka.idle_seconds * 1000), "kafka.idle_seconds"),
        ("fetch.max.bytes", kafka.max_fetch_bytes, "kafka.max_fetch_bytes"),
        ("group.initial.rebalance.delay.ms", groups.initial_rebalance_delay_ms, "groups.initial_rebalance_delay_ms"),
        ("group.max.session.timeout.ms", groups.max_session_timeout_ms, "groups.max_session_timeout_ms"),
        ("group.min.session.timeout.ms", groups.min_session_timeout_ms, "groups.min_session_timeout_ms"),
        ("log.dirs", directory, "pulsar.tenant, pulsar.namespace: where the records are"),
        ("max.connections", kafka.max_connections, "kafka.max_connections"),
        ("max.connections.per.ip", kafka.max_connections_per_ip, "kafka.max_connections_per_ip"),
        ("node.id", node_id, "kafka.node_id"),
        ("num.partitions", kafka.default_partitions, "kafka.default_partitions"),
        ("offset.metadata.max.bytes", groups.max_offset_metadata_bytes, "groups.max_offset_metadata_bytes"),
        ("offsets.retention.minutes", groups.offsets_retention_minutes, "groups.offsets_retention_minutes"),
        ("offsets.topic.num.partitions", groups.slots, "groups.slots"),
        ("queued.max.request.bytes", kafka.memory_budget_bytes, "kafka.memory_budget_bytes"),
        ("socket.request.max.bytes", kafka.max_request_bytes, "kafka.max_request_bytes"),
    )
    found = [_of_setting(name, value, setting) for name, value, setting in static]
    found += [_entry(*fixed, ConfigSource.DEFAULT) for fixed in _ALWAYS]
    for config in TABLE.values():
        value = defaults.value(config.name)
        if config.broker_name and value is not None:
            found.append(_entry(config.broker_name, value, config.type, config.documentation, ConfigSource.DEFAULT))
    return sorted(found)


def _of_setting(name: str, value: str | int, setting: str) -> ConfigEntry:
    if isinstance(value, bool):
        text, type = str(value).lower(), ConfigType.BOOLEAN
    elif isinstance(value, str):
        text, type = value, ConfigType.STRING
    else:
        text, type = str(value), ConfigType.LONG if name in _LONG else ConfigType.INT
    return _entry(name, text, type, f"The bridge's setting {setting}.", ConfigSource.STATIC_BROKER)


def _entry(name: str, value: str, type: ConfigType, documentation: str, source: ConfigSource) -> ConfigEntry:
    return ConfigEntry(name, value, True, source, type, documentation, ((name, value, source),))
