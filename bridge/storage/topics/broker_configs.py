"""What a bridge says of itself as a Kafka broker's configs: read-only, for its settings are its operator's."""

from typing import Final

from bridge.config import Settings
from bridge.storage.topics.configs import TABLE, Entry, Facts, Kind, Source

_ALWAYS: Final = (
    ("default.replication.factor", "1", Kind.INT, "What is shown: Pulsar's own quorums say how many copies there are."),
    ("delete.topic.enable", "true", Kind.BOOLEAN, "Topics can be deleted."),
)


def broker_configs(settings: Settings, advertised: str, facts: Facts) -> list[Entry]:
    """Every config, by name; those that topics inherit with the values they inherit."""
    kafka, groups = settings.kafka, settings.groups
    directory = f"persistent://{settings.pulsar.full_namespace}"
    static: tuple[tuple[str, object, Kind, str], ...] = (
        ("advertised.listeners", f"PLAINTEXT://{advertised}", Kind.STRING, "kafka.advertised"),
        ("auto.create.topics.enable", str(kafka.auto_create_topics).lower(), Kind.BOOLEAN, "kafka.auto_create_topics"),
        ("broker.id", kafka.node_id, Kind.INT, "kafka.node_id"),
        ("connections.max.idle.ms", int(kafka.idle_seconds * 1000), Kind.LONG, "kafka.idle_seconds"),
        ("fetch.max.bytes", kafka.max_fetch_bytes, Kind.INT, "kafka.max_fetch_bytes"),
        ("group.initial.rebalance.delay.ms", groups.initial_rebalance_delay_ms, Kind.INT,
         "groups.initial_rebalance_delay_ms"),
        ("group.max.session.timeout.ms", groups.max_session_timeout_ms, Kind.INT, "groups.max_session_timeout_ms"),
        ("group.min.session.timeout.ms", groups.min_session_timeout_ms, Kind.INT, "groups.min_session_timeout_ms"),
        ("log.dirs", directory, Kind.STRING, "pulsar.tenant, pulsar.namespace: where the records are"),
        ("max.connections", kafka.max_connections, Kind.INT, "kafka.max_connections"),
        ("max.connections.per.ip", kafka.max_connections_per_ip, Kind.INT, "kafka.max_connections_per_ip"),
        ("node.id", kafka.node_id, Kind.INT, "kafka.node_id"),
        ("num.partitions", kafka.default_partitions, Kind.INT, "kafka.default_partitions"),
        ("offset.metadata.max.bytes", groups.max_offset_metadata_bytes, Kind.INT, "groups.max_offset_metadata_bytes"),
        ("offsets.retention.minutes", groups.offsets_retention_minutes, Kind.INT, "groups.offsets_retention_minutes"),
        ("offsets.topic.num.partitions", groups.slots, Kind.INT, "groups.slots"),
        ("queued.max.request.bytes", kafka.memory_budget_bytes, Kind.LONG, "kafka.memory_budget_bytes"),
        ("socket.request.max.bytes", kafka.max_request_bytes, Kind.INT, "kafka.max_request_bytes"),
    )  # fmt: skip
    found = [_entry(name, str(value), kind, f"The bridge's setting {about}.", Source.STATIC_BROKER)
             for name, value, kind, about in static]  # fmt: skip
    found += [_entry(name, value, kind, about, Source.DEFAULT) for name, value, kind, about in _ALWAYS]
    for config in TABLE.values():
        value = facts.default(config.name)
        if config.broker and value is not None:
            found.append(_entry(config.broker, value, config.kind, config.about, Source.DEFAULT))
    return sorted(found)


def _entry(name: str, value: str, kind: Kind, about: str, source: Source) -> Entry:
    return Entry(name, value, True, source, kind, about, ((name, value, source),))
