"""Configs: described and altered, of topics, brokers, groups and what has none."""

from __future__ import annotations

from typing import Any

from bridge.apis import alter_configs, describe_configs, incremental_alter_configs, list_config_resources
from tests.clients.refusals.case import Case
from tests.clients.refusals.topics import spare

UNKNOWN, TOPIC, BROKER, LOGGER, METRICS, GROUP = 0, 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


def describe(kind: int, name: str, *keys: str) -> Any:
    """A DescribeConfigs of one resource."""
    resource = describe_configs.RequestResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    return describe_configs.Request(resources=[resource])


def replace(kind: int, name: str, *configs: tuple[str, str | None]) -> Any:
    """An AlterConfigs of one resource."""
    values = [alter_configs.Config(name=name, value=value) for name, value in configs]
    resource = alter_configs.Resource(resource_type=kind, resource_name=name, configs=values)
    return alter_configs.Request(resources=[resource], validate_only=False)


def change(kind: int, name: str, *configs: tuple[str, int, str | None], times: int = 1) -> Any:
    """An IncrementalAlterConfigs of one resource."""
    values = [
        incremental_alter_configs.Config(name=name, config_operation=operation, value=value)
        for name, operation, value in configs
    ]
    resource = incremental_alter_configs.Resource(resource_type=kind, resource_name=name, configs=values)
    return incremental_alter_configs.Request(resources=[resource] * times, validate_only=False)


DESCRIBE = describe_configs.API
REPLACE = alter_configs.API
CHANGE = incremental_alter_configs.API
LIST = list_config_resources.API

