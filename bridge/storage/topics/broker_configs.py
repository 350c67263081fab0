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


def broker_configs(settings: Settings, advertised: str, defaults: TopicDefaults) -> list[ConfigEntry]:
    """Every config by name, with those that topics inherit."""
    kafka, groups = settings.kafka, settings.groups
    directory = f"persistent://{settings.pulsar.full_namespace}"
    static: tuple[tuple[str, object, ConfigType, str], ...] = (
        ("advertised.listeners", f"PLAINTEXT://{advertised}", ConfigType.STRING, "kafka.advertised"),
        (
            "auto.create.topics.enable",
            str(kafka.auto_create_topics).lower(),
            ConfigType.BOOLEAN,
            "kafka.auto_create_topics",
        ),
        ("broker.id", kafka.node_id, ConfigType.INT, "kafka.node_id"),
        ("connections.max.idle.ms", int(kafka.idle_seconds * 1000), ConfigType.LONG, "kafka.idle_seconds"),
        ("fetch.max.bytes", kafka.max_fetch_bytes, ConfigType.INT, "kafka.max_fetch_bytes"),
        (
            "group.initial.rebalance.delay.ms",
            groups.initial_rebalance_delay_ms,
            ConfigType.INT,
            "groups.initial_rebalance_delay_ms",
        ),
        (
            "group.max.session.timeout.ms",
            groups.max_session_timeout_ms,
            ConfigType.INT,
            "groups.max_session_timeout_ms",
        ),
        (
            "group.min.session.timeout.ms",
            groups.min_session_timeout_ms,
            ConfigType.INT,
            "groups.min_session_timeout_ms",
        ),
        ("log.dirs", directory, ConfigType.STRING, "pulsar.tenant, pulsar.namespace: where the records are"),
        ("max.connections", kafka.max_connections, ConfigType.INT, "kafka.max_connections"),
        ("max.connections.per.ip", kafka.max_connections_per_ip, ConfigType.INT, "kafka.max_connections_per_ip"),
        ("node.id", kafka.node_id, ConfigType.INT, "kafka.node_id"),
        ("num.partitions", kafka.default_partitions, ConfigType.INT, "kafka.default_partitions"),
        (
            "offset.metadata.max.bytes",
            groups.max_offset_metadata_bytes,
            ConfigType.INT,
            "groups.max_offset_metadata_bytes",
        ),
        (
            "offsets.retention.minutes",
            groups.offsets_retention_minutes,
            ConfigType.INT,
            "groups.offsets_retention_minutes",
        ),
        ("offsets.topic.num.partitions", groups.slots, ConfigType.INT, "groups.slots"),
        ("queued.max.request.bytes", kafka.memory_budget_bytes, ConfigType.LONG, "kafka.memory_budget_bytes"),
        ("socket.request.max.bytes", kafka.max_request_bytes, ConfigType.INT, "kafka.max_request_bytes"),
    )
    found = [
        _entry(name, str(value), type, f"The bridge's setting {setting}.", ConfigSource.STATIC_BROKER)
        for name, value, type, setting in static
    ]
    found += [_entry(*fixed, ConfigSource.DEFAULT) for fixed in _ALWAYS]
    for config in TABLE.values():
        value = defaults.value(config.name)
        if config.broker_name and value is not None:
            found.append(_entry(config.broker_name, value, config.type, config.documentation, ConfigSource.DEFAULT))
    return sorted(found)


def _entry(name: str, value: str, type: ConfigType, documentation: str, source: ConfigSource) -> ConfigEntry:
    return ConfigEntry(name, value, True, source, type, documentation, ((name, value, source),))
