"""Configs: described and altered, of topics, brokers, groups and what has none."""

from __future__ import annotations

from typing import Any

from bridge.apis import alter_configs, describe_configs, incremental_alter_configs, list_config_resources
from tests.clients.refusals.case import Case
from tests.clients.refusals.topics import spare

UNKNOWN, TOPIC, BROKER, LOGGER, METRICS, GROUP = 0, 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
PIN: list[str] = []


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
    Case("unknown topic", DESCRIBE, lambda w: describe(TOPIC, w.missing), PIN),
    Case("wrong topic name", DESCRIBE, lambda w: describe(TOPIC, "a b"), PIN),
    Case("no topic name", DESCRIBE, lambda w: describe(TOPIC, ""), PIN),
    Case("internal topic", DESCRIBE, lambda w: describe(TOPIC, "__cluster_metadata"), PIN),
    Case("unknown config", DESCRIBE, lambda w: describe(TOPIC, w.topic, "no.such"), PIN),
    Case("unknown broker", DESCRIBE, lambda w: describe(BROKER, "77"), PIN),
    Case("broker that is no number", DESCRIBE, lambda w: describe(BROKER, "first"), PIN),
    Case("all brokers", DESCRIBE, lambda w: describe(BROKER, ""), PIN),
    Case("loggers of an unknown broker", DESCRIBE, lambda w: describe(LOGGER, "77"), PIN),
    Case("loggers of no broker", DESCRIBE, lambda w: describe(LOGGER, ""), PIN),
    Case("loggers of a broker that is no number", DESCRIBE, lambda w: describe(LOGGER, "first"), PIN),
    Case("loggers", DESCRIBE, lambda w: describe(LOGGER, str(w.node)), PIN),
    Case("metrics without a name", DESCRIBE, lambda w: describe(METRICS, ""), PIN),
    Case("metrics", DESCRIBE, lambda w: describe(METRICS, "no-such"), PIN),
    Case("group without a name", DESCRIBE, lambda w: describe(GROUP, ""), PIN),
    Case("group", DESCRIBE, lambda w: describe(GROUP, "no-such"), PIN),
    Case("unknown type", DESCRIBE, lambda w: describe(UNKNOWN, "x"), PIN),
    Case("type 99", DESCRIBE, lambda w: describe(99, "x"), PIN),
    #
    Case("unknown topic", REPLACE, lambda w: replace(TOPIC, w.missing, ("retention.ms", "1000")), PIN),
    Case("wrong topic name", REPLACE, lambda w: replace(TOPIC, "a b", ("retention.ms", "1000")), PIN),
    Case("unknown config", REPLACE, lambda w: replace(TOPIC, w.topic, ("no.such", "1")), PIN),
    Case("no value", REPLACE, lambda w: replace(TOPIC, w.topic, ("retention.ms", None)), PIN),
    Case("no number", REPLACE, lambda w: replace(TOPIC, w.topic, ("retention.ms", "soon")), PIN),
    Case("too small", REPLACE, lambda w: replace(TOPIC, w.topic, ("retention.ms", "-2")), PIN),
    Case("named twice", REPLACE, lambda w: replace(TOPIC, w.topic, *[("retention.ms", "1000")] * 2), PIN),
    Case("unknown broker", REPLACE, lambda w: replace(BROKER, "77", ("num.io.threads", "9")), PIN),
    Case("broker that is no number", REPLACE, lambda w: replace(BROKER, "first", ("num.io.threads", "9")), PIN),
    Case("read-only config of a broker", REPLACE, lambda w: replace(BROKER, str(w.node), ("node.id", "9")), PIN),
    Case("unknown type", REPLACE, lambda w: replace(UNKNOWN, "x", ("a", "b")), PIN),
    Case("loggers", REPLACE, lambda w: replace(LOGGER, str(w.node), ("root", "INFO")), PIN),
    #
    Case("unknown topic", CHANGE, lambda w: change(TOPIC, w.missing, ("retention.ms", SET, "1000")), PIN),
    Case("wrong topic name", CHANGE, lambda w: change(TOPIC, "a b", ("retention.ms", SET, "1000")), PIN),
    Case("no topic name", CHANGE, lambda w: change(TOPIC, "", ("retention.ms", SET, "1000")), PIN),
    Case("unknown config", CHANGE, lambda w: change(TOPIC, w.topic, ("no.such", SET, "1")), PIN),
    Case("unknown config, deleted", CHANGE, lambda w: change(TOPIC, w.topic, ("no.such", DELETE, None)), PIN),
    Case("unknown config, added to", CHANGE, lambda w: change(TOPIC, w.topic, ("no.such", APPEND, "1")), PIN),
    Case("no value", CHANGE, lambda w: change(TOPIC, w.topic, ("retention.ms", SET, None)), PIN),
    Case("no value to add", CHANGE, lambda w: change(TOPIC, w.topic, ("cleanup.policy", APPEND, None)), PIN),
    Case("no number", CHANGE, lambda w: change(TOPIC, w.topic, ("retention.ms", SET, "soon")), PIN),
    Case("no whole number", CHANGE, lambda w: change(TOPIC, w.topic, ("retention.ms", SET, "1.5")), PIN),
    Case("too large for its type", CHANGE, lambda w: change(TOPIC, w.topic, ("segment.bytes", SET, "9" * 12)), PIN),
    Case("empty", CHANGE, lambda w: change(TOPIC, w.topic, ("retention.ms", SET, "")), PIN),
    Case("too small", CHANGE, lambda w: change(TOPIC, w.topic, ("retention.ms", SET, "-2")), PIN),
    Case("below 0", CHANGE, lambda w: change(TOPIC, w.topic, ("max.message.bytes", SET, "-1")), PIN),
    Case("ratio above 1", CHANGE, lambda w: change(TOPIC, w.topic, ("min.cleanable.dirty.ratio", SET, "2")), PIN),
    Case("ratio that is no number", CHANGE, lambda w: change(TOPIC, w.topic, ("min.cleanable.dirty.ratio", SET, "x")), PIN),
    Case("no boolean", CHANGE, lambda w: change(TOPIC, w.topic, ("preallocate", SET, "perhaps")), PIN),
    Case("no codec", CHANGE, lambda w: change(TOPIC, w.topic, ("compression.type", SET, "rar")), PIN),
    Case("no policy", CHANGE, lambda w: change(TOPIC, w.topic, ("cleanup.policy", SET, "burn")), PIN),
    Case("no policy to add", CHANGE, lambda w: change(TOPIC, w.topic, ("cleanup.policy", APPEND, "burn")), PIN),
    Case("empty policy", CHANGE, lambda w: change(TOPIC, spare(w)[0], ("cleanup.policy", SET, "")), PIN),
    Case("no timestamp type", CHANGE, lambda w: change(TOPIC, w.topic, ("message.timestamp.type", SET, "never")), PIN),
    Case("segment.bytes too small", CHANGE, lambda w: change(TOPIC, w.topic, ("segment.bytes", SET, "13")), PIN),
    Case("segment.ms too small", CHANGE, lambda w: change(TOPIC, w.topic, ("segment.ms", SET, "0")), PIN),
    Case("segment.jitter.ms too small", CHANGE, lambda w: change(TOPIC, w.topic, ("segment.jitter.ms", SET, "-1")), PIN),
    Case("segment.index.bytes too small", CHANGE, lambda w: change(TOPIC, w.topic, ("segment.index.bytes", SET, "3")), PIN),
    Case("index.interval.bytes too small", CHANGE, lambda w: change(TOPIC, w.topic, ("index.interval.bytes", SET, "-1")), PIN),
    Case("file.delete.delay.ms too small", CHANGE, lambda w: change(TOPIC, w.topic, ("file.delete.delay.ms", SET, "-1")), PIN),
    Case("flush.messages too small", CHANGE, lambda w: change(TOPIC, w.topic, ("flush.messages", SET, "0")), PIN),
    Case("flush.ms too small", CHANGE, lambda w: change(TOPIC, w.topic, ("flush.ms", SET, "-1")), PIN),
    Case("delete.retention.ms too small", CHANGE, lambda w: change(TOPIC, w.topic, ("delete.retention.ms", SET, "-1")), PIN),
    Case("min.compaction.lag.ms too small", CHANGE, lambda w: change(TOPIC, w.topic, ("min.compaction.lag.ms", SET, "-1")), PIN),
    Case("retention.bytes too small", CHANGE, lambda w: change(TOPIC, w.topic, ("retention.bytes", SET, "-2")), PIN),
    Case("min.insync.replicas too small", CHANGE, lambda w: change(TOPIC, w.topic, ("min.insync.replicas", SET, "0")), PIN),
    Case("max.compaction.lag.ms too small", CHANGE, lambda w: change(TOPIC, w.topic, ("max.compaction.lag.ms", SET, "0")), PIN),
    Case("min.cleanable.dirty.ratio too small", CHANGE, lambda w: change(TOPIC, w.topic, ("min.cleanable.dirty.ratio", SET, "-1")), PIN),
    Case("message.timestamp.before.max.ms too small", CHANGE, lambda w: change(TOPIC, w.topic, ("message.timestamp.before.max.ms", SET, "-1")), PIN),
    Case("message.timestamp.after.max.ms too small", CHANGE, lambda w: change(TOPIC, w.topic, ("message.timestamp.after.max.ms", SET, "-1")), PIN),
    Case("timestamps of the log", CHANGE,
         lambda w: change(TOPIC, spare(w)[0], ("message.timestamp.type", SET, "LogAppendTime")), PIN),
    Case("more replicas in sync than there are", CHANGE,
         lambda w: change(TOPIC, spare(w)[0], ("min.insync.replicas", SET, "9")), PIN),
    Case("another case of letters", CHANGE, lambda w: change(TOPIC, spare(w)[0], ("compression.type", SET, "GZIP")), PIN),
    Case("internal topic", CHANGE, lambda w: change(TOPIC, "__cluster_metadata", ("retention.ms", SET, "1000")), PIN),
    Case("no list to add to", CHANGE, lambda w: change(TOPIC, w.topic, ("retention.ms", APPEND, "1")), PIN),
    Case("no list to take from", CHANGE, lambda w: change(TOPIC, w.topic, ("retention.ms", SUBTRACT, "1")), PIN),
    Case("operation 9", CHANGE, lambda w: change(TOPIC, w.topic, ("retention.ms", 9, "1")), PIN),
    Case("named twice", CHANGE, lambda w: change(TOPIC, w.topic, *[("retention.ms", SET, "1000")] * 2), PIN),
    Case("resource named twice", CHANGE, lambda w: change(TOPIC, w.topic, ("retention.ms", SET, "1000"), times=2), PIN),
    Case("taken from, all that there is", CHANGE,
         lambda w: change(TOPIC, spare(w)[0], ("cleanup.policy", SUBTRACT, "delete")), PIN),
    Case("unknown broker", CHANGE, lambda w: change(BROKER, "77", ("num.io.threads", SET, "9")), PIN),
    Case("broker that is no number", CHANGE, lambda w: change(BROKER, "first", ("num.io.threads", SET, "9")), PIN),
    Case("read-only config of a broker", CHANGE, lambda w: change(BROKER, str(w.node), ("node.id", SET, "9")), PIN),
    Case("config of a broker", CHANGE, lambda w: change(BROKER, str(w.node), ("log.retention.ms", SET, "-1")), PIN),
    Case("config of a broker, deleted", CHANGE,
         lambda w: change(BROKER, str(w.node), ("leader.replication.throttled.rate", DELETE, None)), PIN),
    Case("unknown config of a broker, deleted", CHANGE, lambda w: change(BROKER, str(w.node), ("no.such", DELETE, None)), PIN),
    Case("loggers of an unknown broker", CHANGE, lambda w: change(LOGGER, "77", ("root", SET, "INFO")), PIN),
    Case("unknown logger", CHANGE, lambda w: change(LOGGER, str(w.node), ("no.such", SET, "INFO")), PIN),
    Case("level that is none", CHANGE, lambda w: change(LOGGER, str(w.node), ("root", SET, "LOUD")), PIN),
    Case("metrics without a name", CHANGE, lambda w: change(METRICS, "", ("interval.ms", SET, "1000")), PIN),
    Case("unknown config of metrics", CHANGE, lambda w: change(METRICS, "m", ("no.such", SET, "1")), PIN),
    Case("metrics", CHANGE, lambda w: change(METRICS, "m", ("interval.ms", SET, "10")), PIN),
    Case("group without a name", CHANGE, lambda w: change(GROUP, "", ("consumer.session.timeout.ms", SET, "46000")), PIN),
    Case("unknown config of a group", CHANGE, lambda w: change(GROUP, "g", ("no.such", SET, "1")), PIN),
    Case("group config that is no number", CHANGE,
         lambda w: change(GROUP, "g", ("consumer.session.timeout.ms", SET, "soon")), PIN),
    Case("group config that is too small", CHANGE,
         lambda w: change(GROUP, "g", ("consumer.session.timeout.ms", SET, "1")), PIN),
    Case("group config that is too large", CHANGE,
         lambda w: change(GROUP, "g", ("consumer.session.timeout.ms", SET, "99999999")), PIN),
    Case("group config, deleted", CHANGE, lambda w: change(GROUP, "g", ("consumer.session.timeout.ms", DELETE, None)), PIN),
    Case("group config that begins at no place", CHANGE,
         lambda w: change(GROUP, "g", ("share.auto.offset.reset", SET, "never")), PIN),
    Case("unknown type", CHANGE, lambda w: change(UNKNOWN, "x", ("a", SET, "b")), PIN),
    Case("type 99", CHANGE, lambda w: change(99, "x", ("a", SET, "b")), PIN),
    #
    Case("type 99", LIST, lambda w: list_config_resources.Request(resource_types=[99]), PIN),
    Case("unknown type", LIST, lambda w: list_config_resources.Request(resource_types=[UNKNOWN]), PIN),
    Case("all", LIST, lambda w: list_config_resources.Request(), PIN),
]  # fmt: skip