CASES = [
    Case("unknown topic", DESCRIBE, lambda w: describe(TOPIC, w.missing), "UNKNOWN_TOPIC_OR_PARTITION"),
    Case("wrong topic name", DESCRIBE, lambda w: describe(TOPIC, "a b"),
         "INVALID_TOPIC_EXCEPTION: Topic name is invalid: 'a b' contains one or more characters other than ASCII "
         "alphanumerics, '.', '_' and '-'"),
    Case("no topic name", DESCRIBE, lambda w: describe(TOPIC, ""),
         "INVALID_TOPIC_EXCEPTION: Topic name is invalid: the empty string is not allowed"),
    Case("internal topic", DESCRIBE, lambda w: describe(TOPIC, "__cluster_metadata"), "UNKNOWN_TOPIC_OR_PARTITION"),
    Case("unknown config", DESCRIBE, lambda w: describe(TOPIC, w.topic, "no.such"), "NONE"),
    Case("unknown broker", DESCRIBE, lambda w: describe(BROKER, "77"),
         "INVALID_REQUEST: Unexpected broker id, expected {node} or empty string, but received 77"),
    Case("broker that is no number", DESCRIBE, lambda w: describe(BROKER, "first"),
         "INVALID_REQUEST: Broker id must be an integer, but it is: first"),
    Case("all brokers", DESCRIBE, lambda w: describe(BROKER, ""), "NONE"),
    Case("loggers of an unknown broker", DESCRIBE, lambda w: describe(LOGGER, "77"),
         "INVALID_REQUEST: Unexpected broker id, expected {node} but received 77"),
    Case("loggers of no broker", DESCRIBE, lambda w: describe(LOGGER, ""),
         "INVALID_REQUEST: Broker id must not be empty"),
    Case("loggers of a broker that is no number", DESCRIBE, lambda w: describe(LOGGER, "first"),
         "INVALID_REQUEST: Broker id must be an integer, but it is: first"),
    Case("loggers", DESCRIBE, lambda w: describe(LOGGER, str(w.node)), "NONE"),
    Case("metrics without a name", DESCRIBE, lambda w: describe(METRICS, ""),
         "INVALID_REQUEST: Client metrics subscription name must not be empty"),
    Case("metrics", DESCRIBE, lambda w: describe(METRICS, "no-such"), "NONE"),
    Case("group without a name", DESCRIBE, lambda w: describe(GROUP, ""),
         "INVALID_REQUEST: Group name must not be empty"),
    Case("group", DESCRIBE, lambda w: describe(GROUP, "no-such"), "NONE"),
    Case("unknown type", DESCRIBE, lambda w: describe(UNKNOWN, "x"),
         "INVALID_REQUEST: This most likely occurs because of a request being malformed by the client library or "
         "the message was sent to an incompatible broker. See the broker logs for more details."),
    Case("type 99", DESCRIBE, lambda w: describe(99, "x"),
         "INVALID_REQUEST: This most likely occurs because of a request being malformed by the client library or "
         "the message was sent to an incompatible broker. See the broker logs for more details."),
    #
    Case("unknown topic", REPLACE, lambda w: replace(TOPIC, w.missing, ("retention.ms", "1000")),
         "UNKNOWN_TOPIC_OR_PARTITION: The topic '{missing}' does not exist."),
    Case("wrong topic name", REPLACE, lambda w: replace(TOPIC, "a b", ("retention.ms", "1000")),
         "INVALID_TOPIC_EXCEPTION: Topic name is invalid: 'a b' contains one or more characters other than ASCII "
         "alphanumerics, '.', '_' and '-'"),
    Case("unknown config", REPLACE, lambda w: replace(TOPIC, w.topic, ("no.such", "1")),
         "INVALID_CONFIG: Unknown topic config name: no.such"),
    Case("no value", REPLACE, lambda w: replace(TOPIC, w.topic, ("retention.ms", None)),
         "INVALID_REQUEST: Null value not supported for : retention.ms"),
    Case("no number", REPLACE, lambda w: replace(TOPIC, w.topic, ("retention.ms", "soon")),
         "INVALID_CONFIG: Invalid value soon for configuration retention.ms: Not a number of type LONG"),
    Case("too small", REPLACE, lambda w: replace(TOPIC, w.topic, ("retention.ms", "-2")),
         "INVALID_CONFIG: Invalid value -2 for configuration retention.ms: Value must be at least -1"),
    Case("named twice", REPLACE, lambda w: replace(TOPIC, w.topic, *[("retention.ms", "1000")] * 2),
         "INVALID_REQUEST: Error due to duplicate config keys"),
    Case("unknown broker", REPLACE, lambda w: replace(BROKER, "77", ("num.io.threads", "9")),
         "INVALID_REQUEST: Unexpected broker id, expected {node}, but received 77"),
    Case("broker that is no number", REPLACE, lambda w: replace(BROKER, "first", ("num.io.threads", "9")),
         "INVALID_REQUEST: Node id must be an integer, but it is: first"),
    Case("read-only config of a broker", REPLACE, lambda w: replace(BROKER, str(w.node), ("node.id", "9")),
         "INVALID_REQUEST: Cannot update these configs dynamically: Set(node.id)"),
    Case("unknown type", REPLACE, lambda w: replace(UNKNOWN, "x", ("a", "b")),
         "INVALID_REQUEST: Unknown resource type 0"),
    Case("loggers", REPLACE, lambda w: replace(LOGGER, str(w.node), ("root", "INFO")),
         "INVALID_REQUEST: Unknown resource type 8",
         ours="INVALID_CONFIG: The bridge's setting log.level says what is logged.",
         why="loggers cannot be altered by either request"),
    #
    Case("unknown topic", CHANGE, lambda w: change(TOPIC, w.missing, ("retention.ms", SET, "1000")),
         "UNKNOWN_TOPIC_OR_PARTITION: The topic '{missing}' does not exist."),
    Case("wrong topic name", CHANGE, lambda w: change(TOPIC, "a b", ("retention.ms", SET, "1000")),
         "INVALID_TOPIC_EXCEPTION: Topic name is invalid: 'a b' contains one or more characters other than ASCII "
         "alphanumerics, '.', '_' and '-'"),
    Case("no topic name", CHANGE, lambda w: change(TOPIC, "", ("retention.ms", SET, "1000")),
         "INVALID_REQUEST: Default topic resources are not allowed."),
    Case("unknown config", CHANGE, lambda w: change(TOPIC, w.topic, ("no.such", SET, "1")),
         "INVALID_CONFIG: Unknown topic config name: no.such"),
    Case("unknown config, deleted", CHANGE, lambda w: change(TOPIC, w.topic, ("no.such", DELETE, None)), "NONE"),
    Case("unknown config, added to", CHANGE, lambda w: change(TOPIC, w.topic, ("no.such", APPEND, "1")),
         "INVALID_CONFIG: Can't APPEND to key no.such because its type is not LIST."),
    Case("no value", CHANGE, lambda w: change(TOPIC, w.topic, ("retention.ms", SET, None)),
         "INVALID_REQUEST: Null value not supported for : retention.ms"),
    Case("no value to add", CHANGE, lambda w: change(TOPIC, w.topic, ("cleanup.policy", APPEND, None)),
         "INVALID_REQUEST: Null value not supported for : cleanup.policy"),
    Case("no number", CHANGE, lambda w: change(TOPIC, w.topic, ("retention.ms", SET, "soon")),
         "INVALID_CONFIG: Invalid value soon for configuration retention.ms: Not a number of type LONG"),
    Case("no whole number", CHANGE, lambda w: change(TOPIC, w.topic, ("retention.ms", SET, "1.5")),
         "INVALID_CONFIG: Invalid value 1.5 for configuration retention.ms: Not a number of type LONG"),
    Case("too large for its type", CHANGE, lambda w: change(TOPIC, w.topic, ("segment.bytes", SET, "9" * 12)),
         "INVALID_CONFIG: Invalid value 999999999999 for configuration segment.bytes: Not a number of type INT"),
    Case("empty", CHANGE, lambda w: change(TOPIC, w.topic, ("retention.ms", SET, "")),
         "INVALID_CONFIG: Invalid value  for configuration retention.ms: Not a number of type LONG"),
    Case("too small", CHANGE, lambda w: change(TOPIC, w.topic, ("retention.ms", SET, "-2")),
         "INVALID_CONFIG: Invalid value -2 for configuration retention.ms: Value must be at least -1"),
    Case("below 0", CHANGE, lambda w: change(TOPIC, w.topic, ("max.message.bytes", SET, "-1")),
         "INVALID_CONFIG: Invalid value -1 for configuration max.message.bytes: Value must be at least 0"),
    Case("ratio above 1", CHANGE, lambda w: change(TOPIC, w.topic, ("min.cleanable.dirty.ratio", SET, "2")),
         "INVALID_CONFIG: Invalid value 2.0 for configuration min.cleanable.dirty.ratio: Value must be no more "
         "than 1"),
    Case("ratio that is no number", CHANGE, lambda w: change(TOPIC, w.topic, ("min.cleanable.dirty.ratio", SET, "x")),
         "INVALID_CONFIG: Invalid value x for configuration min.cleanable.dirty.ratio: Not a number of type DOUBLE"),
    Case("no boolean", CHANGE, lambda w: change(TOPIC, w.topic, ("preallocate", SET, "perhaps")),
         "INVALID_CONFIG: Invalid value perhaps for configuration preallocate: Expected value to be either true or "
         "false"),
    Case("no codec", CHANGE, lambda w: change(TOPIC, w.topic, ("compression.type", SET, "rar")),
         "INVALID_CONFIG: Invalid value rar for configuration compression.type: String must be one of: "
         "uncompressed, zstd, lz4, snappy, gzip, producer"),
    Case("no policy", CHANGE, lambda w: change(TOPIC, w.topic, ("cleanup.policy", SET, "burn")),
         "INVALID_CONFIG: Invalid value burn for configuration cleanup.policy: String must be one of: compact, "
         "delete"),
    Case("no policy to add", CHANGE, lambda w: change(TOPIC, w.topic, ("cleanup.policy", APPEND, "burn")),
         "INVALID_CONFIG: Invalid value burn for configuration cleanup.policy: String must be one of: compact, "
         "delete"),
    Case("empty policy", CHANGE, lambda w: change(TOPIC, spare(w)[0], ("cleanup.policy", SET, "")), "NONE"),
    Case("no timestamp type", CHANGE, lambda w: change(TOPIC, w.topic, ("message.timestamp.type", SET, "never")),
         "INVALID_CONFIG: Invalid value never for configuration message.timestamp.type: String must be one of: "
         "CreateTime, LogAppendTime"),
    Case("segment.bytes too small", CHANGE, lambda w: change(TOPIC, w.topic, ("segment.bytes", SET, "13")),
         "INVALID_CONFIG: Invalid value 13 for configuration segment.bytes: Value must be at least 1048576",
         ours="INVALID_CONFIG: Invalid value 13 for configuration segment.bytes: Value must be at least 14",
         why="smaller ones were legal before Kafka 4"),
    Case("segment.ms too small", CHANGE, lambda w: change(TOPIC, w.topic, ("segment.ms", SET, "0")),
         "INVALID_CONFIG: Invalid value 0 for configuration segment.ms: Value must be at least 1"),
    Case("segment.jitter.ms too small", CHANGE, lambda w: change(TOPIC, w.topic, ("segment.jitter.ms", SET, "-1")),
         "INVALID_CONFIG: Invalid value -1 for configuration segment.jitter.ms: Value must be at least 0"),
    Case("segment.index.bytes too small", CHANGE, lambda w: change(TOPIC, w.topic, ("segment.index.bytes", SET, "3")),
         "INVALID_CONFIG: Invalid value 3 for configuration segment.index.bytes: Value must be at least 4"),
    Case("index.interval.bytes too small", CHANGE, lambda w: change(TOPIC, w.topic, ("index.interval.bytes", SET,
         "-1")), "INVALID_CONFIG: Invalid value -1 for configuration index.interval.bytes: Value must be at least 0"),
    Case("file.delete.delay.ms too small", CHANGE, lambda w: change(TOPIC, w.topic, ("file.delete.delay.ms", SET,
         "-1")), "INVALID_CONFIG: Invalid value -1 for configuration file.delete.delay.ms: Value must be at least 0"),
    Case("flush.messages too small", CHANGE, lambda w: change(TOPIC, w.topic, ("flush.messages", SET, "0")),
         "INVALID_CONFIG: Invalid value 0 for configuration flush.messages: Value must be at least 1"),
    Case("flush.ms too small", CHANGE, lambda w: change(TOPIC, w.topic, ("flush.ms", SET, "-1")),
         "INVALID_CONFIG: Invalid value -1 for configuration flush.ms: Value must be at least 0"),
    Case("delete.retention.ms too small", CHANGE, lambda w: change(TOPIC, w.topic, ("delete.retention.ms", SET, "-1")),
         "INVALID_CONFIG: Invalid value -1 for configuration delete.retention.ms: Value must be at least 0"),
    Case("min.compaction.lag.ms too small", CHANGE, lambda w: change(TOPIC, w.topic, ("min.compaction.lag.ms", SET,
         "-1")), "INVALID_CONFIG: Invalid value -1 for configuration min.compaction.lag.ms: Value must be at least 0"),
    Case("retention.bytes too small", CHANGE, lambda w: change(TOPIC, w.topic, ("retention.bytes", SET, "-2")), "NONE"),
    Case("min.insync.replicas too small", CHANGE, lambda w: change(TOPIC, w.topic, ("min.insync.replicas", SET, "0")),
         "INVALID_CONFIG: Invalid value 0 for configuration min.insync.replicas: Value must be at least 1"),
    Case("max.compaction.lag.ms too small", CHANGE, lambda w: change(TOPIC, w.topic, ("max.compaction.lag.ms", SET,
         "0")), "INVALID_CONFIG: Invalid value 0 for configuration max.compaction.lag.ms: Value must be at least 1"),
    Case("min.cleanable.dirty.ratio too small", CHANGE, lambda w: change(TOPIC, w.topic, ("min.cleanable.dirty.ratio",
         SET, "-1")),
         "INVALID_CONFIG: Invalid value -1.0 for configuration min.cleanable.dirty.ratio: Value must be at least 0"),
    Case("message.timestamp.before.max.ms too small", CHANGE, lambda w: change(TOPIC, w.topic,
         ("message.timestamp.before.max.ms", SET, "-1")),
         "INVALID_CONFIG: Invalid value -1 for configuration message.timestamp.before.max.ms: Value must be at "
         "least 0"),
    Case("message.timestamp.after.max.ms too small", CHANGE, lambda w: change(TOPIC, w.topic,
         ("message.timestamp.after.max.ms", SET, "-1")),
         "INVALID_CONFIG: Invalid value -1 for configuration message.timestamp.after.max.ms: Value must be at "
         "least 0"),
    Case("timestamps of the log", CHANGE, lambda w: change(TOPIC, spare(w)[0], ("message.timestamp.type", SET,
         "LogAppendTime")), "NONE",
         ours="INVALID_CONFIG: message.timestamp.type is CreateTime here and cannot be LogAppendTime: Timestamps are "
         "the producers'.", why="this config is fixed"),
    Case("more replicas in sync than there are", CHANGE, lambda w: change(TOPIC, spare(w)[0], ("min.insync.replicas",
         SET, "9")), "NONE",
         ours="INVALID_CONFIG: min.insync.replicas is 1 here and cannot be 9: The copies that have acknowledged when a "
         "produce is answered: Pulsar's ack quorum for the topic. Asking for fewer is granted.",
         why="this config is fixed"),
    Case("another case of letters", CHANGE, lambda w: change(TOPIC, spare(w)[0], ("compression.type", SET, "GZIP")),
         "INVALID_CONFIG: Invalid value GZIP for configuration compression.type: String must be one of: "
         "uncompressed, zstd, lz4, snappy, gzip, producer"),
    Case("internal topic", CHANGE, lambda w: change(TOPIC, "__cluster_metadata", ("retention.ms", SET, "1000")),
         "UNKNOWN_TOPIC_OR_PARTITION: The topic '__cluster_metadata' does not exist."),
    Case("no list to add to", CHANGE, lambda w: change(TOPIC, w.topic, ("retention.ms", APPEND, "1")),
         "INVALID_CONFIG: Can't APPEND to key retention.ms because its type is not LIST."),
    Case("no list to take from", CHANGE, lambda w: change(TOPIC, w.topic, ("retention.ms", SUBTRACT, "1")),
         "INVALID_CONFIG: Can't SUBTRACT to key retention.ms because its type is not LIST."),
    Case("operation 9", CHANGE, lambda w: change(TOPIC, w.topic, ("retention.ms", 9, "1")), "UNKNOWN_SERVER_ERROR",
         ours="INVALID_REQUEST: there is no operation 9 on configs", why="Kafka fails on it"),
    Case("named twice", CHANGE, lambda w: change(TOPIC, w.topic, *[("retention.ms", SET, "1000")] * 2),
         "INVALID_REQUEST: Error due to duplicate config keys"),
    Case("resource named twice", CHANGE, lambda w: change(TOPIC, w.topic, ("retention.ms", SET, "1000"), times=2),
         "INVALID_REQUEST: Each resource must appear at most once. | INVALID_REQUEST: Each resource must appear at "
         "most once."),
    Case("taken from, all that there is", CHANGE, lambda w: change(TOPIC, spare(w)[0], ("cleanup.policy", SUBTRACT,
         "delete")), "NONE"),
    Case("unknown broker", CHANGE, lambda w: change(BROKER, "77", ("num.io.threads", SET, "9")),
         "INVALID_REQUEST: Unexpected broker id, expected {node}, but received 77"),
    Case("broker that is no number", CHANGE, lambda w: change(BROKER, "first", ("num.io.threads", SET, "9")),
         "INVALID_REQUEST: Node id must be an integer, but it is: first"),
    Case("read-only config of a broker", CHANGE, lambda w: change(BROKER, str(w.node), ("node.id", SET, "9")),
         "INVALID_REQUEST: Cannot update these configs dynamically: Set(node.id)"),
    Case("config of a broker", CHANGE, lambda w: change(BROKER, str(w.node), ("log.retention.ms", SET, "-1")), "NONE",
         ours="INVALID_REQUEST: Cannot update these configs dynamically: Set(log.retention.ms)",
         why="no config of a broker is dynamic"),
    Case("config of a broker, deleted", CHANGE, lambda w: change(BROKER, str(w.node),
         ("leader.replication.throttled.rate", DELETE, None)), "NONE"),
    Case("unknown config of a broker, deleted", CHANGE, lambda w: change(BROKER, str(w.node), ("no.such", DELETE,
         None)), "NONE"),
    Case("loggers of an unknown broker", CHANGE, lambda w: change(LOGGER, "77", ("root", SET, "INFO")),
         "INVALID_REQUEST: Unexpected node id. Expected {node}, but received 77"),
    Case("unknown logger", CHANGE, lambda w: change(LOGGER, str(w.node), ("no.such", SET, "INFO")),
         "INVALID_CONFIG: Logger no.such does not exist!",
         ours="INVALID_CONFIG: The bridge's setting log.level says what is logged.", why="no level can be altered"),
    Case("level that is none", CHANGE, lambda w: change(LOGGER, str(w.node), ("root", SET, "LOUD")),
         "INVALID_CONFIG: Cannot set the log level of root to LOUD as it is not a supported log level. Valid log "
         "levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN",
         ours="INVALID_CONFIG: The bridge's setting log.level says what is logged.", why="no level can be altered"),
    Case("metrics without a name", CHANGE, lambda w: change(METRICS, "", ("interval.ms", SET, "1000")),
         "INVALID_REQUEST: Subscription name can't be empty"),
    Case("unknown config of metrics", CHANGE, lambda w: change(METRICS, "m", ("no.such", SET, "1")),
         "INVALID_REQUEST: Unknown client metrics configuration: no.such",
         ours="INVALID_REQUEST: There are no subscriptions to what clients measure here (KIP-714).",
         why="there is no telemetry"),
    Case("metrics", CHANGE, lambda w: change(METRICS, "m", ("interval.ms", SET, "10")),
         "INVALID_REQUEST: Invalid value 10 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
         ours="INVALID_REQUEST: There are no subscriptions to what clients measure here (KIP-714).",
         why="there is no telemetry"),
    Case("group without a name", CHANGE, lambda w: change(GROUP, "", ("consumer.session.timeout.ms", SET, "46000")),
         "INVALID_REQUEST: Default group resources are not allowed."),
    Case("unknown config of a group", CHANGE, lambda w: change(GROUP, "g", ("no.such", SET, "1")),
         "INVALID_CONFIG: Unknown group config name: no.such"),
    Case("group config that is no number", CHANGE, lambda w: change(GROUP, "g", ("consumer.session.timeout.ms", SET,
         "soon")),
         "INVALID_CONFIG: Invalid value soon for configuration consumer.session.timeout.ms: Not a number of type "
         "INT"),
    Case("group config that is too small", CHANGE, lambda w: change(GROUP, "g", ("consumer.session.timeout.ms", SET,
         "1")),
         "INVALID_CONFIG: consumer.session.timeout.ms must be greater than or equal to "
         "group.consumer.min.session.timeout.ms"),
    Case("group config that is too large", CHANGE, lambda w: change(GROUP, "g", ("consumer.session.timeout.ms", SET,
         "99999999")),
         "INVALID_CONFIG: consumer.session.timeout.ms must be less than or equal to "
         "group.consumer.max.session.timeout.ms"),
    Case("group config, deleted", CHANGE, lambda w: change(GROUP, "g", ("consumer.session.timeout.ms", DELETE, None)),
         "NONE"),
    Case("group config that begins at no place", CHANGE, lambda w: change(GROUP, "g", ("share.auto.offset.reset", SET,
         "never")),
         "INVALID_CONFIG: Invalid value never for configuration share.auto.offset.reset: Invalid value `never` for "
         "configuration share.auto.offset.reset. The value must be either 'earliest', 'latest' or of the format "
         "'by_duration:<PnDTnHnMn.nS>'."),
    Case("unknown type", CHANGE, lambda w: change(UNKNOWN, "x", ("a", SET, "b")),
         "INVALID_REQUEST: Unknown resource type 0"),
    Case("type 99", CHANGE, lambda w: change(99, "x", ("a", SET, "b")), "INVALID_REQUEST: Unknown resource type 99"),
    #
    Case("type 99", LIST, lambda w: list_config_resources.Request(resource_types=[99]), "UNSUPPORTED_VERSION"),
    Case("unknown type", LIST, lambda w: list_config_resources.Request(resource_types=[UNKNOWN]),
         "UNSUPPORTED_VERSION"),
    Case("all", LIST, lambda w: list_config_resources.Request(), "NONE"),
]  # fmt: skip
